"""Groups within groups, for the Bayesian estimators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.convex.evidence.gaussian import nested_fit
from crosslearning.convex.evidence.laplace import nested_laplace_fit
from crosslearning.convex.evidence.marginal import Hierarchy, Marginal
from crosslearning.convex.evidence.posterior import NestedFit
from crosslearning.convex.families import LEARNED, Student
from crosslearning.convex.solver.bounded import bounded_levels
from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.rows import GLMRows, Moments
from crosslearning.convex.sums.statistics import Statistics
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

_AIM, _CERTAIN = 1e-10, 1e-8  # relative KKT residual to aim for, and largest without a warning
_FITTED = (
    "groups_", "level_names_", "group_coef_", "group_intercept_", "group_covariances_",
    "group_distances_", "threshold_covariance_", "threshold_slopes_",
)  # fmt: skip


class NestedTasks(Inference):
    """Adds tasks of several columns: labels are tuples, and groups have models too."""

    groups_: Sequence[NDArray[Any]] = ()  # of each level but the innermost, outermost first
    level_names_: Sequence[str] = ("task",)

    def _check_statistics(self, statistics: Statistics) -> None:
        self._forget_earlier_fit()
        super()._check_statistics(statistics)  # type: ignore[misc]

    def _forget_earlier_fit(self) -> None:
        for name in (*_FITTED, *LEARNED):
            vars(self).pop(name, None)

    def _task_codes(self: Any, tasks: Any, n_rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the tasks of a fit and the number of each row's; remember the groups."""
        self._forget_earlier_fit()
        if not has_levels(tasks):
            return codes_to_fit(tasks, n_rows, stacklevel=5)
        labels, codes = codes_to_fit(paths_of(tasks, n_rows), n_rows)
        self._store_groups(tasks, labels.tolist())
        return labels, codes

    def _name_levels(self: Any, tasks: Any, n_tasks: int) -> None:
        """Take the labels of tasks, in several columns, whose rows were summed."""
        if not has_levels(tasks):
            raise ValueError(
                "`tasks` must have several columns of labels, outermost first; got one. Omit it: "
                "the labels of single tasks are those of the sums."
            )
        if len(tasks) != n_tasks:
            raise ValueError(
                f"`tasks` must have a row for each of the {n_tasks} tasks of the sums; got "
                f"{len(tasks)} rows."
            )
        paths = paths_of(tasks, n_tasks)
        if len(set(paths)) < n_tasks:
            raise ValueError(
                f"`tasks` must name each of the {n_tasks} tasks of the sums once; got "
                f"{len(set(paths))} different labels."
            )
        self.tasks_ = as_objects(paths)
        self._store_groups(tasks, paths)

    def _store_groups(self, tasks: Any, paths: Paths) -> None:
        self.level_names_ = level_names(tasks)
        self.groups_ = [as_objects(groups) for groups in groups_of(paths)]

    def _new_codes(self: Any, tasks: Any, n_rows: int) -> NDArray[np.int64]:
        if not self.groups_ or tasks is None or is_center(tasks):
            return codes_to_predict(self.tasks_, tasks, n_rows)
        groups, fitted = [groups.tolist() for groups in self.groups_], self.tasks_.tolist()
        return codes_of(paths_like(tasks, n_rows, self.level_names_, fitted), fitted, groups)

    def _hierarchy(self: Any) -> Hierarchy:
        if not self.groups_:
            return Hierarchy((np.zeros(len(self.tasks_), dtype=np.intp),))
        groups = [groups.tolist() for groups in self.groups_]
        return Hierarchy(parents_of(self.tasks_.tolist(), groups))

    def _fit_nested(self: Any, scaling: Scaling, data: Moments | GLMRows) -> None:
        """Fit moments of Gaussian targets, or rows of another family."""
        options = self._evidence_options(len(scaling.mean))
        self.epsilon_ = self._epsilons(len(self.level_names_))
        bounded = bool(np.isfinite(self.epsilon_).any())
        if bounded and isinstance(self._family(), Student):
            raise ValueError(
                "Bounds of groups within groups need another family than 'student'. Use "
                "epsilon=inf."
            )
        if isinstance(data, Moments):
            fit = nested_fit(data, self._hierarchy(), **options)
        else:
            fit = nested_laplace_fit(data, self._hierarchy(), averaged=not bounded, **options)
            data = data.with_family(fit.family)
            self._keep_shape(fit.family)
        self._store_evidence(scaling, fit)
        self._store_nested(scaling, fit)
        if bounded:
            self._bound_units(scaling, fit, data, options["task_weights"])

    def _epsilons(self: Any, n_levels: int) -> Array:
        """Return the bound of each level, outermost first."""
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

    def _bound_units(
        self: Any, scaling: Scaling, fit: NestedFit, data: Moments | GLMRows, weights: Array
    ) -> None:
        """Replace the means by those within the bounds."""
        rows = None
        if isinstance(data, Moments):
            products = data.products / fit.noise_variance
        else:
            rows = partial(data.products, dispersion=fit.noise_variance)
            products = rows(fit.means[0])
        precision = 1.0 / fit.center_variances
        marginal = Marginal(
            products=products,
            task_weights=weights,
            hierarchy=fit.hierarchy,
            roots=np.sqrt(fit.level_variances),
            precision=precision,
        )
        solution = bounded_levels(
            marginal, self.epsilon_[::-1], rows, tol=_AIM, max_iter=self.max_iter
        )
        largest = self.epsilon_max_
        self._store_units(scaling, replace(fit, means=solution.means, center=solution.center))
        self.epsilon_max_, self.forces_ = largest, solution.forces[0]
        self.kkt_residual_ = solution.kkt_residual
        self._warn_unless_converged(_CERTAIN, stacklevel=7)

    def _store_nested(self: Any, scaling: Scaling, fit: NestedFit) -> None:
        """Write the fitted attributes; first axes of levels go from the outermost in."""
        self.covariance_ = np.array([np.diag(variances) for variances in fit.level_variances[::-1]])
        self.center_covariance_, self.task_covariances_ = fit.center_covariance, fit.covariances[0]
        self._gains = fit.gains
        self._store_units(scaling, fit)
        self.task_sd_, self.task_intercept_sd_ = self._deviations(self.covariance_)
        self._store_deviations()
        self.forces_, self.kkt_residual_ = self.distances_, 0.0

    def _store_units(self: Any, scaling: Scaling, fit: NestedFit) -> None:
        """Write the models of tasks and groups, and covariances of new tasks in known groups."""
        outer = list(range(len(fit.means) - 1, 0, -1))
        units = [fit.means[k] for k in (0, *outer)]
        self._store_models(scaling, np.vstack(units), fit.center)
        ends = np.cumsum([len(means) for means in units])[:-1]
        self.coef_, *self.group_coef_ = np.split(self.coef_, ends)
        self.intercept_, *self.group_intercept_ = np.split(self.intercept_, ends)
        inner = np.cumsum(fit.level_variances, axis=0)  # between a task and a unit of a level
        self.group_covariances_ = [fit.covariances[k] + np.diag(inner[k - 1]) for k in outer]
        distances = [self._lengths(fit, level) for level in range(len(fit.means))]
        self.distances_, self.group_distances_ = distances[0], [distances[k] for k in outer]
        self.epsilon_max_ = np.array([length.max() for length in distances[::-1]])

    def _lengths(self, fit: NestedFit, level: int) -> Array:
        """Distances of units to their parents, in standard deviations."""
        above = [*fit.means[1:], fit.center[None]][level]
        offsets = fit.means[level] - above[fit.hierarchy.parents[level]]
        sds = np.sqrt(fit.level_variances[level])
        scaled = np.divide(offsets, sds, out=np.zeros_like(offsets), where=sds > 0)
        return np.asarray(np.linalg.norm(scaled, axis=1))
