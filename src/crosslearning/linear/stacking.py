"""Stacking: any base models, with weights per task."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

from crosslearning.convex.families import REGISTRY, Gaussian, OneScore
from crosslearning.convex.sums.table import TaskTable
from crosslearning.linear._stacking import CrossStack
from crosslearning.linear._targets import ClassTarget, RealTarget
from crosslearning.linear.bayesian_logistic import CrossBayesianLogisticRegression
from crosslearning.linear.bayesian_ridge import CrossBayesianRidge
from crosslearning.tether import Array

_MARGIN = 0.1  # of the range of the targets, by which base predictions may exceed it
_LEAST_SHARE = 0.01  # of the mean target, the smallest prediction under a logarithmic link
_BOOSTING = {
    "learning_rate": 0.05,
    "max_iter": 300,
    "max_leaf_nodes": 7,
    "min_samples_leaf": 5,
    "early_stopping": False,
}


def _final_has(name: str) -> Any:
    def check(stack: CrossStack) -> bool:
        final = stack.final_estimator
        getattr(stack._default_final() if final is None else final, name)
        return True

    return check


class CrossStackingRegressor(RealTarget, CrossStack):
    """Stacked regression whose final estimator has one model per task, near a common centre.

    Out-of-fold predictions of the base models, with folds that divide every task, become additional
    features of the final estimator. By default the evidence decides how much weight the base models
    get, how much the features add, and how much tasks differ in either. New rows are predicted by
    base models fitted to all rows.

    Parameters
    ----------
    estimators : list of (str, estimator), optional
        Base models: any scikit-learn regressors. By default one,
        :class:`sklearn.ensemble.HistGradientBoostingRegressor`. Those whose `fit` takes `tasks`
        receive them. With an empty list only the features are used.
    passthrough : bool, default=True
        Whether the final estimator also gets the features themselves.
    splines : bool or SplineFeatures, default=False
        Whether to add spline terms of the features; see :class:`SplineFeatures`.
    task_feature : bool, default=False
        Whether base models that do not take `tasks` get the task as a categorical feature: the
        column "task" (or `task_column`) of a DataFrame, missing for new tasks. By default they are
        pooled, and differences between tasks are left to the final estimator.
    final_estimator : estimator, optional
        An estimator that takes `tasks`; ``CrossBayesianRidge()`` by default. The stack standardises
        its features, so ``standardize`` is set to False, and ``blocks``, if it has the parameter,
        to "linear", "curved" and "stacked" features. With a logarithmic link, as in
        ``CrossBayesianGLM("poisson")``, logarithms of predictions are stacked.
    cv, n_jobs : int, default=5, and int, optional
        Number of folds, and of base models to fit in parallel.
    task_column : str, optional
        Column of a DataFrame X that holds the task labels, in place of the argument `tasks`.
    random_state : int, RandomState or None, default=0
        Seed of the folds and the default base.

    Attributes
    ----------
    final_estimator_, estimators_ : estimator, list of estimator
        The final estimator, and the base models fitted to all rows.
    features_ : transformer
        Transformer of the features for the final estimator.
    blocks_ : array of str
        "linear", "curved" or "stacked" for each feature of the final estimator.
    base_range_ : tuple of float
        Base predictions are clipped to this range: that of the targets, extended by a tenth on
        either side.
    stacked_mean_, stacked_scale_ : array of shape (n_stacked,)
        Mean and standard deviation of the out-of-fold predictions.
    trusted_ : array of bool of shape (n_stacked,)
        Base models that are used. Those to which the centre would give a negative weight are
        dropped (Breiman, 1996).
    categories_ : array of int
        Positions in `tasks_` of the tasks that are categories for the base models; the default
        base model supports the 254 largest.
    tasks_, n_features_in_, feature_names_in_
        As in :class:`CrossRidge`.

    Examples
    --------
    >>> from crosslearning import CrossStackingRegressor
    >>> from crosslearning.datasets import load_hsb82
    >>> pupils = load_hsb82()
    >>> stack = CrossStackingRegressor(cv=2).fit(pupils.X, pupils.y, tasks=pupils.tasks)
    >>> stack.blocks_.tolist()
    ['linear', 'linear', 'linear', 'stacked']
    >>> lower, upper = stack.predict_interval(pupils.X, tasks=pupils.tasks)
    >>> print(round(float(((lower <= pupils.y) & (pupils.y <= upper)).mean()), 1))
    0.9
    """

    _method = "predict"

    def predict(
        self, X: ArrayLike, tasks: ArrayLike | str | None = None, *, return_std: bool = False
    ) -> Any:
        """Predict targets; see :meth:`CrossBayesianRidge.predict`."""
        columns, labels = self._prepared(X, tasks)
        options = {"return_std": True} if return_std else {}
        return self.final_estimator_.predict(columns, tasks=labels, **options)

    @available_if(_final_has("predict_interval"))  # type: ignore[untyped-decorator]
    def predict_interval(
        self, X: ArrayLike, tasks: ArrayLike | str | None = None, **options: Any
    ) -> tuple[Array, Array]:
        """Intervals of targets; see :meth:`CrossBayesianRidge.predict_interval`."""
        columns, labels = self._prepared(X, tasks)
        lower, upper = self.final_estimator_.predict_interval(columns, tasks=labels, **options)
        return lower, upper

    def _encoded(self, y: NDArray[Any]) -> Array:
        return np.asarray(y, dtype=np.float64)

    @property
    def _distribution(self) -> type[OneScore]:
        return REGISTRY.get(getattr(self.final_estimator, "family", ""), Gaussian)

    @property
    def _has_log_link(self) -> bool:
        return self._distribution.link == "log"

    def _learn_bounds(self, rows: TaskTable) -> None:
        lowest, highest = float(rows.y.min()), float(rows.y.max())
        margin = _MARGIN * (highest - lowest)
        if self._has_log_link:
            lowest = max(lowest, _LEAST_SHARE * float(rows.y.mean())) + margin
        self.base_range_ = (lowest - margin, highest + margin)

    def _default_base(self) -> Any:
        from sklearn.ensemble import HistGradientBoostingRegressor  # slow to import

        loss = self._distribution.boosted.replace("regression", "squared_error")
        return HistGradientBoostingRegressor(loss=loss, random_state=self._seed(), **_BOOSTING)

    def _default_final(self) -> Any:
        return CrossBayesianRidge()

    def _stacked(self, predicted: Array, model: Any) -> Array:  # noqa: ARG002
        bounded = np.clip(predicted.reshape(len(predicted), 1), *self.base_range_)
        return np.log(bounded) if self._has_log_link else bounded


class CrossStackingClassifier(ClassTarget, CrossStack):
    """Stacked classification whose final estimator has one model per task, near a common centre.

    Like :class:`CrossStackingRegressor`, with out-of-fold log-odds as additional features.

    Parameters
    ----------
    estimators : list of (str, estimator), optional
        Base models: any scikit-learn classifiers with `predict_proba`. By default one,
        :class:`sklearn.ensemble.HistGradientBoostingClassifier`.
    passthrough, splines, task_feature, cv, task_column, random_state, n_jobs
        As in :class:`CrossStackingRegressor`.
    final_estimator : estimator, optional
        An estimator that takes `tasks`; ``CrossBayesianLogisticRegression()`` by default.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The classes.
    least_probability_ : float
        Probabilities of base models are clipped to be at least this far from 0 and 1.
    final_estimator_, estimators_, features_, blocks_, categories_, tasks_, n_features_in_
        As in :class:`CrossStackingRegressor`.

    Examples
    --------
    >>> from crosslearning import CrossStackingClassifier
    >>> from crosslearning.datasets import load_hsb82
    >>> pupils = load_hsb82()
    >>> stack = CrossStackingClassifier(cv=2).fit(pupils.X, pupils.y > 15, tasks=pupils.tasks)
    >>> stack.predict_proba(pupils.X[:2], tasks=pupils.tasks[:2]).shape
    (2, 2)
    """

    _method = "predict_proba"

    def _class_scores(self, X: Any, tasks: Any) -> Array:
        columns, labels = self._prepared(X, tasks)
        probabilities = self.final_estimator_.predict_proba(columns, tasks=labels)
        return np.asarray(np.log(np.maximum(probabilities, np.finfo(np.float64).tiny)))

    def _learn_bounds(self, rows: TaskTable) -> None:
        self.least_probability_ = 1.0 / (len(rows.y) + 2.0)

    def _default_base(self) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier  # slow to import

        return HistGradientBoostingClassifier(random_state=self._seed(), **_BOOSTING)

    def _default_final(self) -> Any:
        return CrossBayesianLogisticRegression()

    def _stacked(self, predicted: Array, model: Any) -> Array:
        probabilities = np.zeros((len(predicted), len(self.classes_)))
        probabilities[:, np.searchsorted(self.classes_, model.classes_)] = predicted
        least = self.least_probability_
        logs = np.log(np.clip(probabilities, least, 1.0 - least))
        if logs.shape[1] == 2:
            return np.asarray(logs[:, 1:] - logs[:, :1])
        return np.asarray(logs - logs.mean(axis=1, keepdims=True))
