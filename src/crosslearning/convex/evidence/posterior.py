"""The result of maximising the evidence: variances, how well they are determined, and posterior."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import chdtri

from crosslearning.convex.evidence.marginal import Marginal
from crosslearning.convex.families import Family, Gaussian
from crosslearning.tether import Array

if TYPE_CHECKING:
    from crosslearning.convex.evidence.point import EvidencePoint
    from crosslearning.convex.evidence.search import Structured

_LEAST = 1e-3  # share of its offset that an estimate has at least
_FLAT = 1e-10  # curvature, relative to that at a known noise, below which there is no information
_ROUNDING = 1e-12  # of a variance, below which the lower end of its interval is 0
_PART = 1e-6  # squared share of a variance in a direction, above which it matters


class EvidenceStatus(Enum):
    """How the search ended; the value is the sentence shown to the user."""

    CONVERGED = "The evidence is at its maximum to the tolerance."
    NOISELESS = "The targets are fitted to rounding error: the noise is the least resolvable."
    MAX_ITER = "The iterations ended before the evidence was at its maximum. Raise `max_iter`."
    MAX_PASSES = (
        "The parameters still moved after 50 passes over the rows: variances between the tasks are "
        "approximate. Fit a sample of the tasks in memory to check them."
    )


@dataclass(frozen=True, eq=False)
class VarianceLaw:
    """Estimates of sums (variance + offset), distributed as such a sum times χ²(df) / df.

    Estimated effects of tasks vary by the variance between tasks and by their errors, the offset.
    With tasks of one size and known noise this is exact (one-way analysis of variance); otherwise
    it has the slope and the expected curvature of the log evidence. A variance that was not
    estimated has 0 degrees of freedom, and one about which the rows say nothing NaN.
    """

    estimates: Array
    offsets: Array
    df: Array

    @classmethod
    def of(cls, best: "Structured[EvidencePoint]", sizes: Array) -> "VarianceLaw":
        """Take the maximum of the evidence; `sizes` are the numbers of units of each level."""
        group, unit = best.group[:-1].ravel(), best.point.noise
        n = int(group.max()) + 1
        n_units = np.repeat(sizes, n // len(sizes))
        variances, fixed = best.variances[:n], best.fixed[:n]
        scaled = best.expected / np.outer(best.unit, best.unit)
        inverse = np.linalg.pinv(scaled, hermitian=True)
        values, vectors = np.linalg.eigh(scaled)
        unknown = np.sum(vectors[:n, values < _FLAT] ** 2, axis=1) > _PART
        # Expected curvature by one variance, with the others and the noise at their best.
        curvature = best.unit[:n] ** 2 / np.maximum(np.diagonal(inverse)[:n], 1e-12)
        df = np.maximum(n_units - 1.0, 1.0) * np.bincount(group)
        offsets = np.maximum(np.sqrt(0.5 * df / curvature) - variances, 0.0)
        estimates = variances + offsets + best.slope[:n] / curvature
        estimates = np.maximum(estimates, _LEAST * offsets)
        df = np.where(fixed, 0.0, np.where(unknown, np.nan, df))
        return cls(unit * estimates[group], unit * offsets[group], np.asarray(df[group], float))

    def interval(self, coverage: float) -> tuple[Array, Array]:
        """Return the ends of central intervals of the variances; NaN where none was estimated."""
        df = np.where(self.df > 0, self.df, np.nan)
        tails = 0.5 * (1.0 - coverage), 0.5 * (1.0 + coverage)
        lower, upper = (self.estimates * df / chdtri(df, tail) - self.offsets for tail in tails)
        return np.maximum(lower, 0.0), np.maximum(upper, 0.0)

    def interval_along(
        self, directions: Array, covariance: Array, coverage: float
    ) -> tuple[Array, Array]:
        """Combine intervals of variances to those along directions (the MOVER method)."""
        lower, upper = self.interval(coverage)
        estimates = np.array([self.estimates, self.offsets, self.df])
        group = np.unique(estimates, axis=1, return_inverse=True)[1].ravel()
        members = np.eye(int(group.max()) + 1)[group]
        estimated, squares, variances = self.df > 0, directions**2, np.diagonal(covariance)
        value = np.sum(directions @ covariance * directions, axis=1)
        below, above = (
            np.linalg.norm(squares @ (np.where(estimated, reach, 0.0)[:, None] * members), axis=1)
            for reach in (variances - lower, upper - variances)
        )
        without = np.isnan(self.df) | ((self.df == 0) & (variances > 0))  # undetermined, or fixed
        determined = ~(squares[:, without] > 0).any(axis=1)
        has_interval = (squares[:, estimated] > 0).any(axis=1) & determined
        lowest = np.where(value - below > _ROUNDING * value, value - below, 0.0)
        return np.where(has_interval, lowest, np.nan), np.where(has_interval, value + above, np.nan)


class Posterior(NamedTuple):
    """Means and covariances of the centre, and of the units of each level, tasks first."""

    center: Array
    center_covariance: Array
    means: list[Array]
    covariances: list[Array]
    gains: list[Array]  # I - V A: times its parent's covariance, that of a unit with its parent

    @classmethod
    def of(cls, marginal: Marginal, noise: float = 1.0) -> "Posterior":
        center, units = marginal.center, [marginal.task_posteriors, *marginal.group_posteriors[:-1]]
        covariances, gains = [noise * each for each, _ in units], [gain for _, gain in units]
        return cls(center.beta, noise * center.covariance, marginal.means[:-1], covariances, gains)

    def shifted(self, by: Array) -> "Posterior":
        return self._replace(center=self.center + by, means=[means + by for means in self.means])


@dataclass(frozen=True, eq=False, kw_only=True)
class EvidenceFit:
    """Variances at the maximum of the evidence, and posterior; lists go by level, tasks first."""

    structure: str
    noise_variance: float  # σ²
    center_variances: Array  # τ² of each parameter, infinite where the prior is flat
    level_covariances: Array  # Σ of each level
    center: Array  # posterior mean; mode of other families than the Gaussian
    means: list[Array]  # the same of the units
    log_evidence: float
    variance_law: VarianceLaw  # how well variances of units are determined, level by level
    n_iter: int  # evaluations
    status: EvidenceStatus
    marginal: Marginal  # the quadratic model there,
    unit: float  # and its unit of variances
    family: Family = field(default_factory=Gaussian)  # with the shape that was learned
    averaged: Callable[[], Posterior] | None = None  # of families for which it is another

    @property
    def task_covariance(self) -> Array:
        return np.asarray(self.level_covariances[0])

    @property
    def thetas(self) -> Array:
        return self.means[0]

    @cached_property
    def posterior(self) -> Posterior:
        """Means and covariances, which take as much memory as the moments."""
        if self.averaged is not None:
            return self.averaged()
        posterior = Posterior.of(self.marginal, self.unit)
        return posterior._replace(center=self.center, means=self.means)

    def shifted(self, by: Array) -> "EvidenceFit":
        return replace(self, center=self.center + by, means=[means + by for means in self.means])
