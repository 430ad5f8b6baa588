"""The evidence for generalised linear models, by Laplace's approximation.

The model is that of `evidence`, with y drawn from a family given the scores o + xᵀθ_i, where o is
an offset. The parameters are integrated out by a Gaussian at their most likely values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from crosslearning.convex._laplace import LaplaceData
from crosslearning.convex._row_input import checked_weights
from crosslearning.convex._search import Search, SearchOptions
from crosslearning.convex._working import GLMRows
from crosslearning.convex.evidence import check_covariance, evidence_fit
from crosslearning.convex.families import Gaussian, Student
from crosslearning.convex.moments import Moments
from crosslearning.convex.posterior import EvidenceFit, symmetric_root, task_covariances
from crosslearning.convex.robust import robust_fit

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from crosslearning.convex._arrays import Array, Indices
    from crosslearning.convex._laplace import LaplacePoint
    from crosslearning.convex._search import Found
    from crosslearning.convex.families import Family

__all__ = ["GLMFit", "laplace_fit"]

_MAX_ROUNDS, _SETTLED = 20, 1e-4  # of the dispersion, and its relative change at the end
_LEAST_SHARE = 1e-6  # smallest dispersion, as a share of that without features and tasks


@dataclass(frozen=True, eq=False)
class GLMFit:
    """A fitted generalised linear model of many tasks.

    In the posterior `noise_variance` is the dispersion, and parameters are matrices (columns,
    scores), flattened. From `moments`, those of the working model, covariances of tasks follow.
    """

    family: Family
    posterior: EvidenceFit
    moments: Moments

    def new_tasks(
        self,
        columns: Array,
        y: Array,
        tasks: Indices,
        n_tasks: int,
        *,
        weights: ArrayLike | None = None,
        offset: Array | None = None,
    ) -> tuple[Array, Array]:
        """Posterior means and covariances of tasks that were not in the fit."""
        fit, q = self.posterior, self.family.n_scores
        start = columns @ fit.center.reshape(columns.shape[1], q)
        rows = GLMRows(
            columns,
            y,
            checked_weights(weights, len(y)),
            tasks,
            n_tasks,
            start if offset is None else start + offset.reshape(len(y), q),
            self.family,
            self.moments.intercept,
        )
        root = symmetric_root(fit.task_covariance + fit.center_covariance)
        thetas, covariances = self._around_center(rows, root)
        if isinstance(self.family, Student):
            for _ in range(_MAX_ROUNDS):
                squares = rows.expected_squares(thetas, covariances) / fit.noise_variance
                own = replace(rows, weights=rows.weights * self.family.precisions(squares))
                thetas, covariances = self._around_center(own, root)
        return fit.center + thetas, covariances

    def _around_center(self, rows: GLMRows, root: Array) -> tuple[Array, Array]:
        """Posterior of tasks' deviations from a known centre, which is in the offset."""
        p = rows.n_parameters
        none = np.zeros(p, dtype=bool)
        data = LaplaceData(rows, np.ones(rows.n_tasks), none, self.posterior.noise_variance)
        mode, marginal = data.climb(root, np.full(p, np.inf))
        covariances = task_covariances(marginal.products, root, np.zeros((p, p)))[0]
        return mode.u @ root.T, covariances


def laplace_fit(
    columns: Array,
    y: Array,
    tasks: Indices,
    n_tasks: int,
    *,
    family: Family,
    intercept: bool = True,
    weights: ArrayLike | None = None,
    offset: Array | None = None,
    covariance: str = "auto",
    blocks: Indices | None = None,
    task_weights: ArrayLike | None = None,
    tol: float = 1e-6,
    max_iter: int = 200,
) -> GLMFit:
    """Fit a hierarchical generalised linear model.

    Parameters
    ----------
    columns : array of shape (n_rows, n_columns)
        Scaled features, then ones if there is an `intercept`, whose centre has a wide prior.
    y, tasks, n_tasks
        Targets (numbers of classes for a multinomial family), numbers of the rows' tasks.
    family : Family
        Distribution of the targets. `Gaussian` is exact, `Student` a variational approximation.
    weights : array of shape (n_rows,), optional
        Precisions of rows; how many each stands for if the family has no dispersion.
    offset : array of shape (n_rows,) or (n_rows, n_scores), optional
        Added to the scores.
    covariance, blocks, task_weights, tol, max_iter
        As in :func:`evidence_fit`.

    Notes
    -----
    An evaluation of the evidence takes a few Newton steps, each a pass over the rows and O(N p³)
    operations; its gradient is exact, with the change of the most likely parameters. The
    dispersion of a family that has one is Pearson's, with the effective number of parameters.
    """
    check_covariance(covariance)
    family.check(y)
    row_weights = checked_weights(weights, len(y))
    of_tasks = checked_weights(task_weights, n_tasks, "task_weights")
    q = family.n_scores
    given = np.zeros((len(y), q)) if offset is None else offset.reshape(len(y), q)
    options = SearchOptions(covariance, blocks, tol, max_iter)
    rest = y - given[:, 0] if isinstance(family, Gaussian) else y
    shift = family.start(rest, row_weights) * intercept
    rows = GLMRows(columns, y, row_weights, tasks, n_tasks, given + shift, family, intercept)
    fit = _fit(rows, of_tasks, options)
    return replace(fit, posterior=_shifted(fit.posterior, shift))


def _fit(rows: GLMRows, task_weights: Array, options: SearchOptions) -> GLMFit:
    if isinstance(rows.family, Student):
        return GLMFit(rows.family, *robust_fit(rows, rows.family, task_weights, options))
    if isinstance(rows.family, Gaussian):
        moments = rows.moments()
        fit = evidence_fit(moments, task_weights=task_weights, **options._asdict())
        return GLMFit(rows.family, fit, moments)
    return _settled(rows, task_weights, options)


def _settled(rows: GLMRows, task_weights: Array, options: SearchOptions) -> GLMFit:
    """Search for the variances, and for the dispersion of a family that has one, in turn."""
    p, q = rows.n_parameters, rows.family.n_scores
    data = LaplaceData(rows, task_weights, np.arange(p) >= p - q * rows.intercept)
    data.dispersion = data.pearson(np.zeros((rows.n_tasks, p)), 0.0)
    least = _LEAST_SHARE * data.dispersion
    found, scores = _search(data, None, options).run(options.covariance)
    for _ in range(_MAX_ROUNDS):
        before, point = data.dispersion, cast("LaplacePoint", found.point)
        data.dispersion = data.pearson(point.thetas, point.n_effective, least)
        if abs(np.log(data.dispersion / before)) <= _SETTLED:
            break
        found, _ = _search(data, found, options).run(found.structure)
    fit = found.fit(scores)
    # In units of the dispersion, as products of rows are.
    products = fit.noise_variance * found.point.marginal.products
    moments = Moments(products, rows.counts, np.zeros(rows.n_tasks), rows.intercept)
    return GLMFit(rows.family, fit, moments)


def _search(data: LaplaceData, start: Found | None, options: SearchOptions) -> Search:
    rows = data.rows
    bends = np.einsum("njj->nj", rows.at_zero)[:, :-1] / data.dispersion
    mean_squares = rows.weights @ rows.X**2 / rows.weights.sum()
    mean_squares[rows.X.shape[1] - rows.intercept :] = 0.0
    search = Search(
        data.at,
        data.task_weights @ bends,
        mean_squares,
        data.task_weights * (bends.sum(axis=1) > 0),
        np.repeat(np.arange(rows.X.shape[1]), rows.family.n_scores),
        options,
        intercept=rows.intercept,
    )
    if start is not None:
        search.start, search.ratio = np.diagonal(start.covariance), start.ratio
    return search


def _shifted(fit: EvidenceFit, shift: Array) -> EvidenceFit:
    """Add the pooled scores, from which intercepts were measured."""
    p = len(fit.center)
    added = np.append(np.zeros(p - len(shift)), shift)
    return replace(fit, center=fit.center + added, thetas=fit.thetas + added)
