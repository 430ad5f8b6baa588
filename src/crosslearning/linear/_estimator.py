"""Base classes: validation of rows with tasks, and fitted linear models."""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_is_fitted,
    validate_data,
)

from crosslearning.convex.families import family_of
from crosslearning.convex.predict import linear_scores
from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.rows import GLMRows
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.convex.sums.table import Data, TaskTable
from crosslearning.exceptions import ConvergenceWarning
from crosslearning.linear.persistence import Saved
from crosslearning.tasks.estimators import codes_to_fit, codes_to_predict, separate_labels
from crosslearning.tasks.labels import as_objects
from crosslearning.tether import Array

if TYPE_CHECKING:
    from crosslearning.report.plots import Plot


@dataclass(eq=False, repr=False, kw_only=True)
class TaskEstimator(BaseEstimator, metaclass=ABCMeta):  # type: ignore[misc]
    """An estimator whose rows belong to tasks; its parameters are dataclass fields."""

    task_column: Any = None
    _checks: ClassVar[dict[str, Any]] = {"dtype": np.float64}  # of scikit-learn's validation

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        tasks: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit one model per task.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
            Features; sparse matrices are refused.
        y : array of shape (n_rows,)
            Targets or classes.
        tasks : array of shape (n_rows,), optional
            Task label of each row; any hashable values. All rows are one task if neither this nor
            `task_column` is given. Bayesian estimators also take several columns, outermost first,
            for groups within groups.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row.
        """
        self._validate_params()
        self._fit(self._check_rows(X, y, tasks, sample_weight))
        return self

    @abstractmethod
    def _fit(self, rows: TaskTable) -> None:
        """Fit checked rows."""

    @abstractmethod
    def _encoded(self, y: NDArray[Any]) -> NDArray[Any]:
        """Encode targets."""

    def _checked_target(self, y: Any) -> Any:
        """Refuse targets of a wrong type."""
        return y

    def _learn_target(self, y: NDArray[Any], weights: Array) -> None:
        """Remember what is needed to encode targets."""

    def _check_rows(self, X: Any, y: Any, tasks: Any, sample_weight: Any) -> TaskTable:
        X, tasks = separate_labels(X, tasks, self.task_column)
        array, target = validate_data(self, X, self._checked_target(y), **self._checks)
        weights = checked_weights(sample_weight, array)
        labels, codes = self._task_codes(tasks, len(weights))
        self._learn_target(target, weights)
        self.tasks_ = labels
        self.total_weight_ = float(weights.sum())
        self.n_rows_fitted_ = int(np.count_nonzero(weights))
        self.n_tasks_fitted_ = int(np.count_nonzero(np.bincount(codes, weights)))
        return TaskTable(array, self._encoded(target), weights, codes, len(labels))

    def _task_codes(self, tasks: Any, n_rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the tasks of a fit, and the number of each row's."""
        return codes_to_fit(tasks, n_rows, stacklevel=5)

    def _new_codes(self, tasks: Any, n_rows: int) -> NDArray[np.int64]:
        """Return the number of the task of each row to predict, -1 if unknown."""
        return codes_to_predict(self.tasks_, tasks, n_rows)

    def _check_statistics(self, statistics: Statistics) -> None:
        """Write the attributes that do not depend on the model."""
        if not statistics.n_rows:
            raise ValueError("A fit needs a row of positive weight; got statistics without any.")
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        self.tasks_ = as_objects(statistics.labels.tolist())
        self.n_features_in_ = statistics.n_features
        self._count(statistics)

    def _count(self, statistics: Statistics) -> None:
        self.total_weight_ = float(statistics.task_weights.sum())
        self.n_rows_fitted_ = statistics.n_rows
        self.n_tasks_fitted_ = int(np.count_nonzero(statistics.counts))

    def _check_new_rows(self, X: Any, tasks: Any) -> tuple[Array, NDArray[np.int64], Any]:
        """Return features, task numbers (-1 if unknown) and labels of rows to predict."""
        X, tasks = separate_labels(X, tasks, self.task_column)
        array = validate_data(self, X, reset=False, dtype=np.float64)
        return array, self._new_codes(tasks, len(array)), tasks


@dataclass(eq=False, repr=False, kw_only=True)
class LinearModel(Saved, TaskEstimator):
    """A linear model per task, near a centre."""

    fit_intercept: bool = True
    standardize: bool = True
    tol: float = 1e-8
    max_iter: int = 2000
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "fit_intercept": ["boolean"],
        "standardize": ["boolean"],
        "task_column": "no_validation",
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }
    _remedy: ClassVar[str]

    def fit_task(
        self,
        X: ArrayLike,
        y: ArrayLike,
        task: Any = "new",
        sample_weight: ArrayLike | None = None,
        **options: Any,
    ) -> Self:
        """Fit a new task near the centre, which stays fixed.

        Parameters
        ----------
        X, y, sample_weight
            Rows of the new task.
        task : hashable, default="new"
            Its label.
        **options
            Further arguments of `fit`, such as ``sample_offset``.

        Returns
        -------
        estimator
            A new estimator with this task and the same centre; this one is unchanged.
        """
        check_is_fitted(self)
        features, _ = separate_labels(X, None, self.task_column)
        y = self._checked_target(y)
        array, target = validate_data(self, features, y, reset=False, **self._checks)
        weights = checked_weights(sample_weight, array)
        new: Self = clone(self)
        fitted = {k: v for k, v in vars(self).items() if k.endswith("_") or k == "_ends"}
        new.__dict__.update(fitted, tasks_=as_objects([task]))
        codes = np.zeros(len(weights), dtype=np.int64)
        new._fit_task(TaskTable(array, self._encoded(target), weights, codes, 1), **options)
        return new

    def plot_tasks(self) -> Plot:
        """Draw the coefficients of every task around the centre; needs the extra ``app``."""
        from crosslearning.report import plots

        check_is_fitted(self)
        return plots.coefficients(self)

    @abstractmethod
    def _fit_task(self, rows: TaskTable) -> None:
        """Fit rows of one new task."""

    def _family(self) -> Any:
        """Distribution of the encoded targets."""
        return family_of(vars(self))

    @abstractmethod
    def _to_user(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Convert internal coefficients and intercepts to public ones."""

    @abstractmethod
    def _center(self) -> tuple[Array, Array]:
        """Return the centre's internal coefficients and intercepts: the inverse of `_to_user`."""

    def _scaling_of(self, data: Data) -> Scaling:
        """Pooled statistics of the features."""
        center = self.standardize and self.fit_intercept
        if isinstance(data, Statistics):
            return data.scaling(center=center, scale=self.standardize)
        return Scaling.of(data.X, data.weights, center=center, scale=self.standardize)

    def _glm(self, rows: TaskTable, scaling: Scaling, offset: Array | None = None) -> GLMRows:
        columns = scaling.columns(rows.X, intercept=self.fit_intercept)
        return rows.glm(columns, self._family(), intercept=self.fit_intercept, offset=offset)

    def _scaling(self) -> Scaling:
        return Scaling(self.feature_mean_, self.feature_scale_)

    def _center_vector(self) -> Array:
        """Centre in the parameters of the fit."""
        center = self._scaling().from_user(*self._center(), fit_intercept=self.fit_intercept)
        return np.asarray(center.ravel())

    def _store_models(self, scaling: Scaling, thetas: Array, center: Array) -> None:
        """Write coefficients and intercepts for the features as given."""
        self.feature_mean_, self.feature_scale_ = scaling.mean, scaling.scale
        everyone = np.vstack([thetas, center])
        matrices = everyone.reshape(len(everyone), -1, self._family().n_scores)
        coef, intercept = self._to_user(*scaling.to_user(matrices))
        self.coef_, self.center_coef_ = coef[:-1], coef[-1]
        self.intercept_ = intercept[:-1]
        self.center_intercept_ = intercept[-1] if intercept.ndim > 1 else float(intercept[-1])

    def _warn_unless_converged(self, tol: float, stacklevel: int = 4) -> None:
        if not self.kkt_residual_ <= tol:
            warnings.warn(
                f"The solver stopped at a relative KKT residual of {self.kkt_residual_:.1e}, above "
                f"{tol:g}, with `max_iter`={self.max_iter}. {self._remedy}",
                ConvergenceWarning,
                stacklevel=stacklevel,
            )

    def _scores(self, X: Any, tasks: Any) -> Array:
        """Return linear scores of rows; the centre predicts unknown tasks."""
        check_is_fitted(self)
        array, codes, _ = self._check_new_rows(X, tasks)
        return linear_scores(vars(self), array, codes)


def checked_weights(sample_weight: Any, X: Any) -> Array:
    """Weights of the rows, 1 by default, not all 0."""
    weights: Array = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    if not weights.any():
        raise ValueError(
            "`sample_weight` must be positive for at least one row; got no positive weight."
        )
    return weights


def checked_offset(offset: Any, n_rows: int) -> Array:
    """Return one number per row, 0 by default."""
    if offset is None:
        return np.zeros(n_rows)
    checked: Array = check_array(
        offset, ensure_2d=False, dtype=np.float64, input_name="sample_offset"
    )
    if checked.shape != (n_rows,):
        raise ValueError(
            f"`sample_offset` must hold one number for each of the {n_rows} rows; got shape "
            f"{checked.shape}."
        )
    return checked
