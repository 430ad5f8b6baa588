"""Groups within groups for generalised linear models, by Laplace's approximation.

At the joint mode the log likelihood is expanded to second order, and the variances are searched for
on this quadratic model. Laplace's determinants change with the mode; to first order that is a push
on the parameters, which the quadratic model takes as a second target. Modes and variances take
turns until the gradient of the approximate evidence, which is exact at a mode, is negligible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.convex.deadline import check_deadline
from crosslearning.convex.evidence._robust import reweighted
from crosslearning.convex.evidence.hierarchy import Hierarchy, NestedMarginal
from crosslearning.convex.evidence.mode import INTERCEPT_VARIANCE, LaplaceData, climb
from crosslearning.convex.evidence.nested import (
    NestedData,
    NestedFit,
    NestedPoint,
    NestedSearch,
    check_structure,
    levels_fit,
    nested_fit,
)
from crosslearning.convex.evidence.search import Optimum, SearchOptions
from crosslearning.convex.families import AVERAGED, Gaussian, Student
from crosslearning.convex.sums.rows import GLMRows, Moments
from crosslearning.convex.sums.statistics import checked_weights
from crosslearning.tether import Array

_MAX_ROUNDS = 60
_AVERAGING_ROUNDS, _CLOSE = 10, 0.01  # and the last step, in standard deviations


def nested_laplace_fit(
    rows: GLMRows,
    hierarchy: Hierarchy,
    *,
    task_weights: ArrayLike | None = None,
    averaged: bool = True,
    **options: Any,
) -> NestedFit:
    """Fit a generalised linear model of groups within groups; options as in `laplace_fit`.

    Of classes and counts the posterior is `averaged`, as by :func:`nearest_gaussians`; else means
    are modes.
    """
    settings = SearchOptions(**options)
    check_structure(settings.covariance)
    family = rows.family
    family.check(rows.y)
    weights = checked_weights(task_weights, rows.n_tasks, "task_weights")
    if type(family) is Gaussian:
        return nested_fit(rows.moments(), hierarchy, task_weights=weights, **settings._asdict())
    if isinstance(family, Student):
        return _robust(rows, family, hierarchy, weights, settings)
    if isinstance(family, Gaussian):
        raise ValueError(
            f"Groups within groups need another family than {family.name!r}. Use 'gaussian' for "
            "numbers or 'poisson' for counts, or name only the innermost groups as tasks."
        )
    rows, added = rows.around_pooled()
    fit = _Rounds(rows, hierarchy, weights, settings).fit(averaged=averaged)
    return replace(fit, center=fit.center + added, means=[means + added for means in fit.means])


def _robust(
    rows: GLMRows, family: Student, hierarchy: Hierarchy, weights: Array, options: SearchOptions
) -> NestedFit:
    """Fit real targets with outliers, by precisions of rows."""

    def solve(
        moments: Moments, options: SearchOptions, _: NestedFit | None
    ) -> tuple[NestedFit, Array, Array]:
        fit = nested_fit(moments, hierarchy, task_weights=weights, **options._asdict())
        return fit, fit.means[0], fit.covariances[0]

    fit = reweighted(rows, family, weights, options, solve)[0]
    return replace(fit, family=family)


class _Rounds(NestedSearch):
    """Modes and variances in turn."""

    def __init__(
        self, rows: GLMRows, hierarchy: Hierarchy, weights: Array, options: SearchOptions
    ) -> None:
        p, q = rows.n_parameters, rows.family.n_scores
        self.tasks = LaplaceData(rows, weights, np.arange(p) >= p - q * rows.intercept)
        self.tasks.begin()
        self.hierarchy = hierarchy
        self.position = [np.zeros(p), *(np.zeros((n, p)) for n in hierarchy.sizes)]
        flat = self._data(rows.at_zero / self.tasks.dispersion, lambda _: (0.0, 1.0, np.inf))
        super().__init__(flat, options, self.tasks.parameters)
        self.ends: dict[str, tuple[float, GLMRows]] = {}

    @property
    def rows(self) -> GLMRows:
        return cast("GLMRows", self.tasks.rows)

    @property
    def dispersion(self) -> float:
        return self.tasks.dispersion

    def fit(self, *, averaged: bool) -> NestedFit:
        """Search for the structure, and return the posterior averaged where that is better."""
        best, scores = self.run(self.options.covariance)
        self.tasks.dispersion, self.tasks.rows = self.ends[best.structure]
        family = self.rows.family
        fit = replace(levels_fit(best, scores), noise_variance=self.dispersion, family=family)
        averaged &= isinstance(family, AVERAGED)
        return self._averaged(fit, best.point.marginal) if averaged else fit

    def best(
        self, structure: str, start: Optimum[NestedPoint] | None = None
    ) -> Optimum[NestedPoint]:
        """Let modes and variances take turns."""
        converged, n_iter = False, 0
        for _ in range(_MAX_ROUNDS):
            evaluate, variances, _ = self.space(structure, start)
            data, thetas = self._at_mode(evaluate(variances).point.marginal)
            self.at = data.at
            start = super().best(structure, start)
            n_iter, marginal = n_iter + start.n_iter, start.point.marginal
            effective = np.einsum("njk,nkj->n", data.products[:, :-2, :-2], marginal.covariances[0])
            n_effective = float(self.tasks.task_weights @ effective)
            evidence = partial(self._evidence, marginal)
            converged = self.tasks.settled(thetas, n_effective, evidence) and start.n_iter == 1
            if converged:
                break
        assert start is not None
        self.ends[structure] = self.dispersion, self.rows
        return replace(start, n_iter=n_iter, converged=converged)

    def _evidence(self, marginal: NestedMarginal, rows: GLMRows) -> float:
        """Return the evidence of rows of a family with another shape, at given variances."""
        self.tasks.rows = rows
        data, _ = self._at_mode(marginal)
        return data.value(replace(marginal, products=data.products))[0]

    def _at_mode(self, marginal: NestedMarginal) -> tuple[NestedData, Array]:
        """Climb to the mode at given variances, and expand there; also returns the parameters.

        Positions are the centre and offsets of each level, in standard deviations.
        """
        roots, precision = np.sqrt(marginal.variances), marginal.precision
        here = marginal

        def thetas_at(position: list[Array]) -> Array:
            thetas = np.tile(position[0], (self.rows.n_tasks, 1))
            for level, root in enumerate(roots):
                thetas += (root * position[level + 1])[self.hierarchy.ancestors(level)]
            return thetas

        def density(position: list[Array]) -> float:
            """Log density of targets and parameters, but for the priors' normalisation."""
            beta, tasks, *groups = position
            logs = self.rows.log_likelihood(thetas_at(position), self.dispersion)
            logs -= 0.5 * np.sum(tasks**2, axis=1)
            outer = sum(float(np.sum(offset**2)) for offset in groups)
            return float(self.tasks.task_weights @ logs) - 0.5 * (
                outer + float(precision @ beta**2)
            )

        def newton(position: list[Array]) -> list[Array]:
            nonlocal here
            products = self.rows.products(thetas_at(position), self.dispersion)
            here = replace(marginal, products=products)
            offsets = (root * g[:, :, 0] for root, g in zip(roots, here.residuals, strict=True))
            return [here.center.beta, *offsets]

        self.position, _ = climb(self.position, density(self.position), density, newton)
        thetas = thetas_at(self.position)
        return self._expanded(thetas, here.covariances[0]), thetas

    def _expanded(self, thetas: Array, covariances: Array) -> NestedData:
        """Expand the log likelihood, with the push of the determinants as a second target."""
        rows, p = self.rows, thetas.shape[1]
        push = rows.tilt(thetas, covariances, self.dispersion)
        products = np.zeros((rows.n_tasks, p + 2, p + 2))
        products[:, :-1, :-1] = rows.products(thetas, self.dispersion)
        products[:, :p, -1] = products[:, -1, :p] = -push
        likelihoods = rows.log_likelihood(thetas, self.dispersion)
        slopes = rows.slopes(thetas) / self.dispersion - push

        def value(marginal: NestedMarginal) -> tuple[float, float, float]:
            step = marginal.means[0][:, :, 0] - thetas
            bend = np.matmul(products[:, :p, :p], step[:, :, None])[:, :, 0]
            logs = likelihoods + np.einsum("np,np->n", slopes - 0.5 * bend, step)
            determinants = marginal.log_det + marginal.center.log_det
            determinants -= float(np.log(marginal.precision).sum())
            at_mode = float(self.tasks.task_weights @ logs) + _prior(marginal)
            return at_mode - 0.5 * determinants, 1.0, np.inf

        return self._data(products, value)

    def _data(
        self, products: Array, value: Callable[[NestedMarginal], tuple[float, float, float]]
    ) -> NestedData:
        return NestedData(
            products=products,
            task_weights=self.tasks.task_weights,
            hierarchy=self.hierarchy,
            flat=self.tasks.intercept,
            flat_precision=1.0 / INTERCEPT_VARIANCE,
            value=value,
        )

    def _averaged(self, fit: NestedFit, marginal: NestedMarginal) -> NestedFit:
        """Take the Gaussian nearest to the posterior, as `nearest_gaussians` does."""
        p = len(marginal.precision)
        now = replace(marginal, products=marginal.products[:, : p + 1, : p + 1])
        for _ in range(_AVERAGING_ROUNDS):
            check_deadline()
            thetas, covariances = now.means[0][:, :, 0], now.covariances[0]
            averaged = self.rows.products(thetas, self.dispersion, covariances)
            now = replace(now, products=0.5 * (now.products + averaged))
            moved = (now.means[0][:, :, 0] - thetas) ** 2
            if np.all(moved <= _CLOSE**2 * np.einsum("njj->nj", now.covariances[0])):
                break
        return replace(
            fit,
            center=now.means[-1][0, :, 0],
            center_covariance=now.center.covariance,
            means=[means[:, :, 0] for means in now.means[:-1]],
            covariances=now.covariances[:-1],
            gains=now.gains,
        )


def _prior(marginal: NestedMarginal) -> float:
    """Log prior density of the posterior means, but for its normalisation."""
    levels = zip(marginal.weights, marginal.residuals, marginal.variances, strict=True)
    squares = sum(float(w @ g[:, :, 0] ** 2 @ S) for w, g, S in levels)
    return -0.5 * (squares + float(marginal.precision @ marginal.center.beta**2))
