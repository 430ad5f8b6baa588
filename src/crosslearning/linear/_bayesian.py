"""Base of the linear models with a learned geometry.

Groups within groups have tuples as labels, and models too. First axes of levels go from the
outermost in, those of the evidence from the tasks up.
"""

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from crosslearning.convex.evidence.gaussian import COVARIANCES
from crosslearning.convex.evidence.laplace import laplace_fit, new_tasks
from crosslearning.convex.evidence.marginal import Hierarchy
from crosslearning.convex.evidence.passes import laplace_passes
from crosslearning.convex.evidence.posterior import EvidenceFit, EvidenceStatus, Posterior
from crosslearning.convex.evidence.search import SearchOptions
from crosslearning.convex.families import Gaussian, Student
from crosslearning.convex.predict import Predictor
from crosslearning.convex.solver.bounded import Bounded, bounded, bounded_levels, bounded_tasks
from crosslearning.convex.solver.losses import FamilyLoss, Loss, loss_of_pass, quadratic_loss
from crosslearning.convex.solver.tethers import Metric
from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.passes import Passed
from crosslearning.convex.sums.rows import GLMRows, Moments
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.convex.sums.table import TaskTable
from crosslearning.coupling._members import level_of_caller
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
from crosslearning.tether import Array

_CERTAIN = 1e-8  # largest relative KKT residual without a warning
_MODE_AIM, _LEVELS_AIM = 1e-11, 1e-10  # what the solvers of bounds aim for
_MAX_ROUNDS, _CLOSE = 15, 1e-7  # passes over rows for a bound, and the last step of a parameter
_BY_LEVEL = ("covariance_", "epsilon_", "epsilon_max_", "task_sd_", "task_intercept_sd_")


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

    def _task_codes(self, tasks: Any, n_rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        if not has_levels(tasks):
            return codes_to_fit(tasks, n_rows)
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
        paths = paths_like(tasks, n_rows, self.level_names_, self.tasks_)
        return codes_of(paths, self.tasks_, self.groups_)

    def _groups(self) -> Hierarchy | None:
        return Hierarchy(parents_of(self.tasks_, self.groups_)) if self.groups_ else None

    def _hierarchy(self) -> Hierarchy:
        return self._groups() or Hierarchy.flat(len(self.tasks_))

    def _epsilons(self) -> Array:
        """Return the bound of each level, outermost first."""
        n_levels, epsilons = len(self.level_names_), np.array(np.nan)
        with suppress(TypeError, ValueError):
            epsilons = np.asarray(self.epsilon, dtype=np.float64)
        if epsilons.shape not in ((), (n_levels,)) or not np.all(epsilons >= 0):
            raise ValueError(
                f"`epsilon` must be a number of at least 0, or one for each of the {n_levels} "
                f"levels, outermost first; got {self.epsilon!r}."
            )
        return np.array(np.broadcast_to(epsilons, n_levels))

    def _evidence_options(self) -> dict[str, Any]:
        options = {name: getattr(self, name) for name in ("covariance", "tol", "max_iter")}
        if self.blocks is None:
            return options
        numbers = np.unique(np.asarray(self.blocks), return_inverse=True)[1]
        if numbers.shape != (self.n_features_in_,):
            raise ValueError(
                f"`blocks` must hold a label for each of the {self.n_features_in_} features; got "
                f"shape {np.shape(self.blocks)}."
            )
        return {**options, "blocks": np.pad(numbers, (0, int(self.fit_intercept)))}

    @one_blas_thread()
    def _fit_likelihood(self, rows: TaskTable, offset: Array | None) -> None:
        """Fit rows of any family by Laplace's approximation."""
        scaling = self._scaling_of(rows)
        glm = self._glm(rows, scaling, offset)
        if self.groups_ and isinstance(glm.family, Student) and np.isfinite(self._epsilons()).any():
            raise ValueError("Bounded groups need another family than 'student', or epsilon=inf.")
        fit = laplace_fit(glm, groups=self._groups(), **self._evidence_options())
        for name in fit.family.learned():
            value = getattr(fit.family, name.removesuffix("_"))
            setattr(self, name, np.array(value) if isinstance(value, tuple) else value)
        self._store(scaling, fit, glm.with_family(fit.family))

    @one_blas_thread()
    def _fit_passes(self, statistics: Statistics, passed: Passed, learn_from: int | None) -> None:
        """Fit rows of a family from sums at several parameters, by the same approximation."""
        scaling = self._scaling_of(statistics)
        fit, around, last = laplace_passes(
            passed, statistics, scaling, self._family(), SearchOptions(**self._evidence_options()),
            intercept=self.fit_intercept, learn_from=learn_from,
        )  # fmt: skip
        self._store(
            scaling, fit, around.moments, lambda at: loss_of_pass(passed, replace(last, thetas=at))
        )

    def _loss(self, data: Moments | GLMRows, noise: float, posterior: Posterior) -> Loss:
        """Minus log-likelihoods of the tasks; of Student noise given their posterior."""
        if isinstance(data, Moments):
            return quadratic_loss(data, noise)
        if isinstance(data.family, Student):
            squares = data.expected_squares(posterior.means[0], posterior.covariances[0])
            return quadratic_loss(data.moments(data.family.precisions(squares / noise)), noise)
        if type(data.family) is Gaussian:
            return quadratic_loss(data.moments(), noise)
        return FamilyLoss(data, noise)

    def _fit_task(self, rows: TaskTable, offset: Array | None = None) -> None:
        """Fit the posterior of a new task, given the others."""
        if self.groups_:
            raise ValueError("`fit_task` needs tasks of one level. Fit again with the new rows.")
        center, noise = self._center_vector(), self.noise_sd_**2
        glm = self._glm(rows, self._scaling(), offset)
        unseen = self.covariance_ + self.center_covariance_
        mode, averaged = new_tasks(glm, center, unseen, noise)
        loss, metric = self._loss(glm, noise, mode), Metric.of(unseen)
        aim: Any = {"tol": _MODE_AIM, "max_iter": self.max_iter}
        solution = bounded_tasks(loss, metric, self.epsilon_, center, **aim)
        if averaged is not mode and self.epsilon_ == np.inf:
            solution = replace(solution, means=averaged.means, center=center)
        self.task_covariances_ = averaged.covariances[0]
        self._store_units(self._scaling(), [metric], solution.means, solution.center)
        self._store_proof(solution)

    def _store(
        self,
        scaling: Scaling,
        fit: EvidenceFit,
        data: Moments | GLMRows,
        around: Callable[[Array], Loss] | None = None,
    ) -> None:
        """Write the fitted attributes, given the data of the fit, exact `around` the parameters.

        The mode is certified, and kept where a bound holds; otherwise means of the posterior are.
        """
        self._store_evidence(scaling, fit)
        posterior, metrics = fit.posterior, [Metric.of(each) for each in fit.level_covariances]
        self.covariance_, self.epsilon_ = fit.level_covariances[::-1], self._epsilons()
        self.center_covariance_ = posterior.center_covariance
        self.task_covariances_, self._gains = posterior.covariances[0], posterior.gains
        distances = self._store_units(scaling, metrics, fit.means, fit.center)
        self.epsilon_max_ = np.array([each.max() for each in distances[::-1]])
        if self.groups_:
            inner = np.cumsum(fit.level_covariances, axis=0)  # between a task and a unit above it
            units = zip(posterior.covariances[1:], inner, strict=False)
            self.group_covariances_ = [unit + between for unit, between in units][::-1]
            solution = self._within_levels(fit, data, distances)
        else:
            loss = self._loss(data, fit.noise_variance, posterior)
            solution = self._within(fit, metrics[0], loss, around)
        if np.isinf(self.epsilon_).all():
            solution = replace(solution, center=posterior.center, means=posterior.means)
        self._store_units(scaling, metrics, solution.means, solution.center)
        self._store_proof(solution)
        self.task_sd_, self.task_intercept_sd_ = self._deviations(self.covariance_)
        if not self.groups_:  # no axis of levels
            for name in _BY_LEVEL:
                setattr(self, name, getattr(self, name)[0])

    def _within(
        self, fit: EvidenceFit, metric: Metric, loss: Loss, around: Callable[[Array], Loss] | None
    ) -> Bounded:
        """Certify the mode of the tasks, or solve within the bound."""
        epsilon, precision = float(self.epsilon_[0]), 1.0 / fit.center_variances
        aim: Any = {"tol": _MODE_AIM, "max_iter": self.max_iter}
        solution = bounded(loss, metric, precision, epsilon, fit.thetas, fit.center, **aim)
        for _ in range(_MAX_ROUNDS):
            if around is None or epsilon >= self.epsilon_max_[0]:
                break
            before = solution.means[0]
            solution = bounded(
                around(before), metric, precision, epsilon, before, solution.center, **aim
            )
            if np.abs(solution.means[0] - before).max() <= _CLOSE:
                break
        return solution

    def _within_levels(
        self, fit: EvidenceFit, data: Moments | GLMRows, distances: list[Array]
    ) -> Bounded:
        """Solve for groups and tasks within the bounds of each level, if there are any."""
        if np.isinf(self.epsilon_).all():
            return Bounded(fit.means, fit.center, distances, 0.0)
        rows = None
        if isinstance(data, Moments):
            products = data.products / fit.noise_variance
        else:
            rows = partial(data.products, dispersion=fit.noise_variance)
            products = rows(fit.thetas)
        marginal = replace(
            fit.marginal,
            products=products,
            roots=[np.sqrt(np.diagonal(each)) for each in fit.level_covariances],
            precision=1.0 / fit.center_variances,
            factors=None,
        )
        how: Any = {"tol": _LEVELS_AIM, "max_iter": self.max_iter}
        return bounded_levels(marginal, self.epsilon_[::-1], rows, **how)

    def _store_units(
        self, scaling: Scaling, metrics: list[Metric], means: list[Array], center: Array
    ) -> list[Array]:
        """Write the models of tasks and groups; return their distances to the parents."""
        units = [means[0], *means[:0:-1]]
        self._store_models(scaling, np.vstack(units), center)
        ends = np.cumsum([len(each) for each in units])[:-1]
        self.coef_, *of_groups = np.split(self.coef_, ends)
        self.intercept_, *levels = np.split(self.intercept_, ends)
        above = [*means[1:], center[None]]
        by_level = zip(metrics, means, above, self._hierarchy().parents, strict=True)
        distances = [metric.distances(x - up[parent]) for metric, x, up, parent in by_level]
        self.distances_ = distances[0]
        if self.groups_:
            self.group_coef_, self.group_intercept_ = of_groups, levels
            self.group_distances_ = distances[:0:-1]
        return distances

    def _store_proof(self, solution: Bounded) -> None:
        self._store_deviations()
        self.forces_, self.kkt_residual_ = solution.forces[0], float(solution.kkt_residual)
        self._warn_unless_converged(_CERTAIN)

    def _store_evidence(self, scaling: Scaling, fit: EvidenceFit) -> None:
        if fit.status in (EvidenceStatus.MAX_ITER, EvidenceStatus.MAX_PASSES):
            warnings.warn(fit.status.value, ConvergenceWarning, stacklevel=level_of_caller())
        self.structure_, self.log_evidence_ = fit.structure, float(fit.log_evidence)
        self.noise_sd_ = float(np.sqrt(fit.noise_variance))
        by_column = fit.center_variances[:: self._family().n_scores]
        self.center_sd_ = np.sqrt(by_column[: len(scaling.mean)])
        law, n_levels = fit.variance_law, len(self.level_names_)
        by_level = np.reshape([law.estimates, law.offsets, law.df], (3, n_levels, -1))
        self.task_variance_law_ = by_level[:, ::-1].reshape(3, -1)
        self.status_, self.n_iter_ = fit.status.value, fit.n_iter
        self._statistics: Statistics | None = None

    def _store_deviations(self) -> None:
        self.coef_sd_, _ = self._deviations(self.task_covariances_)
        of_center = self._with_thresholds(self.center_covariance_)[np.newaxis]
        self.center_coef_sd_ = self._deviations(of_center)[0][0]

    def _predictor(self, X: Any, tasks: Any) -> tuple[Predictor, Array, NDArray[np.int64]]:
        """Return the predictor, and checked features and task numbers of rows."""
        check_is_fitted(self)
        features, codes, _ = self._check_new_rows(X, tasks)
        return Predictor.of(vars(self)), features, codes
