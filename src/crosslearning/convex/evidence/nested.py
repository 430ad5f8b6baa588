"""Groups within groups, fitted by maximising the evidence."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.convex.evidence._nested_point import NestedData, NestedPoint
from crosslearning.convex.evidence.gaussian import GaussianData
from crosslearning.convex.evidence.hierarchy import Hierarchy, NestedMarginal
from crosslearning.convex.evidence.posterior import EvidenceStatus
from crosslearning.convex.evidence.search import Optimum, Search, SearchOptions
from crosslearning.convex.evidence.variance_law import VarianceLaw
from crosslearning.convex.families import Family, Gaussian
from crosslearning.convex.sums.checks import checked_weights
from crosslearning.convex.sums.moments import Moments
from crosslearning.tether import Array, Indices

STRUCTURES = ("auto", "block", "diagonal", "levels", "pooled")


@dataclass(frozen=True, eq=False, kw_only=True)
class NestedFit:
    """Variances of every level at the maximum of the evidence, and the posterior of all units.

    Lists and first axes go by level, tasks first. `level_variances` are the diagonals of Σ,
    `means` and `covariances` those of the units' parameters, `gains` I - V A of each unit, and
    `variance_law` that of all variances, level by level. The others are as in `EvidenceFit`.
    """

    structure: str
    hierarchy: Hierarchy
    noise_variance: float
    level_variances: Array
    center_variances: Array
    center: Array
    center_covariance: Array
    means: list[Array]
    covariances: list[Array]
    gains: list[Array]
    log_evidence: float
    scores: dict[str, float]
    variance_law: VarianceLaw
    n_iter: int
    status: EvidenceStatus
    family: Family = field(default_factory=Gaussian)  # with the shape that was learned


@dataclass(eq=False, kw_only=True)
class GaussianLevels(NestedData):
    """Least squares, with the noise at its best."""

    tasks: GaussianData

    def value(self, marginal: NestedMarginal) -> tuple[float, float, float]:
        return self.tasks.value(marginal, marginal.center, marginal.precision)


def levels_of(hierarchy: Hierarchy) -> dict[str, Any]:
    """Return what a search has to know of the levels.

    One with a single unit, or as many as the level below, has nothing to tell.
    """
    sizes = np.array(hierarchy.sizes, dtype=np.float64)
    return {"sizes": sizes, "alone": (sizes < 2) | np.append(False, sizes[1:] == sizes[:-1])}


def equal_shares(task_weights: Array, squares: Array, n_levels: int) -> Array:
    """Return where to begin: a task's rows and the others' weigh alike, as do the levels."""
    total = float(task_weights.sum())
    each = np.divide(total, squares, out=np.zeros(len(squares)), where=squares > 0) / n_levels
    return np.tile(each, (n_levels, 1))


def levels_fit(optimum: Optimum[NestedPoint], scores: dict[str, float]) -> NestedFit:
    """Return variances and posterior."""
    point, marginal = optimum.point, optimum.point.marginal
    return NestedFit(
        structure=optimum.structure,
        hierarchy=marginal.hierarchy,
        noise_variance=point.noise,
        level_variances=point.noise * marginal.variances,
        center_variances=np.where(point.coef, optimum.center_variances, np.inf),
        center=point.center.beta,
        center_covariance=point.noise * point.center.covariance,
        means=[means[:, :, 0] for means in marginal.means[:-1]],
        covariances=[point.noise * covariances for covariances in marginal.covariances[:-1]],
        gains=marginal.gains,
        log_evidence=point.value,
        scores=scores,
        variance_law=optimum.law(),
        n_iter=optimum.n_iter,
        status=optimum.status,
    )


def nested_fit(
    moments: Moments,
    hierarchy: Hierarchy,
    covariance: str = "auto",
    *,
    blocks: Indices | None = None,
    task_weights: ArrayLike | None = None,
    tol: float = 1e-6,
    max_iter: int = 200,
) -> NestedFit:
    """Fit Gaussian targets of groups within groups; parameters as in :func:`evidence_fit`.

    Covariances are diagonal at each level. Every evaluation takes little more than one of
    :func:`evidence_fit`, since all but the first level have few units.
    """
    check_structure(covariance)
    weights = checked_weights(task_weights, moments.n_tasks, "task_weights")
    flat = np.zeros(moments.n_columns, dtype=bool)
    flat[moments.n_columns - moments.intercept :] = True
    tasks = GaussianData(moments, weights, flat)
    data = GaussianLevels(
        products=moments.products,
        task_weights=weights,
        hierarchy=hierarchy,
        flat=flat,
        tasks=tasks,
    )
    search = Search(
        data.at,
        SearchOptions(covariance, blocks, tol, max_iter),
        squares=tasks.squares,
        mean_squares=np.where(flat, 0.0, tasks.squares / max(tasks.n_rows, 1.0)),
        columns=np.arange(moments.n_columns),
        intercept=moments.intercept,
        **levels_of(hierarchy),
    )
    search.start = equal_shares(weights, tasks.squares, len(hierarchy.sizes))
    optimum, scores = search.run(covariance)
    fit = levels_fit(optimum, scores)
    noiseless = optimum.converged and np.isinf(optimum.point.n_noise)
    return replace(fit, status=EvidenceStatus.NOISELESS) if noiseless else fit


def check_structure(covariance: str) -> None:
    """Refuse structures that groups within groups do not have."""
    if covariance not in STRUCTURES:
        raise ValueError(
            f"`covariance` of groups within groups must be one of {STRUCTURES}; got "
            f"{covariance!r}. Use 'auto'."
        )
