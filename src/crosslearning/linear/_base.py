"""What the cross-learned linear models share."""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from functools import cached_property, partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from crosslearning.convex.blocks import BLOCKS, coupling_of, per_block
from crosslearning.convex.design import TaskTable
from crosslearning.convex.metric import root_of
from crosslearning.convex.prediction import linear_scores
from crosslearning.convex.scaling import Scaling
from crosslearning.exceptions import ConvergenceWarning
from crosslearning.linear._inputs import TaskRows, checked_weights
from crosslearning.linear.persistence import Saved
from crosslearning.tasks.estimators import as_objects, separate_labels

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from crosslearning.convex._solver import ConvexSolution
    from crosslearning.convex._tethers import BlockTethers
    from crosslearning.convex.blocks import PerBlock
    from crosslearning.convex.design import Design
    from crosslearning.convex.problem import ConvexProblem

__all__ = ["CrossLinearModel"]


class CrossLinearModel(TaskRows, Saved, BaseEstimator, metaclass=ABCMeta):  # type: ignore[misc]
    """Base of the estimators; see :class:`CrossRidge` and :class:`CrossLogisticRegression`."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "epsilon": "no_validation",  # Tether says what to use instead
        "stiffness": "no_validation",
        "tension": "no_validation",
        "alpha": [Interval(Real, 0, None, closed="left")],
        "metric": [StrOptions({"standard", "learned"}), "array-like"],
        "task_weights": [StrOptions({"samples", "equal"})],
        "fit_intercept": ["boolean"],
        "standardize": ["boolean"],
        "task_column": "no_validation",
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        epsilon: float | dict[str, float] = 1.0,
        *,
        alpha: float = 1.0,
        stiffness: float | dict[str, float] = 0.0,
        tension: float | dict[str, float] = 0.0,
        metric: str | ArrayLike = "standard",
        task_weights: str = "samples",
        fit_intercept: bool = True,
        standardize: bool = True,
        task_column: Any = None,
        tol: float = 1e-8,
        max_iter: int = 2000,
    ) -> None:
        self.epsilon = epsilon
        self.alpha = alpha
        self.stiffness = stiffness
        self.tension = tension
        self.metric = metric
        self.task_weights = task_weights
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.task_column = task_column
        self.tol = tol
        self.max_iter = max_iter

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        tasks: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit one model per task; cross-validated estimators choose their settings first.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
            Features; sparse matrices are refused.
        y : array of shape (n_rows,)
            Targets.
        tasks : array of shape (n_rows,), optional
            Task label of each row: any hashable values. Without it, and without `task_column`,
            all rows are one task.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row.

        Returns
        -------
        self
        """
        self._validate_params()
        self._fit(self._check_rows(X, y, tasks, sample_weight))
        self._warn_unless_converged()
        return self

    def _fit(self, rows: TaskTable) -> None:
        design = self._design()
        self._check_metric()
        scaling = design.scaling(rows)
        self.metric_, _ = self._learned(design, rows, scaling)
        self._fit_rows(rows, scaling, self.alpha)

    def _fit_rows(self, rows: TaskTable, scaling: Scaling, alpha: float) -> None:
        """Solve, and write the fitted attributes."""
        design = self._design()
        problem = design.problem(rows, scaling).with_ridge(alpha).in_variables(self.metric_)
        coupling = coupling_of(*self._knobs(), problem)
        solution = problem.fit(coupling)
        self._store(design, scaling, problem, coupling, solution)
        self.epsilon_ = self._named([tether.epsilon for tether in coupling.tethers])
        self.__dict__.pop("epsilon_max_", None)  # of an earlier fit
        self._ends = partial(problem.ends, coupling, solution)

    def _check_metric(self) -> None:
        """Refuse blocks in a metric that holds for all parameters."""
        if per_block(*self._knobs()) and not self._is_standard:
            raise ValueError(
                "Tethers by block are for metric='standard'; in any other metric one tether holds "
                f"all parameters. Got metric={self.metric!r} and values by block."
            )

    @property
    def _is_standard(self) -> bool:
        return isinstance(self.metric, str) and self.metric == "standard"

    def _learned(
        self, design: Design, rows: TaskTable, scaling: Scaling
    ) -> tuple[NDArray[np.float64] | None, float | None]:
        """Root of the metric, None for the standard one, and a ridge strength if one is learned."""
        if not isinstance(self.metric, str):
            return root_of(self.metric, rows.X.shape[1] + self.fit_intercept, design.n_scores), None
        return (None, None) if self._is_standard else design.learned(rows, scaling)

    @cached_property
    def epsilon_max_(self) -> float | dict[str, float]:
        """Radius at which the bound stops mattering; worked out when first asked for."""
        check_is_fitted(self)
        if "_ends" not in vars(self):
            raise AttributeError(
                "`epsilon_max_` is computed from the data of the fit, which copies and files do "
                "not keep. Ask for it before copying or saving the model, or fit again."
            )
        ends: list[float] = self._ends()
        del self._ends  # and with it the data
        if isinstance(self.epsilon_, dict):
            return dict(zip(self.epsilon_, ends, strict=True))
        return ends[0]

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_ends"}

    def fit_task(
        self,
        X: ArrayLike,
        y: ArrayLike,
        task: Any = "new",
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit a new task within the tether around the centre, which stays where it is.

        Parameters
        ----------
        X, y, sample_weight
            Rows of the new task.
        task : hashable, default="new"
            Its label.

        Returns
        -------
        estimator
            A new estimator that knows this task and the same centre; this one is not changed.
        """
        check_is_fitted(self)
        new: Self = clone(self)
        fitted = {k: v for k, v in vars(self).items() if k.endswith("_") or k == "_ends"}
        new.__dict__.update(fitted)
        features, _ = separate_labels(X, None, self.task_column)
        array, target = validate_data(self, features, y, reset=False, **self._checks)
        weights = checked_weights(sample_weight, array)
        own, share = weights.sum(), 1.0 / self.n_tasks_fitted_
        if self.task_weights == "equal":
            weights = weights * (self.total_weight_ * share / own)
        else:
            share = own / self.total_weight_
        codes = np.zeros(len(weights), dtype=np.int64)
        rows = TaskTable(array, self._encoded(target), weights, codes, 1)
        design, scaling = self._design(), Scaling(self.feature_mean_, self.feature_scale_)
        problem = design.problem(rows, scaling).with_ridge(share * self._alpha())
        problem = problem.in_variables(self.metric_)
        user = scaling.from_user(*self._center(), fit_intercept=self.fit_intercept)
        center: NDArray[np.float64] = user.ravel()
        if self.metric_ is not None:
            center = np.asarray(np.linalg.solve(self.metric_, center))
        coupling = coupling_of(*self._knobs(), problem)
        new.tasks_ = as_objects([task])
        new._store(design, scaling, problem, coupling, problem.fit_task(coupling, center))
        new._warn_unless_converged()
        return new

    @abstractmethod
    def _design(self) -> Design:
        """Return the settings that make a problem of rows."""

    @abstractmethod
    def _to_user(
        self, coef: NDArray[np.float64], intercept: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Turn scores' coefficients and intercepts into those that users see."""

    @abstractmethod
    def _center(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return coefficients and intercepts of the centre's scores: the inverse of `_to_user`."""

    def _alpha(self) -> float:
        """Strength of the ridge term that was used."""
        return self.alpha

    def _knobs(self) -> tuple[PerBlock, PerBlock, PerBlock]:
        """Radius, stiffness and tension to use."""
        return self.epsilon, self.stiffness, self.tension

    def _named(self, values: list[Any]) -> Any:
        """One value, or one by name of block."""
        if per_block(*self._knobs()):
            return dict(zip(BLOCKS, values, strict=False))
        return values[0]

    def _store(
        self,
        design: Design,
        scaling: Scaling,
        problem: ConvexProblem,
        coupling: BlockTethers,
        solution: ConvexSolution,
    ) -> None:
        """Write the fitted attributes."""
        everyone = np.vstack([solution.thetas, solution.center])
        if self.metric_ is not None:
            everyone = everyone @ self.metric_.T
        coef, intercept = self._to_user(*scaling.to_user(design.matrices(everyone)))
        self.coef_, self.center_coef_ = coef[:-1], coef[-1]
        self.intercept_ = intercept[:-1]
        self.center_intercept_ = intercept[-1] if intercept.ndim > 1 else float(intercept[-1])
        self.feature_mean_, self.feature_scale_ = scaling.mean, scaling.scale
        self.distances_ = self._named(list(coupling.distances(solution.thetas - solution.center)))
        self.forces_ = self._named(list(coupling.distances(solution.forces)))
        offsets = solution.thetas - solution.center
        losses = problem.loss.value(solution.thetas).sum()
        self.objective_ = float(losses) + coupling.penalty(offsets)
        self.kkt_residual_ = solution.kkt_residual
        self.n_iter_ = max(solution.n_iter, 1)

    def _warn_unless_converged(self, stacklevel: int = 3) -> None:
        if not self.kkt_residual_ <= self.tol:
            warnings.warn(
                f"The solver stopped at a relative KKT residual of {self.kkt_residual_:.1e}, above "
                f"`tol`={self.tol:g}, after {self.n_iter_} iterations. Raise `max_iter` or `tol`, "
                "or add a ridge term with `alpha`.",
                ConvergenceWarning,
                stacklevel=stacklevel,
            )

    def _scores(self, X: Any, tasks: Any) -> NDArray[np.float64]:
        """Linear scores of rows, of the centre where the task is not known."""
        check_is_fitted(self)
        array, codes = self._check_new_rows(X, tasks)
        return linear_scores(vars(self), array, codes)
