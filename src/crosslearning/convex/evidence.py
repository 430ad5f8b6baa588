"""The hierarchical Gaussian model, fitted by maximising the evidence.

The model: y = xᵀθ_i + noise of variance σ², θ_i = β + δ_i, δ_i ~ N(0, Σ), β ~ N(0, τ²) on the
coefficients and flat on the intercept. Σ, σ² and τ² maximise the probability of the targets with
all parameters integrated out (restricted maximum likelihood, where τ² is large); no rows are set
aside.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.convex._arrays import Indices
from crosslearning.convex._gaussian import GaussianData
from crosslearning.convex._row_input import checked_weights
from crosslearning.convex._search import Found, Search, SearchOptions
from crosslearning.convex.moments import Moments
from crosslearning.convex.posterior import EvidenceFit, EvidenceStatus, symmetric_root

__all__ = ["COVARIANCES", "evidence_fit"]

COVARIANCES = ("auto", "block", "diagonal", "full", "levels", "pooled", "separate")
_SAMPLE = 2**14  # tasks that are enough to begin with


def evidence_fit(
    moments: Moments,
    covariance: str = "auto",
    *,
    blocks: Indices | None = None,
    flat_center: bool = False,
    task_weights: ArrayLike | None = None,
    start: EvidenceFit | None = None,
    learn_from: int | None = None,
    tol: float = 1e-6,
    max_iter: int = 200,
) -> EvidenceFit:
    """Fit the hierarchical Gaussian model.

    Parameters
    ----------
    moments : Moments
        Sums of products of each task, as from :meth:`Statistics.moments`.
    covariance : {"auto", "block", "diagonal", "full", "levels", "pooled", "separate"}
        Structure of Σ: a variance for each block of coefficients and one for intercepts; one for
        each column; or a full matrix, shrunk towards its diagonal. "auto" compares the log evidence
        minus ½ log(number of tasks) per parameter (BIC, with tasks as the sample), and takes a
        richer structure if that is higher by 1, below which a difference is "not worth more than a
        bare mention" (Kass and Raftery, 1995); with many tasks, it uses a sample. The others are
        baselines: tasks that differ only in intercepts, one model for all, and models that share
        only the size of their coefficients.
    blocks : array of int of shape (n_columns,), optional
        Block of each column, from 0, one by default; each has its own τ².
    flat_center : bool
        Whether τ² is infinite, which is restricted maximum likelihood.
    task_weights : array of shape (n_tasks,), optional
        Weight of each task: how many tasks it stands for; 1 by default.
    start : EvidenceFit, optional
        A fit of similar data, whose variances are the starting point of the search.
    learn_from : int, optional
        Largest number of evenly spaced tasks from which variances are learned; all by default. The
        posterior is that of all tasks.
    tol, max_iter
        Gain in log evidence that ends the search, and largest number of evaluations.

    Notes
    -----
    Each of 5 to 20 evaluations takes O(N p³) operations for N tasks and p columns, or O(N m p²) if
    no task has more rows m than half the columns, and as much memory as the moments. A variance
    whose optimum is at 0 is exactly 0: all tasks share its coefficient.

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
    weights = checked_weights(task_weights, moments.n_tasks, "task_weights")
    flat = np.full(moments.n_columns, flat_center)
    flat[moments.n_columns - moments.intercept :] = True
    data = GaussianData(moments, weights, flat)
    if moments.n_tasks > (learn_from or 2 * _SAMPLE) and start is None:
        few = slice(None, None, -(-moments.n_tasks // (learn_from or _SAMPLE)))
        options = SearchOptions(covariance, blocks, tol, max_iter)._asdict()
        sample, own = moments.take(few), weights[few]
        start = evidence_fit(sample, flat_center=flat_center, task_weights=own, **options)
        if learn_from is not None:
            return _posterior(data, start)
        covariance = start.structure
    squares = np.einsum("n,njj->j", weights, moments.products)[:-1]
    mean_squares = np.where(flat, 0.0, squares / max(data.n_rows, 1.0))
    search = Search(
        data.at,
        squares,
        mean_squares,
        weights * (moments.counts > 0),
        np.arange(moments.n_columns),
        SearchOptions(covariance, blocks, tol, max_iter),
        intercept=moments.intercept,
    )
    if start is not None:
        search.start = np.diagonal(start.task_covariance) / start.noise_variance
        search.ratio[search.blocks[~flat]] = start.center_variances[~flat] / start.noise_variance
    found, scores = search.run(covariance)
    fit = found.fit(scores)
    noiseless = np.isinf(found.point.n_noise)
    return replace(fit, status=EvidenceStatus.NOISELESS) if noiseless else fit


def _posterior(data: GaussianData, fit: EvidenceFit) -> EvidenceFit:
    """Take the variances of a fit, in units of the noise, for all tasks."""
    relative = fit.task_covariance / fit.noise_variance
    root = symmetric_root(relative) if fit.structure == "full" else np.sqrt(np.diag(relative))
    ratio = fit.center_variances / fit.noise_variance
    found = Found(fit.structure, data.at(root, ratio), root, ratio, 0.0, fit.n_iter, converged=True)
    return replace(found.fit(fit.scores), status=fit.status)


def check_covariance(covariance: str) -> None:
    """Refuse structures that do not exist."""
    if covariance not in COVARIANCES:
        raise ValueError(f"`covariance` must be one of {COVARIANCES}; got {covariance!r}.")
