"""What ``crosslearning fit`` does, as scikit-learn estimators."""

import json
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics import d2_pinball_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_sample_weight,
    _check_y,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from crosslearning.archive import from_json, to_json
from crosslearning.evaluation import Comparison
from crosslearning.frames.columns import check_names, free_name
from crosslearning.frames.target import MOST_CLASSES
from crosslearning.tables.findings import VERSION, Findings
from crosslearning.tables.fitting import fit_table
from crosslearning.tables.model import TableModel
from crosslearning.tables.settings import FitSettings, options_listed
from crosslearning.tasks import check_tasks
from crosslearning.tasks.estimators import (
    TaskClassifier,
    TaskRegressor,
    codes_to_predict,
    is_center,
    separate_labels,
)
from crosslearning.tasks.labels import as_objects, has_levels, level_names, paths_like

if TYPE_CHECKING:
    from crosslearning.report.plots import Plot

_CANDIDATE = ["name", "label", "end", "score", "standard_error", "chosen"]


@dataclass(eq=False, repr=False, kw_only=True)
class CrossTable(BaseEstimator):  # type: ignore[misc]
    """Base of :class:`CrossRegressor` and :class:`CrossClassifier`."""

    task_column: Any = None
    numbers: Sequence[str] = ()
    categories: Sequence[str] = ()
    epsilon: float = np.inf
    metric: str | None = None
    time: str | None = None
    group: str | None = None
    folds: int = 5
    base: str = "auto"
    time_budget: float = 60.0
    n_jobs: int | None = None
    random_state: Any = 0

    _kind: ClassVar[str]
    _learn_target: ClassVar[Callable[..., Any]]  # checks y, stores classes, returns a column

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        tasks: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Compare models that share more or less between tasks, and fit the best to all rows.

        Parameters
        ----------
        X : DataFrame or array of shape (n_rows, n_features)
            Features: numbers, categories and dates, with or without gaps. Columns of a DataFrame
            that are constant, number the rows or hold free text are left out. Those of an array
            are named x0, x1, and so on.
        y : array of shape (n_rows,)
            Targets or classes.
        tasks : array of shape (n_rows,), optional
            Task label of each row, needed unless there is a `task_column`: at least two hashable
            values. Of groups within groups several columns, outermost first.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row.
        """
        X, tasks = separate_labels(X, tasks, self.task_column)
        if tasks is None:
            raise ValueError(
                "`fit` needs the task of each row; got neither `tasks` nor `task_column`. Pass "
                "the label of each row as `tasks`, or the name of a column of X as `task_column`."
            )
        table = self._checked_features(X, reset=True)
        values = _check_y(y, estimator=self)
        check_consistent_length(table, values)
        target, weights = self._learn_target(values, y), None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, table, ensure_non_negative=True)
        added = _named_labels(tasks, table)
        roles: dict[str, Any] = {"task": list(added)}
        for role, column, source in (("target", target, y), ("weights", weights, None)):
            if column is not None:
                roles[role] = _new_name(source, role, [*table.columns, *added])
                added[roles[role]] = column
        # A column of a matrix is meant as a feature, even if it looks like a row number.
        if not isinstance(X, pd.DataFrame):
            roles["features"] = [name for name in table.columns if name != self.group]
        model = fit_table(table.assign(**added), **vars(self._settings(roles)))
        assert model.findings is not None  # unlike those of a stored model
        self.model_ = replace(model, findings=replace(model.findings, python=self._python()))
        return self

    def _settings(self, roles: dict[str, Any]) -> FitSettings:
        """Return the parameters as settings of a fit."""
        names, seed = {one.name for one in fields(FitSettings)}, self.random_state
        options = {k: v for k, v in self.get_params(deep=False).items() if k in names}
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(2**31 - 1)
        jobs = 1 if self.n_jobs is None else self.n_jobs
        return FitSettings(**options, **roles, kind=self._kind, jobs=jobs, seed=seed)

    def _python(self) -> str:
        """Write the lines that repeat the fit, for the report."""
        call = "fit(X, y)" if self.task_column is not None else "fit(X, y, tasks=tasks)"
        lines = f"model = {self!r}\nmodel.{call}\nprint(model.sentence_)"
        return f"from crosslearning import {type(self).__name__}\n\n{lines}"

    def _checked_features(self, X: Any, *, reset: bool) -> pd.DataFrame:
        """Return a table of the features, whose types are those of X."""
        if isinstance(X, pd.DataFrame):
            check_names(map(str, X.columns))
            validate_data(self, X, reset=reset, skip_check_array=True)
            frame = X.reset_index(drop=True)
        else:
            checks = {"ensure_all_finite": "allow-nan", "ensure_min_samples": 2 if reset else 1}
            frame = pd.DataFrame(validate_data(self, X, reset=reset, dtype=None, **checks))
        numbered = [f"x{k}" for k in range(frame.shape[1])]
        return frame.set_axis(list(getattr(self, "feature_names_in_", numbered)), axis=1)

    def _predictions(self, X: Any, tasks: Any, coverage: float = 0.9) -> pd.DataFrame:
        """Return the columns that `TableModel.predict` does; the centre predicts new tasks."""
        fitted, columns = self.tasks_, self.model_.task_columns
        X, tasks = separate_labels(X, tasks, self.task_column)
        frame = self._checked_features(X, reset=False)
        if len(columns) > 1 and tasks is not None and not is_center(tasks):
            paths = paths_like(tasks, len(frame), columns, fitted.tolist())
            labels: dict[str, Any] = dict(zip(columns, zip(*paths, strict=True), strict=True))
        else:
            codes_to_predict(fitted, tasks, len(frame))  # refuses other types, and other strings
            each: Any = None if isinstance(tasks, str) else check_tasks(tasks, len(frame))
            labels = dict.fromkeys(columns, each)
        return self.model_.predict(frame.assign(**labels), coverage=coverage)

    @property
    def _fitted(self) -> TableModel:
        """The fitted model, or a `NotFittedError`, which is an `AttributeError`."""
        check_is_fitted(self, "model_")
        return self.model_

    @property
    def _findings(self) -> Findings:
        if self._fitted.findings is None:
            raise AttributeError("This model was saved without results, or by another version.")
        return self._fitted.findings

    @property
    def tasks_(self) -> NDArray[Any]:
        """Labels of the tasks."""
        return self._fitted.tasks

    @property
    def sentence_(self) -> str:
        """Whether sharing helps, and by how much, in words."""
        return self._findings.sentence

    @property
    def candidates_(self) -> pd.DataFrame:
        """The models that were tried, best first."""
        models = pd.DataFrame([vars(model) for model in self._findings.models])
        return models.rename(columns={"kind": "end"})[_CANDIDATE]

    @property
    def comparison_(self) -> Comparison:
        """The choice among all models, compared with that among pooled and separate models."""
        findings = self._findings
        texts = [repr(to_json(label)) for label in self._fitted._tasks.labels]
        originals = dict(zip(texts, self.tasks_, strict=True))
        labels = as_objects([originals[repr(to_json(k))] for k in findings.comparison.labels])
        stated, words = findings.verdict.effect, findings.sentence
        return replace(findings.comparison, labels=labels, stated=stated, words=words)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the fitted model to a folder, without pickle; :func:`crosslearning.load` reads it.

        An earlier fit in the folder is replaced; a folder with anything else is refused.
        """
        names = {"n_features_in_", "feature_names_in_", "classes_"} & vars(self).keys()
        fitted = {name: getattr(self, name) for name in sorted(names)}
        wrapper = {"parameters": self.get_params(deep=False), "fitted": fitted}
        replace(self._fitted, wrapper=wrapper).save(folder)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write an HTML page, ``report.html`` in a folder; needs the extra ``app``."""
        from crosslearning.report.page import write_findings

        return write_findings(self._findings, path)

    def plot(self) -> "Plot":
        """Draw the errors of all models that were tried; needs the extra ``app``."""
        from crosslearning.report import plots

        return plots.table_models(self._findings)

    def plot_tasks(self) -> "Plot":
        """Draw the coefficients of every task around the centre; needs the extra ``app``."""
        from crosslearning.report import plots

        return plots.table_tasks(self._findings)

    def _html_repr(self) -> str:
        """Show the verdict in a notebook, once there is one."""
        verdict = self.model_._repr_html_() if "model_" in vars(self) else None
        return str(verdict or super()._html_repr())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags


@options_listed
@dataclass(eq=False, repr=False, kw_only=True)
class CrossRegressor(TaskRegressor, CrossTable):
    """The best regression for related tasks that ``crosslearning fit`` can find for a table.

    Linear models and curves, each pooled, cross-learned and separate, and boosted trees without and
    with the task are compared on held-out rows. The best, or a blend, is fitted to all rows.

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
        The choice among all models, "cross", compared with those among pooled and among separate
        models. Of more than 2,000 tasks it has some.
    sentence_ : str
        Whether sharing helps, and by how much.
    tasks_ : array of shape (n_tasks,)
        Labels of the tasks; of groups within groups tuples of labels, outermost first.
    n_features_in_, feature_names_in_ : int, array of str
        Number and names of the columns of X, without `task_column`.

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

        A target lies in its interval with the probability `coverage`; X and tasks as in `predict`.
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
        return super()._measure() if level is None else partial(d2_pinball_score, alpha=level)

    def _learn_target(self, y: NDArray[Any], source: Any) -> Any:
        try:
            if y.dtype.kind in "mM":  # which NumPy would convert
                raise TypeError
            return np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError) as error:
            name = getattr(source, "name", None)
            text = y[pd.to_numeric(pd.Series(y), errors="coerce").isna()]
            raise ValueError(
                f"{'`y`' if name is None else f'The target {name!r}'} must hold numbers; got "
                f"{str([*text, *y][0])!r}. Convert it, or use CrossClassifier for classes."
            ) from error


class CrossClassifier(TaskClassifier, CrossTable):
    """The best classification for related tasks that ``crosslearning fit`` can find for a table.

    Random forests are tried too. Parameters and attributes are those of :class:`CrossRegressor`,
    without `family` and `quantile` and with ``classes_``, at most 50. `metric` is one of those for
    classes. Classes that are numbers or an ordered pandas Categorical are also tried as ordered.

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
        classes: Any = self._fitted.classes  # perhaps in another order
        names = [f"probability_{label}" for label in np.sort(classes)]
        return self._predictions(X, tasks)[names].to_numpy()

    def predict_log_proba(
        self, X: ArrayLike, tasks: ArrayLike | str | None = None
    ) -> NDArray[np.float64]:
        """Logarithms of `predict_proba`."""
        return np.log(np.maximum(self.predict_proba(X, tasks), np.finfo(np.float64).tiny))

    _class_scores = predict_proba

    def _learn_target(self, y: NDArray[Any], source: Any) -> Any:
        y = pd.Series(y).infer_objects().to_numpy()
        codes = self._learn_classes(y, MOST_CLASSES)
        if y.dtype.kind in "iuf":
            return y
        # Text that is marked as categories is never mistaken for numbers.
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
        becomes an estimator with a `task_column`; its features are the columns of the model.

    Returns
    -------
    CrossRegressor or CrossClassifier
        Its predictions are those of the estimator that was saved.
    """
    model = TableModel.load(folder)
    with suppress(OSError, LookupError, TypeError, AttributeError, ValueError):
        stored = json.loads(Path(folder, "results.json").read_text(encoding="utf-8"))
        if stored["version"] == VERSION:
            model = replace(model, findings=from_json(Findings, stored))
    names = as_objects(model.encoder.columns)
    fitted = {"n_features_in_": len(names), "feature_names_in_": names}
    if model.classes is not None:
        fitted["classes_"] = model.classes
    parameters = {"task_column": model.task if model.levels is None else model.task_columns}
    state = model.wrapper or {"parameters": parameters, "fitted": fitted}  # of the command
    kind = CrossRegressor if model.classes is None else CrossClassifier
    estimator = kind(**state["parameters"])
    estimator.__dict__.update(state["fitted"], model_=model)
    return estimator


def _named_labels(tasks: Any, table: pd.DataFrame) -> dict[str, Any]:
    """Return columns of labels by names that the table does not have, outermost first."""
    if not has_levels(tasks):
        return {_new_name(tasks, "task", table.columns): check_tasks(tasks, len(table))}
    names, labels = level_names(tasks), pd.DataFrame(tasks)
    if taken := [name for name in names if name in table.columns]:
        raise ValueError(
            f"Columns of `tasks` must not be columns of X; got {taken[0]!r} in both. Drop it from "
            "X, or name it in `task_column`."
        )
    return {name: check_tasks(labels.iloc[:, k], len(table)) for k, name in enumerate(names)}


def _new_name(values: Any, default: str, taken: Collection[str]) -> str:
    """Return the name of a column, or a default, with underscores if it is taken."""
    name: Any = getattr(values, "name", None)
    return free_name(name if isinstance(name, str) else default, taken)
