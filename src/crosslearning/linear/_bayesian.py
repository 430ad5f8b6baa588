"""Base of the linear models with a learned geometry, of single tasks and of groups within groups.

Tasks of several columns have tuples as labels, and groups have models too. First axes of levels go
from the outermost in, those of the evidence from the tasks up.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from crosslearning.convex.evidence.gaussian import COVARIANCES, nested_fit
from crosslearning.convex.evidence.laplace import (
    laplace_fit,
    nested_laplace_fit,
    new_task_means,
    new_tasks,
)
from crosslearning.convex.evidence.marginal import Hierarchy, Marginal
from crosslearning.convex.evidence.passes import laplace_passes
from crosslearning.convex.evidence.posterior import (
    EvidenceFit,
    EvidenceStatus,
    Gaussians,
    NestedFit,
)
from crosslearning.convex.evidence.search import SearchOptions
from crosslearning.convex.families import AVERAGED, LEARNED, Family, Gaussian, Student
from crosslearning.convex.predict import Predictor
from crosslearning.convex.solver.augmented_lagrangian import ConvexSolution
from crosslearning.convex.solver.bounded import bounded, bounded_levels, bounded_tasks
from crosslearning.convex.solver.losses import FamilyLoss, Loss, loss_of_pass, quadratic_loss
from crosslearning.convex.solver.tethers import Metric
from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.passes import Passed
from crosslearning.convex.sums.rows import GLMRows, Moments
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.convex.sums.table import TaskTable
from crosslearning.exceptions import ConvergenceWarning
from crosslearning.linear._estimator import LinearModel, one_blas_thread
from crosslearning.linear.summary import Inference
from crosslearning.tasks.estimators import codes_to_fit, codes_to_predict, is_center
from crosslearning.tasks.labels import (
    Paths,
    as_objects,
    codes_of,
    groups_of,
    has_levels,
    level_names,
    parents_of,
    paths_like,
    paths_of,
)
from crosslearning.tether import Array, Indices

_CERTAIN = 1e-8  # largest relative KKT residual without a warning
_MODE_AIM, _LEVELS_AIM = 1e-11, 1e-10  # what the solvers of bounds aim for
_MAX_ROUNDS, _CLOSE = 15, 1e-7  # passes over rows for a bound, and the last step of a parameter
_OPTIONAL = (
    "groups_", "level_names_", "group_coef_", "group_intercept_", "group_covariances_",
    "group_distances_", "threshold_covariance_", "threshold_slopes_", *LEARNED,
)  # fmt: skip


@dataclass(eq=False, repr=False, kw_only=True)
class CrossBayesianModel(Inference, LinearModel):
    """Base of the estimators; see :class:`CrossBayesianRidge`."""

    epsilon: float | Sequence[float] = np.inf
    covariance: str = "auto"
    blocks: ArrayLike | None = None
    tol: float = 1e-6
    max_iter: int = 500

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearModel._parameter_constraints,
        "epsilon": [Interval(Real, 0, None, closed="both"), "array-like"],  # one for each level
        "covariance": [StrOptions(set(COVARIANCES))],
        "blocks": ["array-like", None],
    }
    _remedy = "Raise `max_iter`, or `epsilon` if it is finite."

    def _forget_earlier_fit(self) -> None:
        for name in _OPTIONAL:
            self.__dict__.pop(name, None)

    def _check_statistics(self, statistics: Statistics) -> None:
        self._forget_earlier_fit()
        super()._check_statistics(statistics)

    def _task_codes(self, tasks: Any, n_rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        self._forget_earlier_fit()
        if not has_levels(tasks):
            return codes_to_fit(tasks, n_rows, stacklevel=5)
        labels, codes = codes_to_fit(paths_of(tasks, n_rows), n_rows)
        self._store_groups(level_names(tasks), labels.tolist())
        return labels, codes

    def _name_levels(self, tasks: Any, n_tasks: int) -> None:
        """Take the labels of tasks, in several columns, whose rows were summed."""
        paths = paths_of(tasks, len(tasks)) if has_levels(tasks) else []
        if not len(paths) == len(set(paths)) == n_tasks:
            raise ValueError(
                "`tasks` must have several columns of labels, outermost first, and a row for each "
                f"of the {n_tasks} tasks of the sums; got {len(set(paths))} different rows. Omit "
                "it for tasks of one level, whose labels are those of the sums."
            )
        self.tasks_ = as_objects(paths)
        self._store_groups(level_names(tasks), paths)

    def _store_groups(self, names: Sequence[str], paths: Paths) -> None:
        self.level_names_ = names
        self.groups_ = [as_objects(groups) for groups in groups_of(paths)]

    def _new_codes(self, tasks: Any, n_rows: int) -> NDArray[np.int64]:
        if not self.groups_ or tasks is None or is_center(tasks):
            return codes_to_predict(self.tasks_, tasks, n_rows)
        groups, fitted = [groups.tolist() for groups in self.groups_], self.tasks_.tolist()
        return codes_of(paths_like(tasks, n_rows, self.level_names_, fitted), fitted, groups)

    def _hierarchy(self) -> Hierarchy:
        if not self.groups_:
            return Hierarchy((np.zeros(len(self.tasks_), dtype=np.intp),))
        groups = [groups.tolist() for groups in self.groups_]
        return Hierarchy(parents_of(self.tasks_.tolist(), groups))

    def _epsilons(self) -> Array:
        """Return the bound of each level, outermost first."""
        n_levels = len(self.level_names_)
        try:
            epsilons = np.asarray(self.epsilon, dtype=np.float64)
        except (TypeError, ValueError):
            epsilons = np.array(np.nan)
        if epsilons.shape not in ((), (n_levels,)) or not np.all(epsilons >= 0):
            raise ValueError(
                f"`epsilon` must be a number of at least 0, or one for each of the {n_levels} "
                f"levels, outermost first; got {self.epsilon!r}."
            )
        return np.array(np.broadcast_to(epsilons, n_levels))

    def _evidence_options(self, n_features: int) -> dict[str, Any]:
        options = {name: getattr(self, name) for name in ("covariance", "tol", "max_iter")}
        return {**options, "blocks": self._blocks(n_features)}

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

    @one_blas_thread()
    def _fit_likelihood(self, rows: TaskTable, offset: Array | None) -> None:
        """Fit rows of any family by Laplace's approximation."""
        scaling = self._scaling_of(rows)
        glm = self._glm(rows, scaling, offset)
        if self.groups_:
            self._fit_nested(scaling, glm)
            return
        fit = laplace_fit(glm, **self._evidence_options(rows.X.shape[1]))
        gaussians, posterior = fit.gaussians(), fit.posterior
        self._keep_shape(fit.family)
        glm, noise = replace(glm, family=fit.family), posterior.noise_variance
        loss = self._loss(glm, noise, posterior.thetas, gaussians.covariances)
        self._store(scaling, posterior, gaussians, loss)

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
        options = SearchOptions(**self._evidence_options(statistics.n_features))
        fit, last = laplace_passes(
            passed, statistics, scaling, self._family(), options,
            intercept=self.fit_intercept, learn_from=learn_from,
        )  # fmt: skip

        def around(thetas: Array) -> Loss:
            return loss_of_pass(passed, replace(last, thetas=thetas))

        loss = quadratic_loss(fit.moments, fit.posterior.noise_variance)
        self._store(scaling, fit.posterior, fit.gaussians(), loss, around)

    def _loss(self, rows: GLMRows, noise: float, thetas: Array, covariances: Array) -> Loss:
        """Minus log-likelihoods of the tasks, given their posterior."""
        if isinstance(rows.family, Student):
            squares = rows.expected_squares(thetas, covariances)
            return quadratic_loss(rows.moments(rows.family.precisions(squares / noise)), noise)
        if type(rows.family) is Gaussian:
            return quadratic_loss(rows.moments(), noise)
        return FamilyLoss(rows, noise)

    def _fit_task(self, rows: TaskTable, offset: Array | None = None) -> None:
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
            loss, metric, self.epsilon_, center, tol=_MODE_AIM, max_iter=self.max_iter
        )
        if isinstance(glm.family, AVERAGED):
            means, self.task_covariances_ = new_task_means(glm, center, unseen, noise)
            if self.epsilon_ == np.inf:
                solution = replace(solution, thetas=means, center=center)
        self._store_tasks(self._scaling(), metric, solution)

    def _fit_nested(self, scaling: Scaling, data: Moments | GLMRows) -> None:
        """Fit moments of Gaussian targets, or rows of another family, in groups within groups."""
        options = self._evidence_options(len(scaling.mean))
        self.epsilon_ = self._epsilons()
        is_bounded = bool(np.isfinite(self.epsilon_).any())
        if is_bounded and isinstance(self._family(), Student):
            raise ValueError(
                "Bounds of groups within groups need another family than 'student'. Use "
                "epsilon=inf."
            )
        if isinstance(data, Moments):
            fit = nested_fit(data, self._hierarchy(), **options)
        else:
            fit = nested_laplace_fit(data, self._hierarchy(), averaged=not is_bounded, **options)
            data = data.with_family(fit.family)
            self._keep_shape(fit.family)
        self._store_evidence(scaling, fit)
        self.covariance_ = np.array([np.diag(variances) for variances in fit.level_variances[::-1]])
        self.center_covariance_, self.task_covariances_ = fit.center_covariance, fit.covariances[0]
        self._gains = fit.gains
        self._store_units(scaling, fit)
        self.task_sd_, self.task_intercept_sd_ = self._deviations(self.covariance_)
        self._store_deviations()
        self.forces_, self.kkt_residual_ = self.distances_, 0.0
        if is_bounded:
            self._bound_units(scaling, fit, data)

    def _bound_units(self, scaling: Scaling, fit: NestedFit, data: Moments | GLMRows) -> None:
        """Replace the means of groups and tasks by those within the bounds."""
        rows = None
        if isinstance(data, Moments):
            products = data.products / fit.noise_variance
        else:
            rows = partial(data.products, dispersion=fit.noise_variance)
            products = rows(fit.means[0])
        marginal = Marginal(
            products=products,
            task_weights=np.ones(len(self.tasks_)),
            hierarchy=fit.hierarchy,
            roots=np.sqrt(fit.level_variances),
            precision=1.0 / fit.center_variances,
        )
        solution = bounded_levels(
            marginal, self.epsilon_[::-1], rows, tol=_LEVELS_AIM, max_iter=self.max_iter
        )
        largest = self.epsilon_max_
        self._store_units(scaling, replace(fit, means=solution.means, center=solution.center))
        self.epsilon_max_, self.forces_ = largest, solution.forces[0]
        self.kkt_residual_ = solution.kkt_residual
        self._warn_unless_converged(_CERTAIN, stacklevel=7)

    def _store_units(self, scaling: Scaling, fit: NestedFit) -> None:
        """Write the models of tasks and groups, and covariances of new tasks in known groups."""
        outer = list(range(len(fit.means) - 1, 0, -1))
        units = [fit.means[k] for k in (0, *outer)]
        self._store_models(scaling, np.vstack(units), fit.center)
        ends = np.cumsum([len(means) for means in units])[:-1]
        self.coef_, *self.group_coef_ = np.split(self.coef_, ends)
        self.intercept_, *self.group_intercept_ = np.split(self.intercept_, ends)
        inner = np.cumsum(fit.level_variances, axis=0)  # between a task and a unit of a level
        self.group_covariances_ = [fit.covariances[k] + np.diag(inner[k - 1]) for k in outer]
        distances = []  # to their parents, in standard deviations
        for level, above in enumerate([*fit.means[1:], fit.center[None]]):
            offsets = fit.means[level] - above[fit.hierarchy.parents[level]]
            sds = np.sqrt(fit.level_variances[level])
            scaled = np.divide(offsets, sds, out=np.zeros_like(offsets), where=sds > 0)
            distances.append(np.linalg.norm(scaled, axis=1))
        self.distances_, self.group_distances_ = distances[0], [distances[k] for k in outer]
        self.epsilon_max_ = np.array([length.max() for length in distances[::-1]])

    def _store(
        self,
        scaling: Scaling,
        posterior: EvidenceFit,
        gaussians: Gaussians,
        loss: Loss,
        around: Callable[[Array], Loss] | None = None,
    ) -> None:
        """Write the fitted attributes; `loss` is that of the tasks.

        A loss that is one of many, each `around` some parameters, is exact only there. The mode is
        certified, and kept where a bound is to hold; otherwise the means of the `gaussians` are.
        """
        self._store_evidence(scaling, posterior)
        self.covariance_ = posterior.task_covariance
        self.center_covariance_ = gaussians.center_covariance
        self.task_covariances_, self._gains = gaussians.covariances, [gaussians.gains]
        metric = Metric.of(self.covariance_)
        none = np.zeros_like(posterior.thetas)
        mode = ConvexSolution(posterior.thetas, posterior.center, none, np.inf, 0)
        self.epsilon_ = float(self._epsilons().item())
        self.epsilon_max_ = float(metric.distances(mode.thetas - mode.center).max())
        of_columns = np.append(1.0 / self.center_sd_**2, np.zeros(int(self.fit_intercept)))
        precision = np.repeat(of_columns, self._family().n_scores)  # intercepts are free

        def within(loss: Loss, start: ConvexSolution) -> ConvexSolution:
            fixed = metric, precision, self.epsilon_
            return bounded(loss, *fixed, start, tol=_MODE_AIM, max_iter=self.max_iter)

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
        """Write what a fit says about the variances."""
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
