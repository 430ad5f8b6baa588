"""Base of the linear models with a given or cross-validated tether."""

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from crosslearning.convex.evidence.gaussian import evidence_fit
from crosslearning.convex.evidence.laplace import laplace_fit
from crosslearning.convex.families import Gaussian
from crosslearning.convex.solver.augmented_lagrangian import ConvexSolution
from crosslearning.convex.solver.losses import FamilyLoss, Loss, quadratic_loss
from crosslearning.convex.solver.problem import BLOCKS, ConvexProblem, PerBlock, per_block
from crosslearning.convex.solver.tethers import BlockTethers, learned_root, root_of
from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.convex.sums.table import Data, TaskTable
from crosslearning.linear._estimator import LinearModel
from crosslearning.tether import Array

_AIM = 1e-3  # the solver aims below the requested tolerance
_ENOUGH = 1e-3  # gain in log evidence that does not matter to a metric


@dataclass(eq=False, repr=False, kw_only=True)
class CrossLinearModel(LinearModel):
    """Exact solutions for ``_knobs()``: ridge strength, radius, stiffness and tension."""

    metric: str | ArrayLike = "standard"
    task_weights: str = "samples"

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearModel._parameter_constraints,
        "metric": [StrOptions({"standard", "learned"}), "array-like"],
        "task_weights": [StrOptions({"samples", "equal"})],
    }
    _remedy = "Raise `max_iter` or `tol`, or add a ridge term with `alpha`."

    def _scaling_of(self, data: Data) -> Scaling:
        return super()._scaling_of(self._reduced(data))

    def _losses(self, data: Data, scaling: Scaling) -> ConvexProblem:
        """Losses of scaled columns, and the shares of the tasks in a ridge term to come."""
        data = self._reduced(data)
        weights, factor = data.task_weights, np.ones(data.n_tasks)
        share, used = weights / weights.sum(), weights > 0
        if self.task_weights == "equal":
            share = used / np.count_nonzero(used)
            factor = weights.sum() * np.divide(share, weights, out=0.0 * weights, where=used)
        loss: Loss
        if isinstance(data, Statistics):
            moments = data.moments(scaling, intercept=self.fit_intercept, target_mean=0.0)
            loss = quadratic_loss(moments, task_weights=factor)
        else:
            weighted = replace(data, weights=data.weights * factor[data.tasks])
            loss = FamilyLoss(self._glm(weighted, scaling))
        n_scores, n_coef = self._family().n_scores, len(scaling.mean)
        return ConvexProblem(
            loss=loss,
            weights=weights,
            shares=share,
            intercept=slice(n_coef * n_scores, (n_coef + self.fit_intercept) * n_scores),
            tol=_AIM * self.tol,
            max_iter=self.max_iter,
        )

    def _reduced(self, data: Data) -> Data:
        """Take sums in place of rows if the loss needs no more."""
        if isinstance(data, TaskTable) and isinstance(self._family(), Gaussian):
            return data.sums
        return data

    def _problem(self, data: Data, scaling: Scaling, alpha: float) -> ConvexProblem:
        return self._losses(data, scaling).with_ridge(alpha).in_variables(self.metric_)

    def _fit_scaled(self, data: Data, scaling: Scaling) -> None:
        problem = self._problem(data, scaling, self._knobs()[0])
        coupling = problem.coupling(*self._knobs()[1:])
        solution = problem.fit(coupling)
        self.epsilon_ = self._named([tether.epsilon for tether in coupling.tethers])
        self._ends = partial(problem.ends, coupling, solution)
        self._store(scaling, problem, coupling, solution)

    def _learned(self, data: Data, scaling: Scaling) -> tuple[Array | None, float | None]:
        """Root of the metric, None for the standard one, and a ridge strength if one is learned."""
        if not isinstance(self.metric, str):
            n_columns = len(scaling.mean) + self.fit_intercept
            return root_of(self.metric, n_columns, self._family().n_scores), None
        if self.metric == "standard":
            return None, None
        data = self._reduced(data)
        if isinstance(data, Statistics):
            fit = evidence_fit(data.moments(scaling, intercept=self.fit_intercept), tol=_ENOUGH)
        else:
            fit = laplace_fit(self._glm(data, scaling), tol=_ENOUGH)
        weight = data.task_weights.sum() / max(np.count_nonzero(data.counts), 1)
        root = learned_root(fit.task_covariance, fit.noise_variance / float(weight))
        return root, float(fit.noise_variance / fit.center_variances[0])

    @cached_property
    def epsilon_max_(self) -> PerBlock:
        """Radius beyond which the bound is inactive; computed on first access."""
        check_is_fitted(self)
        if "_ends" not in vars(self):
            raise AttributeError(
                "`epsilon_max_` is computed from the training data, which copies and files do not "
                "keep. Access it before copying or saving the model, or fit again."
            )
        ends: list[float] = self._ends()
        del self._ends  # and with it the data
        by_block = isinstance(self.epsilon_, dict)
        return dict(zip(self.epsilon_, ends, strict=True)) if by_block else ends[0]

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_ends"}

    def _fit_task(self, rows: TaskTable) -> None:
        weight, share = rows.weights.sum(), 1.0 / self.n_tasks_fitted_
        scaling, scale = self._scaling(), self.total_weight_ * share / weight
        if self.task_weights == "samples":
            share, scale = weight / self.total_weight_, 1.0
        rows = replace(rows, weights=scale * rows.weights)
        problem = self._problem(rows, scaling, share * self._knobs()[0])
        center = self._center_vector()
        if self.metric_ is not None:
            center = np.asarray(np.linalg.solve(self.metric_, center))
        coupling = problem.coupling(*self._knobs()[1:])
        self._store(scaling, problem, coupling, problem.fit_task(coupling, center))

    def _named(self, values: list[Any]) -> Any:
        """One value, or one by name of block."""
        by_block = per_block(*self._knobs())
        return dict(zip(BLOCKS, values, strict=False)) if by_block else values[0]

    def _store(
        self,
        scaling: Scaling,
        problem: ConvexProblem,
        coupling: BlockTethers,
        solution: ConvexSolution,
    ) -> None:
        models = solution.thetas, solution.center
        if self.metric_ is not None:
            models = models[0] @ self.metric_.T, self.metric_ @ models[1]
        self._store_models(scaling, *models)
        offsets = solution.thetas - solution.center
        self.distances_ = self._named(list(coupling.distances(offsets)))
        self.forces_ = self._named(list(coupling.distances(solution.forces)))
        losses = problem.loss.value(solution.thetas).sum()
        self.objective_ = float(losses) + coupling.penalty(offsets)
        self.kkt_residual_, self.n_iter_ = solution.kkt_residual, max(solution.n_iter, 1)
        self._warn_unless_converged(self.tol)


@dataclass(eq=False, repr=False, kw_only=True)
class CrossTethered(CrossLinearModel):
    """Base of the estimators with a given tether and ridge strength."""

    epsilon: PerBlock = field(default=1.0, kw_only=False)
    alpha: float = 1.0
    stiffness: PerBlock = 0.0
    tension: PerBlock = 0.0

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CrossLinearModel._parameter_constraints,
        # Tether says what to use instead.
        **dict.fromkeys(("epsilon", "stiffness", "tension"), "no_validation"),
        "alpha": [Interval(Real, 0, None, closed="left")],
    }

    def _knobs(self) -> tuple[float, PerBlock, PerBlock, PerBlock]:
        return self.alpha, self.epsilon, self.stiffness, self.tension

    def _fit(self, rows: Data) -> None:
        self._fit_scaled(rows, self._prepare(rows))

    def _prepare(self, data: Data) -> Scaling:
        """Learn scale and metric; only the standard metric allows tethers by block."""
        if per_block(*self._knobs()) and not np.array_equal(self.metric, "standard"):
            raise ValueError(
                "Tethers by block need metric='standard'; other metrics have one tether for all "
                f"parameters. Got metric={self.metric!r} and values by block."
            )
        scaling = self._scaling_of(data)
        self.metric_, _ = self._learned(data, scaling)
        return scaling
