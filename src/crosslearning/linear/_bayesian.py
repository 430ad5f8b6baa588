"""Base of the linear models with a learned geometry."""

from __future__ import annotations

import warnings
from abc import abstractmethod
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
from crosslearning.convex.evidence.nearest import Gaussians
from crosslearning.convex.evidence.passes import laplace_passes
from crosslearning.convex.evidence.posterior import EvidenceFit, EvidenceStatus
from crosslearning.convex.evidence.search import SearchOptions
from crosslearning.convex.families import AVERAGED, Family
from crosslearning.convex.predict import Predictor
from crosslearning.convex.solver.bounded import bounded, bounded_tasks
from crosslearning.convex.solver.losses import FamilyLoss, Loss, loss_of_pass, quadratic_loss
from crosslearning.convex.solver.metric import Metric
from crosslearning.convex.solver.solution import ConvexSolution
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

    @abstractmethod
    def _fit(self, rows: TaskTable, offset: Array | None = None) -> None:
        """Fit checked rows."""

    @one_blas_thread()
    def _fit_likelihood(self, rows: TaskTable, offset: Array | None) -> None:
        """Fit rows of any family by Laplace's approximation."""
        center = self.standardize and self.fit_intercept
        scaling = Scaling.of(rows.X, rows.weights, center=center, scale=self.standardize)
        columns = scaling.columns(rows.X, intercept=self.fit_intercept)
        options = self._evidence_options(rows.X.shape[1])
        glm, task_weights = self._glm_rows(columns, rows, offset), options["task_weights"]
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
        center = self.standardize and self.fit_intercept
        scaling = statistics.scaling(center=center, scale=self.standardize)
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

    def _loss(self, rows: GLMRows, noise: float, thetas: Array, covariances: Array) -> Loss:  # noqa: ARG002
        """Minus log-likelihoods of the tasks, given their posterior."""
        return FamilyLoss(rows, noise)

    def _glm_rows(self, columns: Array, rows: TaskTable, offset: Array | None) -> GLMRows:
        return rows.glm(columns, self._family(), intercept=self.fit_intercept, offset=offset)

    def _fit_task(self, rows: TaskTable) -> None:
        self._fit_new(rows, None)

    def _fit_new(self, rows: TaskTable, offset: Array | None) -> None:
        """Fit the posterior of a new task, given the others."""
        if self.groups_:
            raise ValueError(
                "`fit_task` needs tasks of one level; these are groups within groups. Fit again "
                "with the rows of the new task."
            )
        columns = self._scaling().columns(rows.X, intercept=self.fit_intercept)
        center, noise = self._center_vector(), self.noise_sd_**2
        glm = self._glm_rows(columns, rows, offset)
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

    def _prior_variances(self) -> Array:
        """Variances of the centre's parameters; intercepts are free."""
        columns = np.append(self.center_sd_**2, np.full(int(self.fit_intercept), np.inf))
        return np.repeat(columns, self._family().n_scores)

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
        self.structure_, self.log_evidence_ = posterior.structure, float(posterior.log_evidence)
        self.noise_sd_ = float(np.sqrt(posterior.noise_variance))
        by_column = posterior.center_variances[:: self._family().n_scores]
        self.center_sd_ = np.sqrt(by_column[: len(scaling.mean)])
        self.covariance_ = posterior.task_covariance
        self.center_covariance_ = gaussians.center_covariance
        self.task_covariances_ = gaussians.covariances
        self._gains, self._statistics = gaussians.gains, None
        self._keep_variance_law(posterior)
        self.status_, self.n_iter_ = posterior.status.value, posterior.n_iter
        metric = Metric.of(self.covariance_)
        none = np.zeros_like(posterior.thetas)
        mode = ConvexSolution(posterior.thetas, posterior.center, none, np.inf, 0)
        self.epsilon_ = float(self._epsilons(1).item())
        self.epsilon_max_ = float(metric.distances(mode.thetas - mode.center).max())
        solution = self._bounded(loss, metric, task_weights, mode)
        for _ in range(_MAX_ROUNDS):
            if around is None or self.epsilon_ >= self.epsilon_max_:
                break
            before = replace(solution, kkt_residual=np.inf)
            solution = self._bounded(around(before.thetas), metric, task_weights, before)
            if np.abs(solution.thetas - before.thetas).max() <= _CLOSE:
                break
        if posterior.status in (EvidenceStatus.MAX_ITER, EvidenceStatus.MAX_PASSES):
            warnings.warn(posterior.status.value, ConvergenceWarning, stacklevel=5)
        if self.epsilon_ == np.inf:
            solution = replace(solution, center=gaussians.center, thetas=gaussians.thetas)
        self._store_tasks(scaling, metric, solution)
        sds, level = self._deviations(self.covariance_[np.newaxis])
        self.task_sd_, self.task_intercept_sd_ = sds[0], level[0]

    def _bounded(
        self, loss: Loss, metric: Metric, task_weights: Array, start: ConvexSolution
    ) -> ConvexSolution:
        precision = 1.0 / self._prior_variances()
        return bounded(
            loss, metric, precision, self.epsilon_, task_weights, start,
            tol=_AIM * _CERTAIN, max_iter=self.max_iter,
        )  # fmt: skip

    def _store_tasks(self, scaling: Scaling, metric: Metric, solution: ConvexSolution) -> None:
        self._store_models(scaling, solution.thetas, solution.center)
        self.coef_sd_, _ = self._deviations(self.task_covariances_)
        self.center_coef_sd_ = self._deviations(self.center_covariance_[np.newaxis])[0][0]
        self.distances_ = metric.distances(solution.thetas - solution.center)
        self.forces_ = np.linalg.norm(solution.forces[:, : metric.n_free], axis=1)
        self.kkt_residual_ = float(solution.kkt_residual)
        self._warn_unless_converged(_CERTAIN, stacklevel=6)

    def _deviations(self, covariances: Array) -> tuple[Array, Array]:
        """Return standard deviations of coefficients and of intercepts at the mean features."""
        p, q = len(self.feature_mean_), self._family().n_scores
        scales = np.append(self.feature_scale_, np.ones(int(self.fit_intercept)))
        blocks = covariances.reshape(len(covariances), len(scales), q, len(scales), q)
        unit = np.eye(q)[:, :, None]
        basis = self._to_user(unit, np.zeros((q, q)))[0].reshape(q, -1)  # scores to users' ones
        variances = np.einsum("njqjs,qk,sk->nkj", blocks, basis, basis, optimize=True) / scales**2
        sds = np.sqrt(np.maximum(variances, 0.0))
        intercepts = sds[..., p:].sum(axis=-1)
        if self.center_coef_.ndim == 1:
            return sds[:, 0, :p], intercepts[:, 0]
        return sds[..., :p], intercepts

    def _predictor(self, X: Any, tasks: Any) -> tuple[Predictor, Array, NDArray[np.int64]]:
        """Return the predictor, and checked features and task numbers of rows."""
        check_is_fitted(self)
        features, codes, _ = self._check_new_rows(X, tasks)
        return Predictor.of(vars(self)), features, codes
