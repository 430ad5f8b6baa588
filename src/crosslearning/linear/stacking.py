"""Stacking: any base models, with weights per task."""

import warnings
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.metaestimators import _BaseComposition, available_if
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, has_fit_parameter

from crosslearning.convex.families import REGISTRY, Gaussian, OneScore
from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.table import TaskTable
from crosslearning.linear._estimator import ClassTarget, RealTarget, TaskEstimator
from crosslearning.linear.bayesian import CrossBayesianLogisticRegression, CrossBayesianRidge
from crosslearning.linear.splines import SplineFeatures
from crosslearning.tasks import within_task_folds
from crosslearning.tether import Array

_MARGIN = 0.1  # of the range of the targets, by which base predictions may exceed it
_LEAST_SHARE = 0.01  # of the mean target, the smallest prediction under a logarithmic link
_BOOSTING: dict[str, Any] = {
    "learning_rate": 0.05, "max_iter": 300, "max_leaf_nodes": 7, "min_samples_leaf": 5,
    "early_stopping": False,
}  # fmt: skip


@dataclass(eq=False, repr=False, kw_only=True)
class CrossStack(TaskEstimator, _BaseComposition):  # type: ignore[misc]
    """Base of the stacking estimators."""

    estimators: list[tuple[str, Any]] | None = field(default=None, kw_only=False)
    passthrough: bool = True
    splines: bool = False
    final_estimator: Any = None
    cv: int = 5
    random_state: Any = 0
    n_jobs: int | None = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimators": [list, None],
        "passthrough": ["boolean"],
        "splines": ["boolean"],
        "final_estimator": [HasMethods(["fit", "predict"]), None],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "task_column": "no_validation",
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }
    _checks: ClassVar[dict[str, Any]] = {"ensure_min_samples": 2}  # for out-of-fold predictions
    _method: ClassVar[str]
    _default_final: ClassVar[type]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the stack and, if `deep`, of the estimators in it."""
        return dict(self._get_params("estimators", deep=deep))

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the stack or of the estimators in it: ``name__parameter``."""
        self._set_params("estimators", **params)
        return self

    def _fit(self, rows: TaskTable) -> None:
        """Fit the base models, and the final estimator on their out-of-fold predictions."""
        weighting = {} if np.all(rows.weights == 1.0) else {"sample_weight": rows.weights}
        target = self.classes_[rows.y] if is_classifier(self) else rows.y
        self._learn_bounds(rows.y)
        stacked = self._fit_base(rows, target, weighting)
        scaling = Scaling.of(stacked, rows.weights, center=True, scale=True)
        self.stacked_mean_, self.stacked_scale_ = scaling.mean, scaling.scale
        self.features_ = SplineFeatures() if self.splines else StandardScaler()
        self.features_.fit(rows.X, sample_weight=rows.weights)
        raw = getattr(self.features_, "blocks_", np.repeat("linear", rows.X.shape[1]))
        n = stacked.shape[1]
        self.blocks_ = np.append(raw if self.passthrough else raw[:0], np.repeat("stacked", n))
        self.trusted_ = np.ones(n, dtype=bool)
        for _ in range(n + 1):  # drop base models to which the centre gives negative weight
            columns = self._columns(rows.X, stacked)
            self.final_estimator_ = self._final()
            self.final_estimator_.fit(columns, target, tasks=self.tasks_[rows.tasks], **weighting)
            weight = np.ravel(getattr(self.final_estimator_, "center_coef_", ()))
            if weight.size != columns.shape[1] or not np.any(weight[weight.size - n :] < 0):
                break
            self.trusted_[np.argmin(weight[weight.size - n :])] = False

    def _fit_base(self, rows: TaskTable, target: NDArray[Any], weighting: Any) -> Array:
        """Fit the base models, and return columns of their out-of-fold predictions."""
        from sklearn.model_selection import PredefinedSplit, cross_val_predict  # slow to import

        X, classes = self._frame(rows.X), rows.y if is_classifier(self) else None
        folds = within_task_folds(rows.tasks, min(self.cv, len(X)), self._seed(), classes)
        self.estimators_, columns = [], [np.empty((len(X), 0))]
        for model in self._base_models():
            options = weighting if has_fit_parameter(model, "sample_weight") else {}
            self.estimators_.append(clone(model).fit(X, target, **options))
            with config_context(enable_metadata_routing=False), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Number of classes in")
                split = {"cv": PredefinedSplit(folds), "n_jobs": self.n_jobs, "params": options}
                predicted = cross_val_predict(model, X, target, method=self._method, **split)
            block = self._stacked(predicted)
            # A fold with high targets leaves low ones for training: means would leak.
            means = np.array([block[folds == k].mean(axis=0) for k in range(folds.max() + 1)])
            columns.append(block - means[folds] + means.mean(axis=0))
        return np.hstack(columns)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _base_models(self) -> list[Any]:
        if self.estimators is None:
            return [self._default_base()]
        pairs: list[Any] = self.estimators
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            raise ValueError(
                "`estimators` must be a list of pairs of a name and an estimator, such as "
                f"[('lines', LinearRegression())]; got {self.estimators!r}."
            )
        self._validate_names([name for name, _ in pairs])
        return [model for _, model in pairs]

    def _frame(self, X: Array) -> pd.DataFrame:
        return pd.DataFrame(X, columns=_check_feature_names_in(self, None))

    def _columns(self, X: Array, stacked: Array) -> Array:
        scaled = self.trusted_ * (stacked - self.stacked_mean_) / self.stacked_scale_
        return np.hstack([self.features_.transform(X), scaled]) if self.passthrough else scaled

    def _given_final(self) -> Any:
        return self._default_final() if self.final_estimator is None else self.final_estimator

    def _final(self) -> Any:
        """Return the final estimator with its blocks set."""
        final = self._given_final()
        if not has_fit_parameter(final, "tasks"):
            raise ValueError(
                f"`final_estimator` must take `tasks` in its `fit`; {type(final).__name__} does "
                "not. Use one of crosslearning.linear."
            )
        ours = {"standardize": False, "blocks": self.blocks_}
        parameters = final.get_params(deep=False)
        return clone(final).set_params(**{name: ours[name] for name in ours if name in parameters})

    def _prepared(self, X: Any, tasks: Any) -> tuple[Array, Any]:
        check_is_fitted(self, "final_estimator_")
        array, _, labels = self._check_new_rows(X, tasks)
        predictions = [getattr(m, self._method)(self._frame(array)) for m in self.estimators_]
        stacked = np.hstack([np.empty((len(array), 0)), *map(self._stacked, predictions)])
        return self._columns(array, stacked), labels


class CrossStackingRegressor(RealTarget, CrossStack):
    """Stacked regression whose final estimator has one model per task, near a common centre.

    Out-of-fold predictions of the base models, with folds that divide every task, become additional
    features of the final estimator. By default the evidence decides how much weight the base models
    get, how much the features add, and how much tasks differ in either. Base models are pooled, and
    leave differences between tasks to the final estimator. New rows get those fitted to all rows.

    Parameters
    ----------
    estimators : list of (str, estimator), optional
        Base models: any scikit-learn regressors, or none. By default one,
        :class:`sklearn.ensemble.HistGradientBoostingRegressor`.
    passthrough, splines : bool, default=True and False
        Whether the final estimator also gets the features themselves, and with them the spline
        terms of :class:`SplineFeatures`.
    final_estimator : estimator, optional
        An estimator that takes `tasks`; ``CrossBayesianRidge()`` by default. The stack standardises
        its features, so ``standardize`` is set to False, and ``blocks``, if it has the parameter,
        to "linear", "curved" and "stacked" features. With a logarithmic link, as in
        ``CrossBayesianGLM("poisson")``, logarithms of predictions are stacked.
    cv, n_jobs, random_state : int, default=5, None and 0
        Number of folds, and of those to fit in parallel; and seed of the folds and default base.
    task_column
        As in :class:`CrossRidge`.

    Attributes
    ----------
    final_estimator_, estimators_, features_ : estimator, list of estimator, transformer
        The final estimator, the base models, and what makes features for the former.
    blocks_ : array of str
        "linear", "curved" or "stacked" for each feature of the final estimator.
    base_range_ : tuple of float
        Base predictions are clipped to the range of the targets, extended by a tenth at each end.
    stacked_mean_, stacked_scale_ : array of shape (n_stacked,)
        Mean and standard deviation of the out-of-fold predictions.
    trusted_ : array of bool of shape (n_stacked,)
        Base models that are used: those without a negative weight in the centre (Breiman, 1996).
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
    _default_final = CrossBayesianRidge

    def predict(
        self, X: ArrayLike, tasks: ArrayLike | str | None = None, *, return_std: bool = False
    ) -> Any:
        """Predict targets; see :meth:`CrossBayesianRidge.predict`."""
        columns, labels = self._prepared(X, tasks)
        options = {"return_std": True} if return_std else {}
        return self.final_estimator_.predict(columns, tasks=labels, **options)

    @available_if(lambda stack: hasattr(stack._given_final(), "predict_interval"))  # type: ignore[untyped-decorator]
    def predict_interval(
        self, X: ArrayLike, tasks: ArrayLike | str | None = None, **options: Any
    ) -> tuple[Array, Array]:
        """Intervals of targets; see :meth:`CrossBayesianRidge.predict_interval`."""
        columns, labels = self._prepared(X, tasks)
        lower, upper = self.final_estimator_.predict_interval(columns, tasks=labels, **options)
        return lower, upper

    def _encoded(self, y: NDArray[Any]) -> Array:
        return y

    @property
    def _distribution(self) -> type[OneScore]:
        return REGISTRY.get(getattr(self.final_estimator, "family", ""), Gaussian)

    def _learn_bounds(self, y: NDArray[Any]) -> None:
        lowest, highest = float(y.min()), float(y.max())
        margin = _MARGIN * (highest - lowest)
        if self._distribution.link == "log":
            lowest = max(lowest, _LEAST_SHARE * float(y.mean())) + margin
        self.base_range_ = (lowest - margin, highest + margin)

    def _default_base(self) -> Any:
        from sklearn.ensemble import HistGradientBoostingRegressor  # slow to import

        loss = self._distribution.boosted.replace("regression", "squared_error")
        return HistGradientBoostingRegressor(loss=loss, random_state=self._seed(), **_BOOSTING)

    def _stacked(self, predicted: Array) -> Array:
        bounded = np.clip(predicted.reshape(len(predicted), 1), *self.base_range_)
        return np.log(bounded) if self._distribution.link == "log" else bounded


class CrossStackingClassifier(ClassTarget, CrossStack):
    """Stacked classification whose final estimator has one model per task, near a common centre.

    Like :class:`CrossStackingRegressor`, with out-of-fold log-odds as additional features.

    Parameters
    ----------
    estimators, final_estimator
        Classifiers with `predict_proba`; by default
        :class:`sklearn.ensemble.HistGradientBoostingClassifier`, and
        :class:`CrossBayesianLogisticRegression`.
    passthrough, splines, cv, task_column, random_state, n_jobs
        As in :class:`CrossStackingRegressor`.

    Attributes
    ----------
    classes_, least_probability_ : array of shape (n_classes,), float
        The classes; and how far from 0 and 1 probabilities of base models are clipped to be.
    final_estimator_, estimators_, features_, blocks_, trusted_, tasks_, n_features_in_
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
    _default_final = CrossBayesianLogisticRegression

    def _class_scores(self, X: Any, tasks: Any) -> Array:
        columns, labels = self._prepared(X, tasks)
        probabilities = self.final_estimator_.predict_proba(columns, tasks=labels)
        return np.asarray(np.log(np.maximum(probabilities, np.finfo(np.float64).tiny)))

    def _learn_bounds(self, y: NDArray[Any]) -> None:
        self.least_probability_ = 1.0 / (len(y) + 2.0)

    def _default_base(self) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier  # slow to import

        return HistGradientBoostingClassifier(random_state=self._seed(), **_BOOSTING)

    def _stacked(self, predicted: Array) -> Array:
        least = self.least_probability_
        logs = np.log(np.clip(predicted, least, 1.0 - least))
        if logs.shape[1] == 2:
            return np.asarray(logs[:, 1:] - logs[:, :1])
        return np.asarray(logs - logs.mean(axis=1, keepdims=True))
