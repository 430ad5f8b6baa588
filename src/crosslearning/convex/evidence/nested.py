"""Groups within groups, fitted by maximising the evidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.convex.evidence._nested_point import NestedData, NestedPoint
from crosslearning.convex.evidence.gaussian import best_noise
from crosslearning.convex.evidence.hierarchy import Hierarchy, NestedMarginal
from crosslearning.convex.evidence.posterior import EvidenceStatus
from crosslearning.convex.evidence.scoring import groups, maximise, promised
from crosslearning.convex.evidence.search import MENTION, ROOM, SMALLEST_RATIO, SearchOptions
from crosslearning.convex.evidence.variance_law import VarianceLaw
from crosslearning.convex.families import Family, Gaussian
from crosslearning.convex.sums.checks import checked_weights
from crosslearning.convex.sums.moments import Moments
from crosslearning.tether import Array, Indices

STRUCTURES = ("auto", "block", "diagonal", "levels", "pooled")
_NO_INFORMATION = 1e-10  # share that rounding may leave


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

    moments: Moments

    @cached_property
    def n_rows(self) -> float:
        return float(self.task_weights @ self.moments.counts)

    def value(self, marginal: NestedMarginal) -> tuple[float, float, float]:
        center, precision = marginal.center, marginal.precision
        v = np.append(-center.beta, 1.0)
        squares = max(float(v @ marginal.total @ v + precision @ center.beta**2), 0.0)
        n_free = max(self.n_rows - center.n_flat, 1.0)
        noise, n_noise = best_noise(self.moments, self.task_weights, squares, n_free)
        logs = marginal.log_det + center.log_det - np.log(precision[~self.flat]).sum()
        logs -= float(self.task_weights @ self.moments.log_weights)
        deviance = n_free * np.log(2.0 * np.pi * noise) + squares / noise
        return float(-0.5 * (deviance + logs)), noise, n_noise


@dataclass(frozen=True, eq=False, kw_only=True)
class NestedOptimum:
    """The best variances of a structure, and the log evidence less a charge for them."""

    structure: str
    point: NestedPoint
    score: float
    n_iter: int
    converged: bool
    law: VarianceLaw

    def fit(self, scores: dict[str, float], dispersion: float | None = None) -> NestedFit:
        """Return variances and posterior."""
        point, marginal = self.point, self.point.marginal
        p, noise = len(marginal.precision), self.point.noise
        flat = np.full(p, np.inf)
        variances = np.divide(noise, marginal.precision, out=flat, where=~point.data.flat)
        noiseless = point.n_noise == np.inf and dispersion is None
        status = EvidenceStatus.NOISELESS if noiseless else EvidenceStatus.CONVERGED
        return NestedFit(
            structure=self.structure,
            hierarchy=marginal.hierarchy,
            noise_variance=noise if dispersion is None else dispersion,
            level_variances=noise * marginal.variances,
            center_variances=variances,
            center=marginal.means[-1][0, :, 0],
            center_covariance=noise * marginal.center.covariance,
            means=[means[:, :, 0] for means in marginal.means[:-1]],
            covariances=[noise * covariances for covariances in marginal.covariances[:-1]],
            gains=marginal.gains,
            log_evidence=point.value,
            scores=scores,
            variance_law=self.law,
            n_iter=self.n_iter,
            status=status if self.converged else EvidenceStatus.MAX_ITER,
        )


class NestedSearch:
    """Search for the variances of every level; arguments are those of `Search`.

    Begins where a task's rows and the others' are worth the same, with equal shares of the levels.
    """

    def __init__(
        self,
        data: NestedData,
        options: SearchOptions,
        *,
        squares: Array,
        mean_squares: Array,
        columns: Indices,
        intercept: bool,
    ) -> None:
        self.data, self.options, self.columns, self.intercept = data, options, columns, intercept
        sizes = np.array(data.hierarchy.sizes)
        self.sizes, n_levels, p = sizes, len(sizes), len(squares)
        none = np.zeros(len(mean_squares), dtype=np.intp)
        self.blocks = none if options.blocks is None else options.blocks
        total = np.bincount(self.blocks, mean_squares)
        size = np.bincount(self.blocks, mean_squares > 0)
        self.ratio = np.divide(size, total, out=np.ones(len(total)), where=total > 0)
        n_tasks = float(data.task_weights.sum())
        each = np.divide(n_tasks, squares, out=np.zeros(p), where=squares > 0) / n_levels
        self.start = np.tile(each, (n_levels, 1))
        self.fixed_ratio = total == 0
        # A level with one unit, or as many as the level below, has nothing to tell.
        alone = (sizes < 2) | np.append(False, sizes[1:] == sizes[:-1])
        self.fixed = np.repeat(alone[:, None], p, axis=1)
        first = self.point("diagonal", self.start)
        for level in range(n_levels):
            self.fixed[level] |= first.informed(level) <= _NO_INFORMATION

    def run(self, structure: str) -> tuple[NestedOptimum, dict[str, float]]:
        """Return the best of a structure, or of all, and the scores of those that were tried."""
        if structure != "auto":
            optimum = self.best(structure, self.start)
            return optimum, {structure: optimum.score}
        best = self.best("block", self.start)
        scores = {"block": best.score}
        start, ratio = best.point.marginal.variances, best.point.variances[-len(self.ratio) :]
        richer = self.point("diagonal", start, ratio)
        floor = np.zeros(len(richer.variances))
        charge = self.charge(richer) - self.charge(best.point)
        if ROOM * promised(richer, floor) > charge:
            diagonal = self.best("diagonal", start, ratio)
            scores["diagonal"] = diagonal.score
            best = diagonal if diagonal.score > best.score + MENTION else best
        return best, scores

    def best(self, structure: str, start: Array, ratio: Array | None = None) -> NestedOptimum:
        """Return the best variances of a structure."""
        first = self.point(structure, start, ratio)
        floor = np.zeros(len(first.variances))
        floor[-len(self.ratio) :] = SMALLEST_RATIO * self.ratio

        def evaluate(moved: Array) -> NestedPoint:
            variances = np.where(first.fixed, first.variances, moved)
            return NestedPoint(variances, first.fixed, first.group, self.data)

        tol, max_iter = self.options.tol, self.options.max_iter
        best, n_iter, converged = maximise(evaluate, first, floor, tol=tol, max_iter=max_iter)
        numbers = best.group[: -len(self.columns)]
        law = VarianceLaw.of(best, numbers, self._units(best), best.noise)
        return NestedOptimum(
            structure=structure,
            point=best,
            score=best.value - self.charge(best),
            n_iter=n_iter,
            converged=converged,
            law=law,
        )

    def point(self, structure: str, start: Array, ratio: Array | None = None) -> NestedPoint:
        """Return where a structure begins."""
        numbers = groups(structure, self.columns, self.blocks, intercept=self.intercept)
        n = int(numbers.max()) + 1
        size = np.bincount(numbers)
        fixed = np.array([np.bincount(numbers, row) == size for row in self.fixed])
        variances = np.array([np.bincount(numbers, row) / size for row in start])
        if structure in ("levels", "pooled"):
            fixed[:, np.arange(n) != (numbers[-1] if self.intercept else n)] = True
            fixed |= structure == "pooled"
        variances[fixed] = 0.0
        levels = [numbers + level * n for level in range(len(self.sizes))]
        group = np.concatenate([*levels, len(levels) * n + self.blocks[self.columns]])
        ratio = self.ratio if ratio is None else ratio
        return NestedPoint(
            np.append(variances, ratio), np.append(fixed, self.fixed_ratio), group, self.data
        )

    def _units(self, point: NestedPoint) -> Array:
        """Return the number of units that each variance is estimated from."""
        n = (len(point.variances) - len(self.ratio)) // len(self.sizes)
        return np.repeat(self.sizes.astype(np.float64), n)

    def charge(self, point: NestedPoint) -> float:
        """½ log of the number of units for each variance."""
        units = self._units(point)
        return float(0.5 * np.log(units) @ ~point.fixed[: len(units)])


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
    data = GaussianLevels(
        products=moments.products,
        task_weights=weights,
        hierarchy=hierarchy,
        flat=flat,
        moments=moments,
    )
    squares = np.einsum("n,njj->j", weights, moments.products)[:-1]
    search = NestedSearch(
        data,
        SearchOptions(covariance, blocks, tol, max_iter),
        squares=squares,
        mean_squares=np.where(flat, 0.0, squares / max(data.n_rows, 1.0)),
        columns=np.arange(moments.n_columns),
        intercept=moments.intercept,
    )
    optimum, scores = search.run(covariance)
    return optimum.fit(scores)


def check_structure(covariance: str) -> None:
    """Refuse structures that groups within groups do not have."""
    if covariance not in STRUCTURES:
        raise ValueError(
            f"`covariance` of groups within groups must be one of {STRUCTURES}; got "
            f"{covariance!r}. Use 'auto'."
        )
