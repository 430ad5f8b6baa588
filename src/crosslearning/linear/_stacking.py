"""Base of the stacked regressions and classifications."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, has_fit_parameter

from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.table import TaskTable
from crosslearning.linear._estimator import TaskEstimator
from crosslearning.linear.splines import SplineFeatures
from crosslearning.tasks import within_task_folds
from crosslearning.tether import Array, Flags

_MOST_CATEGORIES = 254  # of a column of histogram-based boosting


@dataclass(eq=False, repr=False, kw_only=True)
class CrossStack(TaskEstimator, _BaseComposition):  # type: ignore[misc]
    """Base of the stacking estimators."""

    estimators: list[tuple[str, Any]] | None = field(default=None, kw_only=False)
    passthrough: bool = True
    splines: Any = False
    task_feature: bool = False
    final_estimator: Any = None
    cv: int = 5
    random_state: Any = 0
    n_jobs: int | None = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimators": [list, None],
        "passthrough": ["boolean"],
        "splines": ["boolean", HasMethods(["fit", "transform"])],
        "task_feature": ["boolean"],
        "final_estimator": [HasMethods(["fit", "predict"]), None],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "task_column": "no_validation",
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }
    _method: ClassVar[str]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the stack and, if `deep`, of the estimators in it."""
        params: dict[str, Any] = self._get_params("estimators", deep=deep)
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the stack or of the estimators in it: ``name__parameter``."""
        self._set_params("estimators", **params)
        return self

    def _fit(self, rows: TaskTable) -> None:
        """Fit the base models, and the final estimator on their out-of-fold predictions."""
        weighting = {} if np.all(rows.weights == 1.0) else {"sample_weight": rows.weights}
        target = self.classes_[rows.y] if is_classifier(self) else rows.y
        labels = self.tasks_[rows.tasks]
        self._learn_bounds(rows)
        stacked = self._fit_base(rows, target, labels, weighting.get("sample_weight"))
        scaling = Scaling.of(stacked, rows.weights, center=True, scale=True)
        self.stacked_mean_, self.stacked_scale_ = scaling.mean, scaling.scale
        self._fit_features(rows)
        n = stacked.shape[1]
        self.trusted_ = np.ones(n, dtype=bool)
        for _ in range(n + 1):  # drop base models to which the centre gives negative weight
            columns = self._columns(rows.X, stacked)
            self.final_estimator_ = self._final(columns.shape[1], n)
            self.final_estimator_.fit(columns, target, tasks=labels, **weighting)
            weight = np.ravel(getattr(self.final_estimator_, "center_coef_", np.zeros(0)))
            if weight.size != columns.shape[1] or not np.any(weight[len(weight) - n :] < 0):
                break
            self.trusted_[np.argmin(weight[len(weight) - n :])] = False

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _fit_base(
        self, rows: TaskTable, target: NDArray[Any], labels: NDArray[Any], weights: Array | None
    ) -> Array:
        """Fit the base models, and return columns of their out-of-fold predictions."""
        models, n = self._base_models(), len(target)
        largest = np.argsort(-rows.counts, kind="stable")
        most = _MOST_CATEGORIES if self.estimators is None else None
        self.categories_ = np.sort(largest[:most])
        self.estimators_: list[Any] = []
        if not models:
            return np.empty((n, 0))
        if n < 2:
            raise ValueError("Out-of-fold predictions need at least 2 rows; got n_samples=1.")
        base = self._base_rows(rows.X, rows.tasks, labels)
        classes = rows.y if is_classifier(self) else None
        folds = within_task_folds(rows.tasks, min(self.cv, n), self._seed(), classes)
        held_out = [folds == k for k in range(folds.max() + 1)]
        parts = [np.ones(n, dtype=bool), *(~rows for rows in held_out)]
        fitted = Parallel(n_jobs=self.n_jobs)(
            delayed(base[p].fit)(clone(m), target[p], None if weights is None else weights[p])
            for m in models
            for p in parts
        )
        by_model = [fitted[k : k + len(parts)] for k in range(0, len(fitted), len(parts))]
        self.estimators_ = [results[0] for results in by_model]
        return np.hstack([self._out_of_fold(base, held_out, fits) for _, *fits in by_model])

    def _out_of_fold(self, base: _BaseRows, held_out: list[Flags], models: list[Any]) -> Array:
        """Return columns of the predictions of a base model, by its fit to the other folds."""
        pairs = list(zip(held_out, models, strict=True))
        parts = [self._predictions(base[rows], model) for rows, model in pairs]
        means = [part.mean(axis=0) for part in parts]
        columns = np.empty((len(held_out[0]), len(means[0])))
        for rows, part, mean in zip(held_out, parts, means, strict=True):
            # A fold with high targets leaves low ones for training: means would leak.
            columns[rows] = part - mean + np.mean(means, axis=0)
        return columns

    def _base_models(self) -> list[Any]:
        if self.estimators is None:
            return [self._default_base()]
        if not self.estimators and not self.passthrough:
            raise ValueError(
                "A stack without base models must pass the features through; got estimators=[] "
                "and passthrough=False."
            )
        pairs: list[Any] = self.estimators
        for pair in pairs:
            if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)):
                raise ValueError(
                    "`estimators` must be a list of pairs of a name and an estimator; got "
                    f"{pair!r}. Write [('lines', LinearRegression())], for example."
                )
        self._validate_names([name for name, _ in pairs])
        for name, model in pairs:
            if not hasattr(model, self._method):
                raise ValueError(
                    f"Base models need `{self._method}`; {name!r}, a {type(model).__name__}, "
                    "does not have it. Remove or wrap it."
                )
        return [model for _, model in pairs]

    def _base_rows(self, X: Array, codes: NDArray[np.int64], labels: Any) -> _BaseRows:
        features = with_task = pd.DataFrame(X, columns=_check_feature_names_in(self, None))
        if self.task_feature:
            column = "task" if self.task_column is None else str(self.task_column)
            if column in features:
                raise ValueError(
                    f"Base models get the task as a column {column!r}, but X already has that "
                    "column. Rename the feature, or use task_feature=False."
                )
            category = np.full(len(self.tasks_) + 1, -1)  # new tasks, -1, have the last
            category[self.categories_] = np.arange(len(self.categories_))
            named = pd.RangeIndex(len(self.categories_))
            tasks = pd.Categorical.from_codes(category[codes], categories=named)
            with_task = features.assign(**{column: tasks})
        return _BaseRows(features, with_task, labels)

    def _predictions(self, rows: _BaseRows, model: Any) -> Array:
        X, tasks = rows.inputs(model)
        predicted = np.asarray(getattr(model, self._method)(X, **tasks), dtype=np.float64)
        return np.asarray(self._stacked(predicted, model))

    def _fit_features(self, rows: TaskTable) -> None:
        if self.splines is not False and not self.passthrough:
            raise ValueError("`splines` need passthrough=True; got passthrough=False.")
        if self.splines is False:
            self.features_ = StandardScaler()
        else:
            self.features_ = SplineFeatures() if self.splines is True else clone(self.splines)
        self.features_.fit(rows.X, sample_weight=rows.weights)

    def _columns(self, X: Array, stacked: Array) -> Array:
        """Features of the final estimator."""
        scaled = self.trusted_ * (stacked - self.stacked_mean_) / self.stacked_scale_
        return np.hstack([self.features_.transform(X), scaled]) if self.passthrough else scaled

    def _final(self, n_columns: int, n_stacked: int) -> Any:
        """Return the final estimator with its blocks set."""
        template = self.final_estimator
        final = self._default_final() if template is None else clone(template)
        if not has_fit_parameter(final, "tasks"):
            raise ValueError(
                f"`final_estimator` must take `tasks` in its `fit`; {type(final).__name__} does "
                "not. Use one of crosslearning.linear."
            )
        n = n_columns - n_stacked
        raw = getattr(self.features_, "blocks_", np.repeat("linear", n))[:n]
        self.blocks_ = np.append(raw, np.repeat("stacked", n_stacked))
        ours = {"standardize": False, "blocks": self.blocks_}
        parameters = final.get_params(deep=False)
        return final.set_params(**{name: ours[name] for name in ours if name in parameters})

    def _prepared(self, X: Any, tasks: Any) -> tuple[Array, Any]:
        """Columns for the final estimator, and the labels."""
        check_is_fitted(self, "final_estimator_")
        array, codes, labels = self._check_new_rows(X, tasks)
        rows = self._base_rows(array, codes, labels)
        stacked = [self._predictions(rows, model) for model in self.estimators_]
        return self._columns(array, np.hstack([np.empty((len(array), 0)), *stacked])), labels


@dataclass(frozen=True, eq=False)
class _BaseRows:
    """Rows as base models see them."""

    features: pd.DataFrame
    with_task: pd.DataFrame  # the same, and the task as a category if it is a feature
    labels: Any  # of the tasks, or "center" or None, for models that take `tasks`

    def __getitem__(self, rows: Flags) -> _BaseRows:
        return _BaseRows(self.features[rows], self.with_task[rows], self.labels[rows])

    def inputs(self, model: Any) -> tuple[pd.DataFrame, dict[str, Any]]:
        """Return features and further arguments for a model."""
        if has_fit_parameter(model, "tasks"):
            return self.features, {"tasks": self.labels}
        return self.with_task, {}

    def fit(self, model: Any, y: NDArray[Any], weights: Array | None) -> Any:
        """Fit a model, with sample weights if it takes them."""
        if hasattr(model, "predict_proba") and len(np.unique(y)) == 1:
            return DummyClassifier().fit(self.with_task, y)
        X, options = self.inputs(model)
        if weights is not None and has_fit_parameter(model, "sample_weight"):
            options["sample_weight"] = weights
        return model.fit(X, y, **options)
