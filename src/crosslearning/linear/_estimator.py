"""Base classes: rows with tasks, targets, and fitted linear models that can be saved."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_is_fitted,
    validate_data,
)
from threadpoolctl import ThreadpoolController

from crosslearning.archive import read_archive, write_archive
from crosslearning.convex.families import contrasts, family_of
from crosslearning.convex.predict import linear_scores
from crosslearning.convex.sums.cells import Cells
from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.rows import GLMRows
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.convex.sums.table import Data, TaskTable
from crosslearning.coupling._members import level_of_caller
from crosslearning.evaluation import Comparison
from crosslearning.exceptions import ConvergenceWarning
from crosslearning.tasks.estimators import (
    TaskClassifier,
    TaskRegressor,
    codes_to_fit,
    codes_to_predict,
    separate_labels,
)
from crosslearning.tasks.labels import as_objects
from crosslearning.tether import Array, Indices

if TYPE_CHECKING:
    from crosslearning.report.plots import Plot

_DATACLASSES, _KIND = (Comparison, Cells), "linear model"  # dataclasses among fitted attributes
_JOINT = ("_gains", "_statistics")  # what contrasts and updates need, and predictions do not


@dataclass(eq=False, repr=False, kw_only=True)
class TaskEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator whose rows belong to tasks; subclasses encode targets and have `_fit`."""

    task_column: Any = None
    _checks: ClassVar[dict[str, Any]] = {}  # further ones of scikit-learn's validation

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
            Task label of each row, any hashable. All rows are one task if neither this nor
            `task_column` is given. Of groups within groups, columns, outermost first.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row.
        """
        self._validate_params()
        self._fit(self._check_rows(X, y, tasks, sample_weight))
        return self

    def _learn_target(self, source: Any, y: NDArray[Any], weights: Array) -> None:
        """Remember what is needed to encode targets; `source` are those that `fit` got."""

    def _forget(self) -> None:
        """Remove the attributes of an earlier fit."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            del self.__dict__[name]

    def _check_rows(self, X: Any, y: Any, tasks: Any, sample_weight: Any) -> TaskTable:
        self._forget()
        X, tasks = separate_labels(X, tasks, self.task_column)
        array, target, weights = self._checked(X, y, sample_weight)
        self.tasks_, codes = self._task_codes(tasks, len(weights))
        self._learn_target(y, target, weights)
        self._count(weights, np.bincount(codes, weights > 0))
        return TaskTable(array, self._encoded(target), weights, codes, len(self.tasks_))

    def _count(self, weights: Array, counts: NDArray[Any]) -> None:
        self.total_weight_, self.n_rows_fitted_ = float(weights.sum()), int(counts.sum())
        self.n_tasks_fitted_ = int(np.count_nonzero(counts))

    def _checked(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool = True
    ) -> tuple[Array, NDArray[Any], Array]:
        """Return features, targets and weights, 1 by default."""
        numeric = not is_classifier(self)
        options = {"dtype": np.float64, "y_numeric": numeric, "reset": reset, **self._checks}
        array, target = validate_data(self, X, y, **options)
        target = target.astype(np.float64) if numeric else target
        weights: Array = _check_sample_weight(
            sample_weight, array, dtype=np.float64, ensure_non_negative=True
        )
        if not weights.any():
            raise ValueError(
                "`sample_weight` must be positive for at least one row; got no positive weight."
            )
        return array, target, weights

    def _task_codes(self, tasks: Any, n_rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        return codes_to_fit(tasks, n_rows)

    def _new_codes(self, tasks: Any, n_rows: int) -> NDArray[np.int64]:
        return codes_to_predict(self.tasks_, tasks, n_rows)

    def _check_new_rows(self, X: Any, tasks: Any) -> tuple[Array, NDArray[np.int64], Any]:
        """Return features, task numbers (-1 if unknown) and labels of rows to predict."""
        X, tasks = separate_labels(X, tasks, self.task_column)
        array = validate_data(self, X, reset=False, dtype=np.float64)
        return array, self._new_codes(tasks, len(array)), tasks


class RealTarget(TaskRegressor):
    """Real targets, centred for accuracy and, for quantiles, in units of the noise."""

    target_scale_ = 1.0

    def _encoded(self, y: NDArray[Any]) -> Array:
        return np.asarray((y - self.target_mean_) / self.target_scale_)

    def _to_user(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        unit = self.target_scale_
        return unit * coef[..., 0, :], unit * intercept[..., 0] + self.target_mean_

    def _center(self) -> tuple[Array, Array]:
        level = np.array([self.center_intercept_ - self.target_mean_])
        return self.center_coef_[np.newaxis] / self.target_scale_, level / self.target_scale_


class ClassTarget(TaskClassifier):
    """Classes: one score for the second of two, or one per class that sum to 0."""

    def decision_function(self, X: ArrayLike, tasks: ArrayLike | str | None = None) -> Array:
        """Log-odds of the second of two classes, or a score of each class; rows as in `predict`."""
        scores = self._class_scores(X, tasks)
        return np.asarray(scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores)

    def _learn_target(self, source: Any, y: NDArray[Any], weights: Array) -> None:  # noqa: ARG002
        self._learn_classes(y)

    def _encoded(self, y: NDArray[Any]) -> Indices:
        codes = pd.Index(self.classes_).get_indexer(y)
        if (codes < 0).any():
            raise ValueError(
                f"Classes must be among those of `fit`, {self.classes_.tolist()}; got "
                f"{np.unique(y[codes < 0]).tolist()}."
            )
        return np.asarray(codes)

    def _to_user(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        if self._family().n_scores == 1:
            return coef, intercept
        basis = contrasts(len(self.classes_))
        return np.einsum("kq,...qp->...kp", basis, coef), intercept @ basis.T

    def _center(self) -> tuple[Array, Array]:
        if self._family().n_scores == 1:
            return self.center_coef_, self.center_intercept_
        basis = contrasts(len(self.classes_))
        return basis.T @ self.center_coef_, self.center_intercept_ @ basis


@dataclass(eq=False, repr=False, kw_only=True)
class LinearModel(TaskEstimator):
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
        """Fit a new task near the centre, as a new estimator; this one is unchanged.

        Parameters
        ----------
        X, y, sample_weight, **options
            Rows of the new task, and further arguments of `fit`, such as ``sample_offset``.
        task : hashable, default="new"
            Its label.
        """
        check_is_fitted(self)
        features, _ = separate_labels(X, None, self.task_column)
        array, target, weights = self._checked(features, y, sample_weight, reset=False)
        new: Self = clone(self)
        fitted = {k: v for k, v in vars(self).items() if k.endswith("_") or k == "_ends"}
        new.__dict__.update(fitted, tasks_=as_objects([task]))
        codes = np.zeros(len(weights), dtype=np.int64)
        new._fit_task(TaskTable(array, self._encoded(target), weights, codes, 1), **options)
        return new

    def plot_tasks(self) -> "Plot":
        """Draw the coefficients of every task around the centre; needs the extra ``app``."""
        from crosslearning.report import plots

        check_is_fitted(self)
        return plots.coefficients(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, without pickle."""
        joint = {name: vars(self)[name] for name in _JOINT if vars(self).get(name) is not None}
        if "_statistics" in joint:
            joint["_statistics"] = vars(joint["_statistics"])
        write_archive(path, _KIND, {**state_of(self), "joint": joint}, _DATACLASSES)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model written by :meth:`save`."""
        state = read_archive(path, _KIND, _DATACLASSES)
        if state["class"] != cls.__name__:
            raise ValueError(
                f"{path} holds a {state['class']}, not a {cls.__name__}. "
                f"Load it with {state['class']}.load."
            )
        model, joint = model_of(state), state["joint"]
        if "_statistics" in joint:
            sums, joint["_statistics"] = joint["_statistics"], Statistics()
            vars(joint["_statistics"]).update(sums)
        vars(model).update(joint)
        return model  # type: ignore[no-any-return]

    def _check_statistics(self, statistics: Statistics) -> None:
        """Write the attributes that do not depend on the model."""
        self._validate_params()
        if not statistics.n_rows:
            raise ValueError("A fit needs a row of positive weight; got statistics without any.")
        self._forget()
        self.tasks_ = as_objects(statistics.labels.tolist())
        self.n_features_in_ = statistics.n_features
        self._count(statistics.task_weights, statistics.counts)

    def _family(self) -> Any:
        return family_of(vars(self))

    def _scaling_of(self, data: Data) -> Scaling:
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
        self.feature_mean_, self.feature_scale_ = scaling.mean, scaling.scale
        everyone = np.vstack([thetas, center])
        matrices = everyone.reshape(len(everyone), -1, self._family().n_scores)
        coef, intercept = self._to_user(*scaling.to_user(matrices))
        self.coef_, self.center_coef_ = coef[:-1], coef[-1]
        self.intercept_ = intercept[:-1]
        self.center_intercept_ = intercept[-1] if intercept.ndim > 1 else float(intercept[-1])

    def _warn_unless_converged(self, tol: float) -> None:
        if not self.kkt_residual_ <= tol:
            warnings.warn(
                f"The solver stopped at a relative KKT residual of {self.kkt_residual_:.1e}, above "
                f"{tol:g}, with `max_iter`={self.max_iter}. {self._remedy}",
                ConvergenceWarning,
                stacklevel=level_of_caller(),
            )

    def _scores(self, X: Any, tasks: Any) -> Array:
        """Return linear scores of rows; the centre predicts unknown tasks."""
        check_is_fitted(self)
        array, codes, _ = self._check_new_rows(X, tasks)
        return linear_scores(vars(self), array, codes)


def state_of(model: Any) -> dict[str, Any]:
    """Class, parameters and fitted attributes of a model."""
    check_is_fitted(model)
    state = model.__getstate__()
    return {
        "class": type(model).__name__,
        "parameters": model.get_params(deep=False),
        "fitted": {name: value for name, value in state.items() if name.endswith("_")},
    }


def model_of(state: dict[str, Any]) -> Any:
    """Return the model with this state; its class is one of :mod:`crosslearning.linear`."""
    from crosslearning import linear

    if state["class"] not in linear.__all__:
        raise ValueError(f"This version of crosslearning has no estimator {state['class']}.")
    model = getattr(linear, state["class"])(**state["parameters"])
    vars(model).update(state["fitted"])
    return model


def checked_offset(offset: Any, n_rows: int) -> Array:
    """Return one number per row, 0 by default."""
    if offset is None:
        return np.zeros(n_rows)
    checked = check_array(offset, ensure_2d=False, dtype=np.float64, input_name="sample_offset")
    if checked.shape != (n_rows,):
        raise ValueError(
            f"`sample_offset` must hold one number per row, {n_rows}; got shape {checked.shape}."
        )
    return np.asarray(checked)


_libraries = cache(ThreadpoolController)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread: on small matrices threads mostly wait for each other."""
    with _libraries().limit(limits=1, user_api="blas"):
        yield
