"""The evidence for generalised linear models, by Laplace's approximation.

The model is that of `evidence`, with y drawn from a family given the scores o + xᵀθ_i, where o is
an offset. The parameters are integrated out by a Gaussian approximation at their mode.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.convex._laplace import LaplaceData, LaplacePoint, at_most_1
from crosslearning.convex._row_input import checked_weights
from crosslearning.convex._search import Found, Search, SearchOptions
from crosslearning.convex._working import GLMRows
from crosslearning.convex.evidence import check_covariance, evidence_fit
from crosslearning.convex.families import CANONICAL, Gaussian, Student
from crosslearning.convex.moments import Moments
from crosslearning.convex.posterior import EvidenceFit, symmetric_root, task_covariances
from crosslearning.convex.robust import robust_fit
from crosslearning.tether import Array, Indices

_MAX_ROUNDS, _SETTLED = 20, 1e-4  # of the dispersion, and its relative change at the end
_LEAST_SHARE = 1e-6  # smallest dispersion, as a share of that without features and tasks


class GLMFit(NamedTuple):
    """Posterior, and moments of the working model, from which covariances of the tasks follow.

    The dispersion stands for the noise; parameters are matrices (columns, scores), flattened.
    Centre and tasks of the posterior are its mode; their `means` differ where it is skewed.
    """

    posterior: EvidenceFit
    moments: Moments
    means: tuple[Array, Array]

    @classmethod
    def of(cls, posterior: EvidenceFit, moments: Moments, point: LaplacePoint) -> GLMFit:
        """Take the means of a point, or the mode of separate models.

        Nothing but their own rows narrows their posteriors, which are too wide for a step to first
        order: held-out rows say that it does harm.
        """
        separate = posterior.structure == "separate"
        means = (posterior.center, posterior.thetas) if separate else point.means
        return cls(posterior, moments, means)

    def shifted(self, by: Array) -> GLMFit:
        """Add to the parameters of centre and tasks."""
        center, thetas = self.posterior.center + by, self.posterior.thetas + by
        means = self.means[0] + by, self.means[1] + by
        return GLMFit(replace(self.posterior, center=center, thetas=thetas), self.moments, means)


def laplace_fit(
    rows: GLMRows,
    *,
    covariance: str = "auto",
    blocks: Indices | None = None,
    task_weights: ArrayLike | None = None,
    tol: float = 1e-6,
    max_iter: int = 200,
) -> GLMFit:
    """Fit a hierarchical generalised linear model; parameters are those of :func:`evidence_fit`.

    `Gaussian` is exact, `Student` a variational approximation. The centre of intercepts has a wide
    prior. Row weights are precisions, or counts if the family has no dispersion; a dispersion is
    estimated by Pearson's statistic with the effective number of parameters.

    An evaluation of the evidence takes a few Newton steps, each a pass over the rows and O(N p³)
    operations; its gradient is exact, including the change of the mode.
    """
    check_covariance(covariance)
    family = rows.family
    family.check(rows.y)
    of_tasks = checked_weights(task_weights, rows.n_tasks, "task_weights")
    options = SearchOptions(covariance, blocks, tol, max_iter)
    rest = rows.y - rows.offset[:, 0] if isinstance(family, Gaussian) else rows.y
    shift = family.start(rest, rows.weights) * rows.intercept
    fit = _fit(replace(rows, offset=rows.offset + shift), of_tasks, options)
    # Intercepts were measured from the pooled scores.
    return fit.shifted(np.append(np.zeros(rows.n_parameters - len(shift)), shift))


def new_tasks(rows: GLMRows, center: Array, covariance: Array, noise: float) -> tuple[Array, Array]:
    """Posterior modes and covariances of tasks that were not in a fit.

    `covariance` is that of such a task: between tasks, plus that of the centre.
    """
    p, family, root = rows.n_parameters, rows.family, symmetric_root(covariance)
    rows = replace(rows, offset=rows.offset + rows.X @ center.reshape(rows.X.shape[1], -1))

    def around_center(rows: GLMRows) -> tuple[Array, Array]:
        data = LaplaceData(rows, np.ones(rows.n_tasks), np.zeros(p, dtype=bool), noise)
        mode, marginal = data.climb(root, np.full(p, np.inf))
        covariances = task_covariances(marginal.products, root, np.zeros((p, p)))[0]
        return mode.u @ root.T, covariances

    thetas, covariances = around_center(rows)
    if isinstance(family, Student):
        for _ in range(_MAX_ROUNDS):
            precisions = family.precisions(rows.expected_squares(thetas, covariances) / noise)
            own = replace(rows, weights=rows.weights * precisions)
            thetas, covariances = around_center(own)
    return center + thetas, covariances


def new_task_means(rows: GLMRows, thetas: Array, covariances: Array, noise: float) -> Array:
    """Posterior means of new tasks, given their modes, as in `LaplacePoint.means`."""
    if not isinstance(rows.family, CANONICAL):
        return thetas
    tilt = rows.tilt(thetas, covariances, noise)
    moved = np.einsum("njk,nk->nj", covariances, tilt)
    return np.asarray(thetas - moved * at_most_1(np.einsum("np,np->n", tilt, moved))[:, None])


def _fit(rows: GLMRows, task_weights: Array, options: SearchOptions) -> GLMFit:
    if isinstance(rows.family, Student):
        fit, moments = robust_fit(rows, rows.family, task_weights, options)
    elif type(rows.family) is Gaussian:
        moments = rows.moments()
        fit = evidence_fit(moments, task_weights=task_weights, **options._asdict())
    else:
        return _settled(rows, task_weights, options)
    return GLMFit(fit, moments, (fit.center, fit.thetas))


def _settled(rows: GLMRows, task_weights: Array, options: SearchOptions) -> GLMFit:
    """Search for the variances, and for the dispersion of a family that has one, in turn."""
    p, q = rows.n_parameters, rows.family.n_scores
    data = LaplaceData(rows, task_weights, np.arange(p) >= p - q * rows.intercept)
    data.dispersion = data.pearson(np.zeros((rows.n_tasks, p)), 0.0)
    least = _LEAST_SHARE * data.dispersion
    found, scores = search_of(data, None, options).run(options.covariance)
    for _ in range(_MAX_ROUNDS):
        before, point = data.dispersion, cast("LaplacePoint", found.point)
        data.dispersion = data.pearson(point.thetas, point.n_effective, least)
        if abs(np.log(data.dispersion / before)) <= _SETTLED:
            break
        found, _ = search_of(data, found, options).run(found.structure)
    fit, point = found.fit(scores), cast("LaplacePoint", found.point)
    # In units of the dispersion, as products of rows are.
    products = fit.noise_variance * point.marginal.products
    moments = Moments(products, rows.counts, np.zeros(rows.n_tasks), rows.intercept)
    return GLMFit.of(fit, moments, point)


def search_of(data: LaplaceData, start: Found | None, options: SearchOptions) -> Search:
    """Return the search for variances, from those of an earlier one if there is one."""
    rows = data.rows
    bends = np.einsum("njj->nj", rows.at_zero)[:, :-1] / data.dispersion
    search = Search(
        data.at,
        data.task_weights @ bends,
        rows.mean_squares,
        data.task_weights * (bends.sum(axis=1) > 0),
        np.repeat(np.arange(len(rows.mean_squares)), rows.family.n_scores),
        options,
        intercept=rows.intercept,
    )
    if start is not None:
        search.start, search.ratio = np.diagonal(start.covariance), start.ratio
    return search
