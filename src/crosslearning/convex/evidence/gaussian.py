"""The hierarchical Gaussian model, fitted by maximising the evidence.

The model: y = xᵀθ_i + noise of variance σ², θ_i = β + δ_i, δ_i ~ N(0, Σ), β ~ N(0, τ²) on the
coefficients and flat on the intercept. Σ, σ² and τ² maximise the probability of the targets with
all parameters integrated out (restricted maximum likelihood, where τ² is large); no rows are set
aside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.convex.evidence._point import VariancePoint
from crosslearning.convex.evidence.hierarchy import NestedMarginal
from crosslearning.convex.evidence.marginal import Center, Marginal, ThinMarginal, row_factors
from crosslearning.convex.evidence.posterior import EvidenceFit, EvidenceStatus, symmetric_root
from crosslearning.convex.evidence.search import Parameters, Search, SearchOptions, evidence_of
from crosslearning.convex.sums.rows import Moments
from crosslearning.convex.sums.statistics import checked_weights
from crosslearning.tether import Array, Flags, Indices

COVARIANCES = ("auto", "block", "diagonal", "full", "levels", "pooled", "separate")
_SAMPLE = 2**14  # tasks that are enough to begin with
_ROUNDING = 1e-13  # smallest noise, as a share of the variance of the targets


@dataclass(frozen=True, eq=False)
class GaussianData:
    """Moments of the tasks and their weights, and which columns' centre has a flat prior."""

    moments: Moments
    task_weights: Array
    flat: Flags

    @cached_property
    def n_rows(self) -> float:
        """Number of rows, by the weights of their tasks."""
        return float(self.task_weights @ self.moments.counts)

    @classmethod
    def of(
        cls, moments: Moments, task_weights: ArrayLike | None, *, flat_center: bool = False
    ) -> GaussianData:
        """Check the weights; the centre of intercepts is always flat."""
        flat = np.full(moments.n_columns, flat_center)
        flat[moments.n_columns - moments.intercept :] = True
        return cls(moments, checked_weights(task_weights, moments.n_tasks, "task_weights"), flat)

    @property
    def parameters(self) -> Parameters:
        squares = np.einsum("n,njj->j", self.task_weights, self.moments.products)[:-1]
        mean_squares = np.where(self.flat, 0.0, squares / max(self.n_rows, 1.0))
        columns = np.arange(self.moments.n_columns)
        return Parameters(squares, mean_squares, columns, self.moments.intercept)

    def at(self, root: Array, ratio: Array | float) -> VariancePoint:
        """Evaluate at Σ = σ² root rootᵀ and τ² = σ² ratio, for all columns or for each."""
        products, weights = self.moments.products, self.task_weights
        precision = np.where(self.flat, 0.0, np.divide(1.0, ratio))
        if self._factors is None:
            return self.point(Marginal(products, root, weights), precision)
        return self.point(ThinMarginal(products, root, weights, self._factors), precision)

    def point(self, marginal: Marginal, precision: Array) -> VariancePoint:
        """Return the model with the best noise."""
        center = Center.of(marginal.total, precision)
        value, noise, n_noise = self.value(marginal, center, precision)
        return VariancePoint(
            marginal=marginal,
            precision=precision,
            coef=~self.flat,
            center=center,
            noise=noise,
            n_noise=n_noise,
            value=value,
            dispersion=noise,
        )

    def value(
        self, marginal: Marginal | NestedMarginal, center: Center, precision: Array
    ) -> tuple[float, float, float]:
        """Log evidence, variance of the noise, and its degrees of freedom unless it is rounding."""
        v = np.append(-center.beta, 1.0)
        squares = max(float(v @ marginal.total @ v + precision @ center.beta**2), 0.0)
        n_free = max(self.n_rows - center.n_flat, 1.0)
        targets = float(self.task_weights @ self.moments.products[:, -1, -1])
        smallest = _ROUNDING * (targets / max(self.n_rows, 1.0) or 1.0)
        noise = max(squares / n_free, smallest)
        logs = marginal.log_det + center.log_det - np.log(precision[~self.flat]).sum()
        logs -= float(self.task_weights @ self.moments.log_weights)
        deviance = n_free * np.log(2.0 * np.pi * noise) + squares / noise
        return float(-0.5 * (deviance + logs)), noise, n_free if noise > smallest else np.inf

    @cached_property
    def _factors(self) -> Array | None:
        """Rows that stand for each task's, if they are fewer than half the columns."""
        most = int(self.moments.counts.max(initial=0))
        if not 0 < 2 * most <= self.moments.n_columns:
            return None
        return row_factors(self.moments.products, most)


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
    """Fit the hierarchical Gaussian model from the sums of products of each task.

    Parameters
    ----------
    moments : Moments
        As from :meth:`Statistics.moments`.
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
    flat_center, start : bool, EvidenceFit
        Whether τ² is infinite (restricted maximum likelihood); and a fit to start from.
    task_weights, learn_from : array of shape (n_tasks,), int
        How many tasks each stands for, 1 by default; and the largest number of evenly spaced tasks
        from which variances are learned, all by default.
    tol, max_iter
        Gain in log evidence that ends the search, and largest number of evaluations. Each of 5 to
        20 takes O(N p³) operations for N tasks and p columns, or O(N m p²) if no task has more rows
        m than half the columns. A variance whose optimum is at 0 is exactly 0.

    Examples
    --------
    >>> from crosslearning.convex.sums.statistics import Statistics
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
    data = GaussianData.of(moments, task_weights, flat_center=flat_center)
    weights, flat = data.task_weights, data.flat
    if moments.n_tasks > (learn_from or 2 * _SAMPLE) and start is None:
        few = slice(None, None, -(-moments.n_tasks // (learn_from or _SAMPLE)))
        options = SearchOptions(covariance, blocks, tol, max_iter)._asdict()
        sample, sample_weights = moments.take(few), weights[few]
        start = evidence_fit(
            sample, flat_center=flat_center, task_weights=sample_weights, **options
        )
        if learn_from is not None:
            return _posterior(data, start)
        covariance = start.structure
    counted = weights * (moments.counts > 0)
    search = Search(
        data.at,
        SearchOptions(covariance, blocks, tol, max_iter),
        data.parameters,
        sizes=np.array([counted.sum()]),
        alone=np.array([np.count_nonzero(counted) < 2]),
    )
    if start is not None:
        search.start = np.diagonal(start.task_covariance) / start.noise_variance
        search.ratio[search.blocks[~flat]] = start.center_variances[~flat] / start.noise_variance
    optimum, scores = search.run(covariance)
    fit = evidence_of(optimum, scores)
    noiseless = np.isinf(optimum.point.n_noise)
    return replace(fit, status=EvidenceStatus.NOISELESS) if noiseless else fit


def _posterior(data: GaussianData, fit: EvidenceFit) -> EvidenceFit:
    """Take the variances of a fit, in units of the noise, for all tasks."""
    relative = fit.task_covariance / fit.noise_variance
    root = symmetric_root(relative) if fit.structure == "full" else np.sqrt(np.diag(relative))
    point = data.at(root, fit.center_variances / fit.noise_variance)
    unit = point.noise / fit.noise_variance
    return replace(
        fit,
        noise_variance=point.noise,
        task_covariance=unit * fit.task_covariance,
        center_variances=unit * fit.center_variances,
        center=point.beta,
        center_covariance=point.noise * point.center.covariance,
        thetas=point.thetas,
        log_evidence=point.value,
    )


def check_covariance(covariance: str) -> None:
    """Refuse structures that do not exist."""
    if covariance not in COVARIANCES:
        raise ValueError(f"`covariance` must be one of {COVARIANCES}; got {covariance!r}.")
