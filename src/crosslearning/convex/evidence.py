"""How much tasks differ, how noisy they are, and their parameters, by evidence.

The model: y = xᵀθ_i + noise of variance σ², θ_i = β + δ_i, δ_i ~ N(0, Σ), β ~ N(0, τ²) on the
coefficients and flat on the intercept. Σ, σ² and τ² maximise the probability of the targets with
all parameters integrated out (restricted maximum likelihood, where τ² is large); no rows are set
aside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crosslearning.convex._gaussian import GaussianData
from crosslearning.convex._search import Search
from crosslearning.convex.posterior import EvidenceFit, EvidenceStatus, posterior_means

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from crosslearning.convex._arrays import Array, Flags, Indices
    from crosslearning.convex._gaussian import GaussianPoint
    from crosslearning.convex._search import Found
    from crosslearning.convex.moments import Moments

__all__ = ["COVARIANCES", "checked_task_weights", "evidence_fit"]

COVARIANCES = ("auto", "block", "diagonal", "full", "levels", "pooled", "separate")
_SAMPLE = 2**14  # tasks that are enough to begin with
_SMALLEST_RATIO = 1e-8  # smallest variance of the centre, relative to where the search begins


def evidence_fit(
    moments: Moments,
    covariance: str = "auto",
    *,
    blocks: Indices | None = None,
    flat_center: bool = False,
    task_weights: ArrayLike | None = None,
    start: EvidenceFit | None = None,
    tol: float = 1e-6,
    max_iter: int = 200,
) -> EvidenceFit:
    """Fit the hierarchical Gaussian model.

    Parameters
    ----------
    moments : Moments
        Sums of products of each task, as from :meth:`Statistics.moments`.
    covariance : {"auto", "block", "diagonal", "full", "levels", "pooled", "separate"}
        Structure of Σ: one variance for each block of coefficients and one for intercepts; one for
        each column; or a matrix, drawn towards its diagonal. "auto" compares log evidence less
        ½ log(number of tasks) for each parameter (BIC: tasks are the sample that variances
        between tasks are estimated from), and takes a richer structure if that is higher by 1,
        less than which is "not worth more than a bare mention" (Kass and Raftery, 1995). Of many
        tasks a sample decides. The last three are ends to compare with: tasks that differ in
        their intercepts alone; one model for all; and models with nothing in common but how far
        coefficients are from 0.
    blocks : array of int of shape (n_columns,), optional
        Number of each column's block, from 0; one block by default. Each has its own τ². That of
        the intercept is of no account.
    flat_center : bool
        Whether τ² is infinite, which is restricted maximum likelihood, instead of found by
        evidence.
    task_weights : array of shape (n_tasks,), optional
        How many tasks each stands for; 1 by default.
    start : EvidenceFit, optional
        A fit of similar data, whose variances are where the search begins.
    tol : float
        Gain in log evidence below which the search ends.
    max_iter : int
        Largest number of evaluations of the evidence.

    Returns
    -------
    EvidenceFit
        Variances and posterior.

    Notes
    -----
    An evaluation takes O(N p³) operations for N tasks and p columns, and as much memory as the
    moments; 5 to 20 are needed. Where no task has more rows m than half the columns, it takes
    O(N m p²). A variance that the evidence wants at 0 is 0 exactly, and its
    coefficient is then shared by all tasks.

    Examples
    --------
    >>> from crosslearning.convex.statistics import Statistics
    >>> rng = np.random.default_rng(0)
    >>> tasks = np.repeat(np.arange(500), 10)
    >>> X = rng.normal(size=(5000, 1))
    >>> y = X[:, 0] + 2.0 * rng.normal(size=500)[tasks] + rng.normal(size=5000)
    >>> statistics = Statistics.of(X, y, tasks)
    >>> fit = evidence_fit(statistics.moments(statistics.scaling()))
    >>> np.sqrt(np.diagonal(fit.task_covariance)).round(1)
    array([0., 2.])
    """
    check_covariance(covariance)
    weights = checked_task_weights(task_weights, moments.n_tasks)
    flat = np.full(moments.n_columns, flat_center)
    flat[moments.n_columns - moments.intercept :] = True
    data = GaussianData(moments, weights, flat)
    if moments.n_tasks > 2 * _SAMPLE and start is None:
        few = slice(None, None, moments.n_tasks // _SAMPLE)
        start = evidence_fit(
            moments.take(few),
            covariance,
            blocks=blocks,
            flat_center=flat_center,
            task_weights=weights[few],
            tol=tol,
            max_iter=max_iter,
        )
        covariance = start.structure
    if blocks is None:
        blocks = np.zeros(moments.n_columns, dtype=np.intp)
    found, scores = _search(data, blocks, start, tol, max_iter).run(covariance)
    return _result(data, found, scores)


def check_covariance(covariance: str) -> None:
    """Refuse structures that do not exist."""
    if covariance not in COVARIANCES:
        raise ValueError(f"`covariance` must be one of {COVARIANCES}; got {covariance!r}.")


def checked_task_weights(weights: ArrayLike | None, n_tasks: int) -> Array:
    """Weights of the tasks, 1 by default."""
    if weights is None:
        return np.ones(n_tasks)
    checked = np.asarray(weights, dtype=np.float64)
    if checked.shape != (n_tasks,) or not np.all((checked >= 0) & (checked < np.inf)):
        raise ValueError(
            f"`task_weights` must hold a finite number of at least 0 for each of the {n_tasks} "
            f"tasks; got shape {checked.shape} and {checked.min(initial=np.inf)} as the smallest."
        )
    return checked


def _search(
    data: GaussianData, blocks: Indices, start: EvidenceFit | None, tol: float, max_iter: int
) -> Search[GaussianPoint]:
    """Begin where a task's own rows and the others' are worth the same, unless told."""
    p = data.moments.n_columns
    squares = np.einsum("n,njj->j", data.task_weights, data.moments.products[:, :p, :p])
    filled = (data.moments.counts > 0) & (data.task_weights > 0)
    n_tasks = float(data.task_weights @ filled)
    variances = np.divide(n_tasks, squares, out=np.zeros(p), where=squares > 0)
    ratio, no_prior = first_ratios(data.n_rows, np.where(data.flat, 0.0, squares), blocks)
    fixed = np.append(np.full(p, np.count_nonzero(filled) < 2), no_prior)
    if not fixed.all():
        fixed[:p] |= ~data.at(np.sqrt(variances), ratio[blocks]).informed
    smallest = _SMALLEST_RATIO * ratio
    if start is not None:
        variances = np.diagonal(start.task_covariance) / start.noise_variance
        prior = ~data.flat
        ratio[blocks[prior]] = start.center_variances[prior] / start.noise_variance
    return Search(
        data.at,
        np.arange(p),
        blocks,
        data.moments.intercept,
        variances,
        ratio,
        smallest,
        fixed,
        n_tasks,
        tol,
        max_iter,
    )


def first_ratios(n_rows: float, squares: Array, blocks: Indices) -> tuple[Array, Flags]:
    """Variances of the centre's blocks that explain a target of variance 1, and which have none.

    `squares` are the sums of squares of the columns, 0 where the prior is flat.
    """
    total = np.bincount(blocks, squares)
    size = np.bincount(blocks, squares > 0)
    none = total == 0
    return np.divide(n_rows * size, total, out=np.ones(len(total)), where=~none), none


def _result(
    data: GaussianData, found: Found[GaussianPoint], scores: dict[str, float]
) -> EvidenceFit:
    point = found.point
    status = EvidenceStatus.CONVERGED if found.converged else EvidenceStatus.MAX_ITER
    return EvidenceFit(
        structure=found.structure,
        noise_variance=point.noise,
        task_covariance=point.noise * found.covariance,
        center_variances=np.divide(
            point.noise, point.precision, out=np.full(len(data.flat), np.inf), where=~data.flat
        ),
        center=point.center.beta,
        center_covariance=point.noise * point.center.covariance,
        thetas=posterior_means(data.moments.products, found.root, point.center.beta),
        log_evidence=point.value,
        scores=scores,
        n_iter=found.n_iter,
        status=EvidenceStatus.NOISELESS if point.at_rounding else status,
    )
