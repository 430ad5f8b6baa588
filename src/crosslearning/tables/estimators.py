"""What ``crosslearning fit`` does, as scikit-learn estimators."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from crosslearning.archive import read_archive
from crosslearning.evaluation.records import from_json
from crosslearning.tables.estimator_base import ESTIMATOR, KIND, RESULTS, CrossTable, digest_of
from crosslearning.tables.findings import Findings
from crosslearning.tables.model import TableModel
from crosslearning.tables.settings import options_listed
from crosslearning.tasks.estimators import TaskClassifier, TaskRegressor
from crosslearning.tasks.labels import as_objects


@options_listed
@dataclass(eq=False, repr=False, kw_only=True)
class CrossRegressor(TaskRegressor, CrossTable):
    """The best regression for related tasks that ``crosslearning fit`` can find for a table.

    Linear models, curves and boosted trees, each as one pooled model, cross-learned and as separate
    models, are compared on held-out rows. The best of them, or a blend, is fitted to all rows.

    Parameters
    ----------
    task_column : str or list of str, optional
        Column of X that holds the task labels, in place of the argument `tasks`; several columns
        of groups within groups, outermost first.
    {options}
    n_jobs : int, optional
        Number of processes that try models; 1 by default, -1 for one per core.
    random_state : int, RandomState or None, default=0
        Seed of the folds.

    Attributes
    ----------
    model_ : TableModel
        The fitted model. Its `results` hold all findings, its `coefficients` those of the tasks.
    candidates_ : DataFrame
        One row per model tried, best first: ``name``, ``label``, ``end`` (how much tasks share),
        ``score`` (errors are positive), ``standard_error``, and whether it was ``chosen``.
    comparison_ : Comparison
        The choice among all models, as "cross", compared with the same choice among pooled and
        among separate models. With more than 2,000 tasks, a dict of what was recorded of it.
    sentence_ : str
        Whether sharing helps, and by how much.
    tasks_ : array of shape (n_tasks,)
        Labels of the tasks; of groups within groups tuples of labels, outermost first.
    n_features_in_ : int
        Number of columns of X, without `task_column`.
    feature_names_in_ : array of str
        Their names.

    See Also
    --------
    crosslearning.tables.fit_table : The same for a table that includes task and target.

    Examples
    --------
    >>> from crosslearning import CrossRegressor
    >>> from crosslearning.datasets import load_hsb82
    >>> pupils = load_hsb82().frame.head(400)
    >>> X, y = pupils[["school", "ses", "female"]], pupils["math"]
    >>> model = CrossRegressor(task_column="school", base="linear").fit(X, y)
    >>> lower, upper = model.predict_interval(X, coverage=0.8)
    >>> model.predict(X).shape, bool((lower < upper).all())
    ((400,), True)
    """

    family: str = "auto"
    quantile: float | None = None

    _kind: ClassVar[str] = "regression"

    def predict_interval(
        self, X: ArrayLike, tasks: ArrayLike | str | None = None, coverage: float = 0.9
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lower and upper ends of prediction intervals, two arrays of shape (n_rows,).

        Parameters
        ----------
        X, tasks
            As in `predict`.
        coverage : float, default=0.9
            Probability that a target lies in its interval.
        """
        if self._fitted.quantile is not None:
            raise ValueError(
                "A model with family='quantile' has no intervals. Fit one model for each end, such "
                "as quantile=0.05 and quantile=0.95."
            )
        predictions = self._predictions(X, tasks, coverage)
        return predictions["lower"].to_numpy(), predictions["upper"].to_numpy()

    def _predict(self, X: Any, tasks: Any) -> NDArray[Any]:
        return self._predictions(X, tasks)["prediction"].to_numpy()

    def _measure(self) -> Callable[..., float]:
        """Return R² or, for a quantile, D² of the pinball loss."""
        level = self._fitted.quantile
        if level is None:
            return super()._measure()
        from sklearn.metrics import d2_pinball_score

        return partial(d2_pinball_score, alpha=level)

    def _learn_target(self, y: NDArray[Any], source: Any) -> Any:  # noqa: ARG002
        return np.asarray(y, dtype=np.float64)


class CrossClassifier(TaskClassifier, CrossTable):
    """The best classification for related tasks that ``crosslearning fit`` can find for a table.

    Parameters and attributes are those of :class:`CrossRegressor`, without `family` and `quantile`
    and with ``classes_``. `metric` is one of "log-loss" (the default), "accuracy" and "auc". There
    may be at most 50 classes. Those of an ordered pandas Categorical are also tried as ordered.

    Examples
    --------
    >>> from crosslearning import CrossClassifier
    >>> from crosslearning.datasets import load_hsb82
    >>> pupils = load_hsb82().frame.head(400)
    >>> X, y = pupils[["ses", "female", "math"]], pupils["minority"]
    >>> model = CrossClassifier(base="linear").fit(X, y, tasks=pupils["school"])
    >>> model.predict_proba(X.head(2), tasks=pupils["school"].head(2)).shape
    (2, 2)
    """

    _kind: ClassVar[str] = "classification"

    def predict_proba(
        self, X: ArrayLike, tasks: ArrayLike | str | None = None
    ) -> NDArray[np.float64]:
        """Probabilities of the classes, shape (n_rows, n_classes); parameters as in `predict`."""
        predictions = self._predictions(X, tasks)
        return predictions[[f"probability_{label}" for label in self.classes_]].to_numpy()

    def predict_log_proba(
        self, X: ArrayLike, tasks: ArrayLike | str | None = None
    ) -> NDArray[np.float64]:
        """Logarithms of `predict_proba`."""
        smallest = np.finfo(np.float64).tiny
        return np.asarray(np.log(np.maximum(self.predict_proba(X, tasks), smallest)))

    def _class_scores(self, X: Any, tasks: Any) -> NDArray[np.float64]:
        return self.predict_proba(X, tasks)

    def _learn_target(self, y: NDArray[Any], source: Any) -> Any:
        # Text that is marked as categories is never mistaken for numbers.
        codes = self._learn_classes(y)
        names = pd.Index([f"{label}" for label in self.classes_])
        column = pd.Categorical.from_codes(codes, names)
        order = getattr(source, "dtype", None)
        if not isinstance(order, pd.CategoricalDtype) or not order.ordered:
            return column
        places = order.categories.get_indexer(pd.Index(self.classes_))
        return column.set_categories(names[np.argsort(places)], ordered=True)


def load(folder: str | os.PathLike[str]) -> CrossRegressor | CrossClassifier:
    """Read a fitted estimator from a folder, without unpickling.

    Parameters
    ----------
    folder : path
        What :meth:`CrossRegressor.save` or the command ``crosslearning fit`` wrote. The latter
        becomes an estimator with a `task_column`, whose features are the columns that the model
        uses.

    Returns
    -------
    CrossRegressor or CrossClassifier
        Its predictions are those of the estimator that was saved.
    """
    path = Path(folder)
    model = TableModel.load(path)
    if (path / RESULTS).is_file():
        stored = json.loads((path / RESULTS).read_text(encoding="utf-8"))
        model = replace(model, findings=from_json(Findings, stored))
    names = as_objects(list(model.encoder.columns))
    fitted = {"n_features_in_": len(names), "feature_names_in_": names}
    if model.classes is not None:
        fitted["classes_"] = model.classes
    task_column = model.task if model.levels is None else model.task_columns
    state: dict[str, Any] = {"parameters": {"task_column": task_column}, "fitted": fitted}
    if (path / ESTIMATOR).is_file():
        saved = read_archive(path / ESTIMATOR, KIND)
        state = saved if saved["model"] == digest_of(path) else state  # else it is of another fit
    kind = CrossRegressor if model.classes is None else CrossClassifier
    estimator = kind(**state["parameters"])
    estimator.__dict__.update(state["fitted"], model_=model)
    return estimator
