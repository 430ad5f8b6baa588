"""The result of maximising the evidence: variances, how well they are determined, and posterior."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import chdtri

from crosslearning.convex.evidence.marginal import (
    Hierarchy,
    Marginal,
    symmetric_root,
    task_covariances,
)
from crosslearning.convex.families import Family, Gaussian
from crosslearning.convex.sums.rows import Moments
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
    NOISELESS = (
        "The targets are fitted to rounding error: the noise is set to the smallest value "
        "distinguishable from 0."
    )
    MAX_ITER = (
        "The iteration limit was reached before the evidence was at its maximum. Raise `max_iter`."
    )
    MAX_PASSES = (
        "The parameters still moved after 50 passes over the rows: variances between the tasks are "
        "approximate. Fit a sample of the tasks in memory to check them."
    )


@dataclass(frozen=True, eq=False)
class VarianceLaw:
    """Estimates of sums (variance + offset), distributed as such a sum times χ²(df) / df.

    Estimated effects of tasks vary by the variance between tasks and by their errors, which the
    offset stands for. With equally large tasks and known noise this is exact (one-way analysis of
    variance); otherwise it has the slope and the expected curvature of the log evidence. A variance
    that was not estimated has 0 degrees of freedom, and one about which the rows say nothing NaN:
    with one row per task, intercepts cannot be told apart from noise.
    """

    estimates: Array
    offsets: Array
    df: Array

    @classmethod
    def of(cls, best: Structured[EvidencePoint], sizes: Array) -> VarianceLaw:
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
        ends = (
            self.estimates * df / chdtri(df, tail) - self.offsets
            for tail in (0.5 * (1.0 - coverage), 0.5 * (1.0 + coverage))
        )
        lower, upper = (np.maximum(end, 0.0) for end in ends)
        return lower, upper

    def interval_along(
        self, directions: Array, covariance: Array, coverage: float
    ) -> tuple[Array, Array]:
        """Combine intervals of the parameters' variances to those along directions.

        Distances of the ends are added, of different estimates as squares (the MOVER method of
        variance components); parameters that share a variance share its estimate.
        """
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


@dataclass(frozen=True, eq=False, kw_only=True)
class Fit:
    """Variances at the maximum of the evidence, and the posterior of the centre.

    `noise_variance` is σ², `center_variances` are τ² of each parameter, infinite where the prior is
    flat; `center` and `center_covariance` are the posterior of β. `variance_law` tells how
    well the variances of units are determined, and `n_iter` is the number of evaluations.
    """

    structure: str
    noise_variance: float
    center_variances: Array
    center: Array
    center_covariance: Array
    log_evidence: float
    variance_law: VarianceLaw
    n_iter: int
    status: EvidenceStatus


@dataclass(frozen=True, eq=False, kw_only=True)
class EvidenceFit(Fit):
    """The fit of tasks of one level.

    With P parameters, `task_covariance` is Σ (P, P), and `thetas` (n_tasks, P) are the tasks'
    posterior means (of other families than the Gaussian, modes).
    """

    task_covariance: Array
    thetas: Array

    def task_posteriors(self, moments: Moments) -> tuple[Array, Array]:
        """Posterior covariances of the θ_i, and I - V_i A_i, from the moments of the fit.

        They take as much memory as the moments; ask for some tasks at a time if they are many.
        """
        root = symmetric_root(self.task_covariance / self.noise_variance)
        root = root[:, root.any(axis=0)]
        center = self.center_covariance / self.noise_variance
        covariances, gains = task_covariances(moments.products, root, center)
        return self.noise_variance * covariances, gains


@dataclass(frozen=True, eq=False, kw_only=True)
class NestedFit(Fit):
    """The fit of units of several levels; lists and first axes go by level, tasks first.

    `level_variances` are the diagonals of Σ, `means` and `covariances` those of the units'
    parameters, and `gains` I - V A of each unit. `variance_law` goes level by level.
    """

    hierarchy: Hierarchy
    level_variances: Array
    means: list[Array]
    covariances: list[Array]
    gains: list[Array]
    family: Family = field(default_factory=Gaussian)  # with the shape that was learned


class Gaussians(NamedTuple):
    """Means and covariances of the centre and of the tasks.

    A task's covariance with the centre is gains_i C: gains_i is I - V_i A_i.
    """

    center: Array
    center_covariance: Array
    thetas: Array
    covariances: Array
    gains: Array

    @classmethod
    def of(cls, marginal: Marginal) -> Gaussians:
        """Solve a quadratic model."""
        center = marginal.center
        return cls(center.beta, center.covariance, marginal.means[0], *marginal.task_posteriors)

    @classmethod
    def exact(cls, fit: EvidenceFit, moments: Moments) -> Gaussians:
        """Return the posterior of a Gaussian model, from the moments of its fit."""
        posteriors = fit.task_posteriors(moments)
        return cls(fit.center, fit.center_covariance, fit.thetas, *posteriors)

    def shifted(self, by: Array) -> Gaussians:
        """Add to the means."""
        return self._replace(center=self.center + by, thetas=self.thetas + by)
