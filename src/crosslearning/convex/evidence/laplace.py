"""The evidence for generalised linear models, by Laplace's approximation.

The model is that of `evidence`, with y drawn from a family given the scores o + xᵀθ_i, where o is
an offset. The parameters are integrated out by a Gaussian approximation at their mode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.convex.evidence._robust import robust_fit
from crosslearning.convex.evidence.gaussian import check_covariance, evidence_fit
from crosslearning.convex.evidence.mode import LaplaceData, LaplacePoint
from crosslearning.convex.evidence.nearest import Gaussians, nearest_gaussians
from crosslearning.convex.evidence.posterior import EvidenceFit, symmetric_root
from crosslearning.convex.evidence.search import Optimum, Search, SearchOptions, evidence_of
from crosslearning.convex.families import AVERAGED, Family, Gaussian, Student
from crosslearning.convex.sums.rows import GLMRows, Moments
from crosslearning.convex.sums.statistics import checked_weights
from crosslearning.tether import Array

_MAX_ROUNDS = 20
_FREE_SCORE = 10.0  # variance of intercepts of separate models of classes around the pooled ones


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
        scores: dict[str, float],
        moments: Moments,
        average: Callable[[Array, Array], Array],
        tol: float,
    ) -> GLMFit:
        """Take the optimum of a search; `average` and `tol` are for :func:`nearest_gaussians`."""
        point = optimum.point

        def gaussians() -> Gaussians:
            if not isinstance(point.data.rows.family, AVERAGED):
                center = point.center.covariance
                return Gaussians(point.beta, center, point.thetas, *point.task_posteriors)
            return nearest_gaussians(point.marginal, point.precision, average, tol)

        return cls(evidence_of(optimum, scores), moments, gaussians, point.data.rows.family)

    def shifted(self, by: Array) -> GLMFit:
        """Add to the parameters of centre and tasks."""
        center, thetas = self.posterior.center + by, self.posterior.thetas + by
        moved = replace(self.posterior, center=center, thetas=thetas)
        return self._replace(posterior=moved, gaussians=lambda: self.gaussians().shifted(by))


def laplace_fit(
    rows: GLMRows,
    *,
    task_weights: ArrayLike | None = None,
    **options: Any,
) -> GLMFit:
    """Fit a hierarchical generalised linear model; options are those of :func:`evidence_fit`.

    `Gaussian` is exact, `Student` a variational approximation. The centre of intercepts has a wide
    prior. Row weights are precisions, or counts if the family has no dispersion; a dispersion is
    estimated by Pearson's statistic with the effective number of parameters.

    An evaluation of the evidence takes a few Newton steps, each a pass over the rows and O(N p³)
    operations; its gradient is exact, including the change of the mode.
    """
    settings = SearchOptions(**options)
    check_covariance(settings.covariance)
    rows.family.check(rows.y)
    of_tasks = checked_weights(task_weights, rows.n_tasks, "task_weights")
    moved, added = rows.around_pooled()
    return _fit(moved, of_tasks, settings).shifted(added)


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
    p, fixed = rows.n_parameters, np.full(rows.n_parameters, np.inf)
    data = LaplaceData(rows, np.ones(rows.n_tasks), np.zeros(p, dtype=bool), noise)
    _, marginal = data.climb(symmetric_root(covariance), fixed)

    def averaged() -> Gaussians:
        return nearest_gaussians(marginal, fixed, _average(rows, noise)).shifted(center)

    return Gaussians.of(marginal, fixed).shifted(center), averaged


def _average(rows: GLMRows, dispersion: float) -> Callable[[Array, Array], Array]:
    return lambda thetas, covariances: rows.products(thetas, dispersion, covariances)


def _fit(rows: GLMRows, task_weights: Array, options: SearchOptions) -> GLMFit:
    if isinstance(rows.family, Student):
        fit, moments = robust_fit(rows, rows.family, task_weights, options)
    elif type(rows.family) is Gaussian:
        moments = rows.moments()
        fit = evidence_fit(moments, task_weights=task_weights, **options._asdict())
    else:
        return _settled(rows, task_weights, options)
    return GLMFit(fit, moments, lambda: Gaussians.exact(fit, moments), rows.family)


def _settled(rows: GLMRows, task_weights: Array, options: SearchOptions) -> GLMFit:
    """Search for the variances, and for the dispersion of a family that has one, in turn."""
    p, q = rows.n_parameters, rows.family.n_scores
    none = np.zeros(rows.X.shape[1], dtype=np.intp)
    blocks = none if options.blocks is None else options.blocks
    data = LaplaceData(rows, task_weights, np.arange(p) >= p - q * rows.intercept)
    data.begin()
    optimum, scores = search_of(data, None, options).run(options.covariance)
    for _ in range(_MAX_ROUNDS):
        ratio = np.repeat(optimum.ratio[blocks], q)
        evidence = partial(data.evidence, optimum.root, ratio, data.last)
        if data.settled(optimum.point.thetas, optimum.point.n_effective, evidence):
            break
        optimum, _ = search_of(data, optimum, options).run(optimum.structure)
    # In units of the dispersion, as products of rows are.
    rows = cast("GLMRows", optimum.point.data.rows)
    products = optimum.point.dispersion * optimum.point.marginal.products
    moments = Moments(products, rows.counts, np.zeros(rows.n_tasks), rows.intercept)
    average = _average(rows, optimum.point.dispersion)
    return GLMFit.of(optimum, scores, moments, average, options.tol)


def search_of(
    data: LaplaceData, start: Optimum[LaplacePoint] | None, options: SearchOptions
) -> Search[LaplacePoint]:
    """Return the search for variances, from those of an earlier one if there is one."""
    rows = data.rows
    informed = np.einsum("njj->n", rows.at_zero[:, :-1, :-1]) > 0
    counted = data.task_weights * informed
    search = Search(
        data.at,
        options,
        data.parameters,
        sizes=np.array([counted.sum()]),
        alone=np.array([np.count_nonzero(counted) < 2]),
    )
    if rows.family.link == "logit":
        search.free = _FREE_SCORE
    if start is not None:
        search.start, search.ratio = np.diagonal(start.covariance), start.ratio
    return search
