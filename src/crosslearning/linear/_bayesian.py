"""Base of the linear models with a learned geometry."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from crosslearning.convex.evidence.gaussian import COVARIANCES
from crosslearning.convex.evidence.laplace import laplace_fit, new_task_means, new_tasks
from crosslearning.convex.evidence.passes import laplace_passes
from crosslearning.convex.evidence.posterior import (
    EvidenceFit,
    EvidenceStatus,
    Gaussians,
    NestedFit,
)
from crosslearning.convex.evidence.search import SearchOptions
from crosslearning.convex.families import AVERAGED, Family, Gaussian, Student
from crosslearning.convex.predict import Predictor
from crosslearning.convex.solver.augmented_lagrangian import ConvexSolution
from crosslearning.convex.solver.bounded import bounded, bounded_tasks
from crosslearning.convex.solver.losses import FamilyLoss, Loss, loss_of_pass, quadratic_loss
from crosslearning.convex.solver.tethers import Metric
from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.passes import Passed
from crosslearning.convex.sums.rows import GLMRows
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.convex.sums.table import TaskTable
from crosslearning.exceptions import ConvergenceWarning
from crosslearning.linear._estimator import LinearModel
from crosslearning.linear._nested import NestedTasks
from crosslearning.linear._threads import one_blas_thread
from crosslearning.tether import Array, Indices

_AIM = 1e-3  # the solver aims below the requested tolerance
_CERTAIN = 1e-8  # largest relative KKT residual without a warning
_MAX_ROUNDS, _CLOSE = 15, 1e-7  # passes over rows for a bound, and the last step of a parameter


@dataclass(eq=False, repr=False, kw_only=True)
class CrossBayesianModel(NestedTasks, LinearModel):
    """Base of the estimators; see :class:`CrossBayesianRidge`."""

    epsilon: float | Sequence[float] = np.inf
    covariance: str = "auto"
    blocks: ArrayLike | None = None
    task_weights: dict[Any, float] | None = None
    tol: float = 1e-6
    max_iter: int = 500

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearModel._parameter_constraints,
        "epsilon": [Interval(Real, 0, None, closed="both"), "array-like"],  # one for each level
        "covariance": [StrOptions(set(COVARIANCES))],
        "blocks": ["array-like", None],
        "task_weights": [dict, None],
    }
    _remedy = "Raise `max_iter`, or `epsilon` if it is finite."

    @one_blas_thread()
    def _fit_likelihood(self, rows: TaskTable, offset: Array | None) -> None:
        """Fit rows of any family by Laplace's approximation."""
        scaling = self._scaling_of(rows)
        options = self._evidence_options(rows.X.shape[1])
        glm, task_weights = self._glm(rows, scaling, offset), options["task_weights"]
        if self.groups_:
            self._fit_nested(scaling, glm)
            return
        fit = laplace_fit(glm, **options)
        gaussians, posterior = fit.gaussians(), fit.posterior
        glm = replace(glm, family=fit.family)
        self._keep_shape(fit.family)
        weighted = replace(glm, weights=glm.weights * task_weights[glm.tasks])
        noise, covariances = posterior.noise_variance, gaussians.covariances
        loss = self._loss(weighted, noise, posterior.thetas, covariances)
        self._store(scaling, posterior, gaussians, loss, task_weights)

    def _keep_shape(self, family: Family) -> None:
        """Write the attributes that a family has learned."""
        for name in family.learned():
            value = getattr(family, name.removesuffix("_"))
            setattr(self, name, np.array(value) if isinstance(value, tuple) else value)

    @one_blas_thread()
    def _fit_passes(
        self, statistics: Statistics, passed: Passed, learn_from: int | None = None
    ) -> None:
        """Fit rows of a family from sums at several parameters, by the same approximation."""
        scaling = self._scaling_of(statistics)
        options = self._evidence_options(statistics.n_features)
        task_weights = options.pop("task_weights")
        fit, last = laplace_passes(
            passed, statistics, scaling, self._family(), SearchOptions(**options), task_weights,
            intercept=self.fit_intercept, learn_from=learn_from,
        )  # fmt: skip

        def around(thetas: Array) -> Loss:
            return loss_of_pass(passed, replace(last, thetas=thetas), task_weights)

        loss = quadratic_loss(fit.moments, fit.posterior.noise_variance, task_weights)
        self._store(scaling, fit.posterior, fit.gaussians(), loss, task_weights, around)

    def _evidence_options(self, n_features: int) -> dict[str, Any]:
        options = {name: getattr(self, name) for name in ("covariance", "tol", "max_iter")}
        blocks, weights = self._blocks(n_features), self._weights_of_tasks()
        return {**options, "blocks": blocks, "task_weights": weights}

    def _loss(self, rows: GLMRows, noise: float, thetas: Array, covariances: Array) -> Loss:
        """Minus log-likelihoods of the tasks, given their posterior."""
        if isinstance(rows.family, Student):
            squares = rows.expected_squares(thetas, covariances)
            return quadratic_loss(rows.moments(rows.family.precisions(squares / noise)), noise)
        if type(rows.family) is Gaussian:
            return quadratic_loss(rows.moments(), noise)
        return FamilyLoss(rows, noise)

    def _fit_task(self, rows: TaskTable) -> None:
        self._fit_new(rows, None)

    def _fit_new(self, rows: TaskTable, offset: Array | None) -> None:
        """Fit the posterior of a new task, given the others."""
        if self.groups_:
            raise ValueError(
                "`fit_task` needs tasks of one level; these are groups within groups. Fit again "
                "with the rows of the new task."
            )
        center, noise = self._center_vector(), self.noise_sd_**2
        glm = self._glm(rows, self._scaling(), offset)
        unseen = self.covariance_ + self.center_covariance_
        thetas, self.task_covariances_ = new_tasks(glm, center, unseen, noise)
        loss, metric = self._loss(glm, noise, thetas, self.task_covariances_), Metric.of(unseen)
        solution = bounded_tasks(
            loss, metric, self.epsilon_, center, tol=_AIM * _CERTAIN, max_iter=self.max_iter
        )
        if isinstance(glm.family, AVERAGED):
            means, self.task_covariances_ = new_task_means(glm, center, unseen, noise)
            if self.epsilon_ == np.inf:
                solution = replace(solution, thetas=means, center=center)
        self._store_tasks(self._scaling(), metric, solution)

    def _blocks(self, n_features: int) -> Indices | None:
        """Return the number of each column's block."""
        if self.blocks is None:
            return None
        numbers = np.unique(np.asarray(self.blocks), return_inverse=True)[1]
        if len(numbers) != n_features or numbers.ndim != 1:
            raise ValueError(
                f"`blocks` must hold a label for each of the {n_features} features; got shape "
                f"{np.shape(self.blocks)}."
            )
        return np.append(numbers, np.zeros(int(self.fit_intercept), dtype=np.intp))

    def _weights_of_tasks(self) -> Array:
        """How many tasks each stands for."""
        if not self.task_weights:
            return np.ones(len(self.tasks_))
        by_label = self.task_weights
        unknown = set(by_label) - set(self.tasks_.tolist())
        if unknown:
            raise ValueError(
                f"`task_weights` holds weights by task label; {sorted(map(repr, unknown))[0]} is "
                "not a task in the data. Remove it."
            )
        weights = np.array([by_label.get(task, 1.0) for task in self.tasks_], dtype=np.float64)
        if not np.all((weights > 0) & (weights < np.inf)):
            raise ValueError(
                f"`task_weights` must be positive and finite; the smallest is {weights.min()}. "
                "Drop the rows of a task to ignore it."
            )
        return weights

    def _store(
        self,
        scaling: Scaling,
        posterior: EvidenceFit,
        gaussians: Gaussians,
        loss: Loss,
        task_weights: Array,
        around: Callable[[Array], Loss] | None = None,
    ) -> None:
        """Write the fitted attributes; `loss` is that of the tasks, times their weights.

        A loss that is one of many, each `around` some parameters, is exact only there. The mode is
        certified, and kept where a bound is to hold; otherwise the means of the `gaussians` are.
        """
        self._store_evidence(scaling, posterior)
        self.covariance_ = posterior.task_covariance
        self.center_covariance_ = gaussians.center_covariance
        self.task_covariances_, self._gains = gaussians.covariances, gaussians.gains
        metric = Metric.of(self.covariance_)
        none = np.zeros_like(posterior.thetas)
        mode = ConvexSolution(posterior.thetas, posterior.center, none, np.inf, 0)
        self.epsilon_ = float(self._epsilons(1).item())
        self.epsilon_max_ = float(metric.distances(mode.thetas - mode.center).max())
        of_columns = np.append(1.0 / self.center_sd_**2, np.zeros(int(self.fit_intercept)))
        precision = np.repeat(of_columns, self._family().n_scores)  # intercepts are free

        def within(loss: Loss, start: ConvexSolution) -> ConvexSolution:
            fixed = metric, precision, self.epsilon_, task_weights
            return bounded(loss, *fixed, start, tol=_AIM * _CERTAIN, max_iter=self.max_iter)

        solution = within(loss, mode)
        for _ in range(_MAX_ROUNDS):
            if around is None or self.epsilon_ >= self.epsilon_max_:
                break
            before = replace(solution, kkt_residual=np.inf)
            solution = within(around(before.thetas), before)
            if np.abs(solution.thetas - before.thetas).max() <= _CLOSE:
                break
        if self.epsilon_ == np.inf:
            solution = replace(solution, center=gaussians.center, thetas=gaussians.thetas)
        self._store_tasks(scaling, metric, solution)
        sds, of_intercepts = self._deviations(self.covariance_[np.newaxis])
        self.task_sd_, self.task_intercept_sd_ = sds[0], of_intercepts[0]

    def _store_evidence(self, scaling: Scaling, fit: EvidenceFit | NestedFit) -> None:
        """Write what a fit says about the variances; levels go from the outermost in."""
        if fit.status in (EvidenceStatus.MAX_ITER, EvidenceStatus.MAX_PASSES):
            warnings.warn(fit.status.value, ConvergenceWarning, stacklevel=7)
        self.structure_, self.log_evidence_ = fit.structure, float(fit.log_evidence)
        self.noise_sd_ = float(np.sqrt(fit.noise_variance))
        by_column = fit.center_variances[:: self._family().n_scores]
        self.center_sd_ = np.sqrt(by_column[: len(scaling.mean)])
        law = fit.variance_law
        by_level = np.reshape([law.estimates, law.offsets, law.df], (3, len(self.level_names_), -1))
        self.task_variance_law_ = by_level[:, ::-1].reshape(3, -1)
        self.status_, self.n_iter_ = fit.status.value, fit.n_iter
        self._statistics: Statistics | None = None

    def _store_deviations(self) -> None:
        self.coef_sd_, _ = self._deviations(self.task_covariances_)
        of_center = self._with_thresholds(self.center_covariance_, [-1], np.ones(1))
        self.center_coef_sd_ = self._deviations(of_center[np.newaxis])[0][0]

    def _store_tasks(self, scaling: Scaling, metric: Metric, solution: ConvexSolution) -> None:
        self._store_models(scaling, solution.thetas, solution.center)
        self._store_deviations()
        self.distances_ = metric.distances(solution.thetas - solution.center)
        self.forces_ = np.linalg.norm(solution.forces[:, : metric.n_free], axis=1)
        self.kkt_residual_ = float(solution.kkt_residual)
        self._warn_unless_converged(_CERTAIN, stacklevel=6)

    def _predictor(self, X: Any, tasks: Any) -> tuple[Predictor, Array, NDArray[np.int64]]:
        """Return the predictor, and checked features and task numbers of rows."""
        check_is_fitted(self)
        features, codes, _ = self._check_new_rows(X, tasks)
        return Predictor.of(vars(self)), features, codes
