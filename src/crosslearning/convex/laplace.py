"""The evidence for generalised linear models, by Laplace's approximation.

The model is that of `evidence`, with y drawn from a family given the scores o + xᵀθ_i, where o is
an offset. The parameters are integrated out by a Gaussian at their most likely values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from crosslearning.convex._laplace import LaplaceData, LaplacePoint
from crosslearning.convex._row_input import checked_weights
from crosslearning.convex._search import Search
from crosslearning.convex._working import GLMRows, SearchOptions
from crosslearning.convex.evidence import (
    check_covariance,
    checked_task_weights,
    evidence_fit,
    first_ratios,
)
from crosslearning.convex.families import Gaussian, Student
from crosslearning.convex.moments import Moments
from crosslearning.convex.posterior import (
    EvidenceFit,
    EvidenceStatus,
    score_covariances,
    task_covariances,
)
from crosslearning.convex.robust import robust_fit

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from crosslearning.convex._arrays import Array, Indices
    from crosslearning.convex._search import Found
    from crosslearning.convex.families import Family

__all__ = ["GLMFit", "laplace_fit"]

_SMALLEST_RATIO = 1e-8  # smallest variance of the centre, relative to where the search begins
_MAX_ROUNDS, _SETTLED = 20, 1e-4  # of the dispersion, and its relative change at the end
_LEAST_SHARE = 1e-6  # smallest dispersion, as a share of that without features and tasks


@dataclass(frozen=True, eq=False)
class GLMFit:
    """A fitted generalised linear model of many tasks.

    Attributes
    ----------
    family : Family
        Distribution of the targets.
    posterior : EvidenceFit
        Variances and posterior; `noise_variance` is the dispersion, parameters are matrices
        (columns, scores), flattened.
    moments : Moments
        Products of the working model, from which covariances of the tasks follow.
    """

    family: Family
    posterior: EvidenceFit
    moments: Moments

    def scores(self, columns: Array, tasks: Indices) -> Array:
        """Mean scores of rows without their offsets, shape (n_rows, n_scores); -1 is a new task."""
        fit = self.posterior
        thetas = np.where((tasks >= 0)[:, None], fit.thetas[tasks], fit.center)
        matrices = thetas.reshape(len(columns), columns.shape[1], -1)
        return np.asarray(np.einsum("rp,rpq->rq", columns, matrices))

    def score_covariances(self, columns: Array, tasks: Indices, covariances: Array) -> Array:
        """Covariances of the scores of rows, (n_rows, n_scores, n_scores).

        `covariances` are those of the tasks, ``posterior.covariances(moments)``.
        """
        fit = self.posterior
        unseen = fit.center_covariance + fit.task_covariance
        return score_covariances(columns, tasks, covariances, unseen)

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
        values, vectors = np.linalg.eigh(fit.task_covariance + fit.center_covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
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
        Scaled features, followed by a column of ones if there is an intercept.
    y : array of shape (n_rows,)
        Targets; numbers of classes for a multinomial family.
    tasks : array of int of shape (n_rows,)
        Number of each row's task.
    n_tasks : int
        Number of tasks.
    family : Family
        Distribution of the targets. `Gaussian` is exact, `Student` a variational approximation.
    intercept : bool
        Whether the last column is the intercept, whose centre has a wide prior.
    weights : array of shape (n_rows,), optional
        Weights of the rows: precisions, or for families without dispersion the number of rows
        that each stands for.
    offset : array of shape (n_rows,) or (n_rows, n_scores), optional
        Added to the scores.
    covariance, blocks, task_weights, tol, max_iter
        As in :func:`evidence_fit`.

    Returns
    -------
    GLMFit
        Variances, posterior, and the working model.

    Notes
    -----
    An evaluation of the evidence takes a few Newton steps, each a pass over the rows and O(N p³)
    operations; its gradient is exact, with the change of the most likely parameters. The
    dispersion of a family that has one is Pearson's, with the effective number of parameters.
    """
    check_covariance(covariance)
    family.check(y)
    row_weights = checked_weights(weights, len(y))
    of_tasks = checked_task_weights(task_weights, n_tasks)
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
        robust = robust_fit(rows, rows.family, task_weights, options)
        return GLMFit(rows.family, robust.posterior, robust.moments)
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
        before, point = data.dispersion, found.point
        data.dispersion = data.pearson(point.thetas, point.n_effective, least)
        if abs(np.log(data.dispersion / before)) <= _SETTLED:
            break
        found, _ = _search(data, found, options).run(found.structure)
    return _result(data, found, scores)


def _search(
    data: LaplaceData, start: Found[LaplacePoint] | None, options: SearchOptions
) -> Search[LaplacePoint]:
    """Begin where a task's own rows and the others' are worth the same, unless told."""
    p = data.rows.n_parameters
    products = data.rows.products(np.zeros((data.rows.n_tasks, p)), data.dispersion)
    squares = np.einsum("n,njj->j", data.task_weights, products[:, :p, :p])
    filled = np.einsum("njj->n", products) > 0
    n_tasks = float(data.task_weights @ filled)
    variances = np.divide(n_tasks, squares, out=np.zeros(p), where=squares > 0)
    rows = data.rows
    columns = rows.weights @ rows.X**2 / rows.weights.sum()
    columns[rows.X.shape[1] - rows.intercept :] = 0.0
    blocks = np.zeros(len(columns), dtype=np.intp) if options.blocks is None else options.blocks
    ratio, no_prior = first_ratios(1.0, columns, blocks)
    fixed = np.append(np.full(p, np.count_nonzero(filled) < 2), no_prior)
    number = np.repeat(np.arange(len(blocks)), data.rows.family.n_scores)
    if not fixed.all():
        fixed[:p] |= ~data.at(np.sqrt(variances), ratio[blocks[number]]).informed
    smallest = _SMALLEST_RATIO * ratio
    if start is not None:
        variances, ratio = np.diagonal(start.covariance), start.ratio
    return Search(
        data.at,
        number,
        blocks,
        data.rows.intercept,
        variances,
        ratio,
        smallest,
        fixed,
        n_tasks,
        options.tol,
        options.max_iter,
    )


def _result(data: LaplaceData, found: Found[LaplacePoint], scores: dict[str, float]) -> GLMFit:
    point, rows = found.point, data.rows
    fit = EvidenceFit(
        structure=found.structure,
        noise_variance=point.dispersion,
        task_covariance=found.covariance,
        center_variances=1.0 / point.precision,
        center=point.mode.beta,
        center_covariance=point.center.covariance,
        thetas=point.thetas,
        log_evidence=point.value,
        scores=scores,
        n_iter=found.n_iter,
        status=EvidenceStatus.CONVERGED if found.converged else EvidenceStatus.MAX_ITER,
    )
    counts = np.bincount(rows.tasks[rows.weights > 0], minlength=rows.n_tasks)
    # In units of the dispersion, as products of rows are.
    products = point.dispersion * point.marginal.products
    moments = Moments(products, counts, np.zeros(rows.n_tasks), rows.intercept)
    return GLMFit(rows.family, fit, moments)


def _shifted(fit: EvidenceFit, shift: Array) -> EvidenceFit:
    """Add the pooled scores, from which intercepts were measured."""
    p = len(fit.center)
    added = np.append(np.zeros(p - len(shift)), shift)
    return replace(fit, center=fit.center + added, thetas=fit.thetas + added)
