"""The evidence for generalised linear models, by Laplace's approximation.

The model is that of `gaussian`, with y drawn from a family given the scores o + xᵀθ_i, where o is
an offset. The parameters are integrated out by a Gaussian approximation at their mode.

A Gaussian around the mode is far too wide where classes can nearly be separated: much of it lies
where the targets are impossible. Of classes and counts, slopes and curvatures are therefore
averaged over the Gaussian itself, so that it has the smallest Kullback-Leibler divergence from the
posterior (variational inference). Averaged predictions of the rows of the fit then add up to the
targets, but for the prior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.convex.deadline import check_deadline
from crosslearning.convex.evidence.gaussian import (
    check_covariance,
    evidence_fit,
    nested_fit,
    robust_fit,
)
from crosslearning.convex.evidence.marginal import Hierarchy, Marginal, symmetric_root
from crosslearning.convex.evidence.mode import LaplaceData, LaplacePoint
from crosslearning.convex.evidence.posterior import EvidenceFit, Gaussians, NestedFit
from crosslearning.convex.evidence.search import Optimum, SearchOptions
from crosslearning.convex.families import AVERAGED, Family, Gaussian, Student
from crosslearning.convex.sums.rows import GLMRows, Moments, checked_weights
from crosslearning.tether import Array

Average = Callable[[Array, Array], Array]  # products, given means and covariances of parameters

_MAX_ROUNDS = 20
_AVERAGING_ROUNDS, _CLOSE = 10, 0.01  # and the last step, in standard deviations


class GLMFit(NamedTuple):
    """Posterior mode, moments of the working model there, and how to average over the posterior.

    The dispersion stands for the noise; parameters are matrices (columns, scores), flattened.
    """

    posterior: EvidenceFit
    moments: Moments
    gaussians: Callable[[], Gaussians]
    family: Family  # with the shape that was learned

    @classmethod
    def of(
        cls,
        optimum: Optimum[LaplacePoint],
        moments: Moments,
        average: Average,
        tol: float,
    ) -> GLMFit:
        """Take the optimum of a search; `average` and `tol` are for :func:`nearest_gaussians`."""
        point = optimum.point

        def gaussians() -> Gaussians:
            if isinstance(point.data.rows.family, AVERAGED):
                return Gaussians.of(nearest_gaussians(point.marginal, average, tol))
            return Gaussians.of(point.marginal)._replace(center=point.beta, thetas=point.thetas)

        return cls(optimum.fit(), moments, gaussians, point.data.rows.family)

    def shifted(self, by: Array) -> GLMFit:
        """Add to the parameters of centre and tasks."""
        center, thetas = self.posterior.center + by, self.posterior.thetas + by
        moved = replace(self.posterior, center=center, thetas=thetas)
        return self._replace(posterior=moved, gaussians=lambda: self.gaussians().shifted(by))


def laplace_fit(rows: GLMRows, *, task_weights: ArrayLike | None = None, **options: Any) -> GLMFit:
    """Fit a hierarchical generalised linear model; options are those of :func:`evidence_fit`.

    `Gaussian` is exact, `Student` a variational approximation. The centre of intercepts has a wide
    prior. Row weights are precisions, or counts if the family has no dispersion; a dispersion is
    estimated by Pearson's statistic with the effective number of parameters.

    An evaluation of the evidence takes a few Newton steps, each a pass over the rows and O(N p³)
    operations; its gradient is exact, including the change of the mode.
    """
    settings = SearchOptions(**options)
    check_covariance(settings)
    rows.family.check(rows.y)
    weights = checked_weights(task_weights, rows.n_tasks, "task_weights")
    rows, added = rows.around_pooled()
    if isinstance(rows.family, Student):
        robust, moments = robust_fit(rows, rows.family, weights, settings)
        fit = robust.fit()
    elif type(rows.family) is Gaussian:
        moments = rows.moments()
        fit = evidence_fit(moments, task_weights=weights, **options)
    else:
        optimum, rows = _settled(rows, weights, settings)
        # In units of the dispersion, as products of rows are.
        products = optimum.point.dispersion * optimum.point.marginal.products
        moments = Moments(products, rows.counts, np.zeros(rows.n_tasks), rows.intercept)
        average = _average(rows, optimum.point.dispersion)
        return GLMFit.of(optimum, moments, average, settings.tol).shifted(added)
    exact = GLMFit(fit, moments, lambda: Gaussians.exact(fit, moments), rows.family)
    return exact.shifted(added)


def nested_laplace_fit(
    rows: GLMRows, hierarchy: Hierarchy, *, averaged: bool = True, **options: Any
) -> NestedFit:
    """Fit a generalised linear model of groups within groups; options as in `laplace_fit`.

    Of classes and counts the posterior is `averaged`; else means are modes.
    """
    settings = SearchOptions(**options)
    check_covariance(settings, hierarchy)
    family = rows.family
    family.check(rows.y)
    if type(family) is Gaussian:
        return nested_fit(rows.moments(), hierarchy, **options)
    weights = np.ones(rows.n_tasks)
    if isinstance(family, Student):
        robust, _ = robust_fit(rows, family, weights, settings, hierarchy)
        return replace(robust.nested_fit(), family=family)
    if isinstance(family, Gaussian):
        raise ValueError(
            f"Groups within groups need another family than {family.name!r}. Use 'gaussian' for "
            "numbers or 'poisson' for counts, or name only the innermost groups as tasks."
        )
    rows, added = rows.around_pooled()
    optimum, rows = _settled(rows, weights, settings, hierarchy)
    if averaged and isinstance(rows.family, AVERAGED):
        average = _average(rows, optimum.point.dispersion)
        marginal = nearest_gaussians(optimum.point.marginal, average, settings.tol)
        optimum = replace(optimum, point=replace(optimum.point, marginal=marginal))
    fit = optimum.nested_fit()
    center = optimum.point.marginal.center.beta
    means = [means + added for means in fit.means]
    return replace(fit, family=rows.family, center=center + added, means=means)


def _settled(
    rows: GLMRows, task_weights: Array, options: SearchOptions, groups: Hierarchy | None = None
) -> tuple[Optimum[LaplacePoint], GLMRows]:
    """Search for the variances, and for the dispersion of a family that has one, in turn.

    Also returns the rows with the shape that the family has learned.
    """
    data = LaplaceData.of(rows, task_weights, groups=groups)
    data.begin()
    search = data.search(options)
    optimum = search.run(options.covariance)
    for _ in range(_MAX_ROUNDS):
        if data.settled(optimum, optimum.ratio[search.blocks[search.columns]]):
            break
        # One level keeps the structure that it has chosen at the first dispersion.
        structure = optimum.structure if groups is None else options.covariance
        optimum = data.search(options, optimum).run(structure)
    return optimum, cast("GLMRows", optimum.point.data.rows)


def nearest_gaussians(marginal: Marginal, average: Average, tol: float = 1e-6) -> Marginal:
    """Step from the mode towards averaged products until the means stay.

    That is, until none moves by more than 0.01 standard deviations, or 10 √tol. Steps go half the
    way: where classes are separable, all of it would overshoot.
    """
    close = max(_CLOSE, 10.0 * tol**0.5)
    for _ in range(_AVERAGING_ROUNDS):
        check_deadline()
        before = marginal.means[0]
        averaged = average(before, marginal.task_posteriors[0])
        marginal = replace(marginal, products=0.5 * (marginal.products + averaged))
        variances = np.einsum("njj->nj", marginal.task_posteriors[0])
        if np.all((marginal.means[0] - before) ** 2 <= close**2 * variances):
            break
    return marginal


def _average(rows: GLMRows, dispersion: float) -> Average:
    return lambda thetas, covariances: rows.products(thetas, dispersion, covariances)


def new_tasks(rows: GLMRows, center: Array, covariance: Array, noise: float) -> tuple[Array, Array]:
    """Posterior modes and covariances of tasks that were not in a fit.

    `covariance` is that of such a task: between tasks, plus that of the centre.
    """
    family = rows.family
    gaussians, _ = _around(rows, center, covariance, noise)
    if isinstance(family, Student):
        for _ in range(_MAX_ROUNDS):
            squares = rows.expected_squares(gaussians.thetas, gaussians.covariances)
            reweighted = replace(rows, weights=rows.weights * family.precisions(squares / noise))
            gaussians, _ = _around(reweighted, center, covariance, noise)
    return gaussians.thetas, gaussians.covariances


def new_task_means(
    rows: GLMRows, center: Array, covariance: Array, noise: float
) -> tuple[Array, Array]:
    """Posterior means and covariances of new tasks of two or more classes, or counts."""
    gaussians = _around(rows, center, covariance, noise)[1]()
    return gaussians.thetas, gaussians.covariances


def _around(
    rows: GLMRows, center: Array, covariance: Array, noise: float
) -> tuple[Gaussians, Callable[[], Gaussians]]:
    """Posteriors of tasks around a known centre: at the mode, and averaged."""
    rows = replace(rows, offset=rows.offset + rows.X @ center.reshape(rows.X.shape[1], -1))
    data = replace(LaplaceData.of(rows, np.ones(rows.n_tasks)), dispersion=noise)
    _, marginal = data.climb(symmetric_root(covariance), np.full(rows.n_parameters, np.inf))

    def averaged() -> Gaussians:
        nearest = nearest_gaussians(marginal, _average(rows, noise))
        return Gaussians.of(nearest).shifted(center)

    return Gaussians.of(marginal).shifted(center), averaged
