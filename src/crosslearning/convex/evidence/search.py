"""Search for the variances of a structure, and for the structure, by evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, cast

import numpy as np

from crosslearning.convex.evidence._point import VariancePoint
from crosslearning.convex.evidence.posterior import EvidenceFit, EvidenceStatus
from crosslearning.convex.evidence.scoring import (
    Point,
    Structured,
    full_covariance,
    groups,
    maximise,
    promised,
)
from crosslearning.convex.evidence.variance_law import VarianceLaw
from crosslearning.tether import Array, Flags, Indices

_MENTION = 1.0  # log evidence below which a difference is not worth a mention (Kass and Raftery)
_ROOM = 3.0  # gains of a structure in promised gains, at most: slopes see no further than a step
_FREE = 100.0  # variance of the intercepts of separate models, in units of the noise
_SMALLEST_RATIO = 1e-8  # smallest variance of the centre, relative to where the search begins


class SearchOptions(NamedTuple):
    """Structure of the covariance, blocks, tolerance and limit, as in `evidence_fit`."""

    covariance: str = "auto"
    blocks: Indices | None = None
    tol: float = 1e-6
    max_iter: int = 200


class Parameters(NamedTuple):
    """What a search begins with.

    `squares` are sums over the rows for each parameter, `mean_squares` means for each column, 0
    where the centre has no t, and `columns` tell the column of each parameter.
    """

    squares: Array
    mean_squares: Array
    columns: Indices
    intercept: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Optimum(Generic[Point]):
    """The best variances of a structure, and their log evidence less a charge for parameters.

    `root` is that of S, or of the diagonal S of all levels, one after the other.
    """

    structure: str
    point: Point
    root: Array
    ratio: Array
    score: float
    n_iter: int
    converged: bool
    law: Callable[[], VarianceLaw]  # of each parameter's variance

    @property
    def covariance(self) -> Array:
        return np.diag(self.root**2) if self.root.ndim == 1 else self.root @ self.root.T

    @property
    def center_variances(self) -> Array:
        """Variances of the prior of the centre, infinite where it is flat."""
        noise, precision = self.point.noise, self.point.precision
        flat = np.full(len(precision), np.inf)
        return np.asarray(np.divide(noise, precision, out=flat, where=precision > 0))

    def results(self, scores: dict[str, float]) -> dict[str, Any]:
        """Return what fits of one level and of several have in common."""
        return {
            "structure": self.structure,
            "center_covariance": self.point.noise * self.point.center.covariance,
            "log_evidence": self.point.value,
            "scores": scores,
            "variance_law": self.law(),
            "n_iter": self.n_iter,
            "status": EvidenceStatus.CONVERGED if self.converged else EvidenceStatus.MAX_ITER,
        }


def evidence_of(optimum: Optimum[VariancePoint], scores: dict[str, float]) -> EvidenceFit:
    """Return variances and posterior, with the scores of all structures that were tried."""
    point = optimum.point
    return EvidenceFit(
        noise_variance=point.dispersion,
        task_covariance=point.noise * optimum.covariance,
        center_variances=optimum.center_variances,
        center=point.beta,
        thetas=point.thetas,
        **optimum.results(scores),
    )


class Search(Generic[Point]):
    """A model as a function of the variances S of each level, tasks first, and t of the centre.

    `at` evaluates it at roots of S and the t of each parameter. `sizes` are numbers of units, and
    levels `alone` have no variance that could be told from another.
    Begins where a task's own rows and the others' are worth the same, with t of each block that
    explain a target of variance 1, unless `start`, by parameter, and `ratio` are changed before
    `run`, as may be `free`, the variance of the intercepts of separate models.
    """

    def __init__(
        self,
        at: Callable[[Array, Array], Point],
        options: SearchOptions,
        parameters: Parameters,
        *,
        sizes: Array,
        alone: Flags,
    ) -> None:
        self.at, self.options, self.sizes = at, options, sizes
        self.squares, mean_squares, self.columns, self.intercept = parameters
        none = np.zeros(len(mean_squares), dtype=np.intp)
        self.blocks = none if options.blocks is None else options.blocks
        self.start: Array | None = None
        self.free = _FREE
        total = np.bincount(self.blocks, mean_squares)
        size = np.bincount(self.blocks, mean_squares > 0)
        self.ratio = np.divide(size, total, out=np.ones(len(total)), where=total > 0)
        self.smallest_ratio = _SMALLEST_RATIO * self.ratio
        # Parameters whose variance is 0 unless they share it with others, and t that stay.
        self.fixed = np.repeat(alone[:, None], len(self.squares), axis=1)
        self.fixed_ratio = total == 0
        if not (self.fixed.all() and self.fixed_ratio.all()):
            evaluate, variances, _ = self.space("diagonal")
            self.fixed |= ~evaluate(variances).point.informed.reshape(self.fixed.shape)

    def run(self, covariance: str) -> tuple[Optimum[Point], dict[str, float]]:
        """Return the best of a structure, or of all, and the scores of those that were tried."""
        if covariance != "auto":
            optimum = self._full() if covariance == "full" else self.best(covariance)
            return optimum, {covariance: optimum.score}
        tried = [self.best("block")]
        # Score tests: a richer structure is tried only if it promises more than its charge, of one
        # level for all of its variances, of several for those that are new.
        evaluate, variances, floor = self.space("diagonal", tried[0])
        richer, charge = evaluate(variances), len(self.columns) * self._price[0]
        if len(self.sizes) > 1:
            charge = self._charge(richer) - (tried[0].point.value - tried[0].score)
        if _ROOM * promised(richer, floor) > charge:
            tried.append(self.best("diagonal", tried[0]))
        point = tried[-1].point
        if isinstance(point, VariancePoint):
            free = np.flatnonzero(tried[-1].root)
            pairs = len(free) * (len(free) - 1) // 2
            if point.promise_of_full(free) > pairs * self._price[0]:
                tried.append(self._full(tried[-1]))
        best = tried[0]
        for other in tried[1:]:
            best = other if other.score > best.score + _MENTION else best
        return best, {optimum.structure: optimum.score for optimum in tried}

    @property
    def _price(self) -> Array:
        """½ log N for each variance of a level: units are the sample that it is estimated from."""
        return np.asarray(0.5 * np.log(np.maximum(self.sizes, 1.0)))

    def _charge(self, at: Structured[Point]) -> float:
        n = int(at.group[:-1].max()) + 1
        return float(np.repeat(self._price, n // len(self.sizes)) @ ~at.fixed[:n])

    def best(self, structure: str, start: Optimum[Point] | None = None) -> Optimum[Point]:
        """Return the best variances of a structure, from those of another or where it begins."""
        evaluate, variances, floor = self.space(structure, start)
        tol, max_iter = self.options.tol, self.options.max_iter
        best, n_iter, converged = maximise(
            evaluate, evaluate(variances), floor, tol=tol, max_iter=max_iter
        )
        return Optimum(
            structure=structure,
            point=best.point,
            root=np.sqrt(best.variances[best.group[:-1]]).ravel(),
            ratio=best.variances[-len(self.ratio) :],
            score=best.value - self._charge(best),
            n_iter=n_iter,
            converged=converged,
            law=partial(VarianceLaw.of, best, self.sizes),
        )

    def space(
        self, structure: str, start: Optimum[Point] | None = None
    ) -> tuple[Callable[[Array], Structured[Point]], Array, Array]:
        """Return the points of a structure, where to begin, and the bounds."""
        numbers = groups(structure, self.columns, self.blocks, intercept=self.intercept)
        size, levels = np.bincount(numbers), range(len(self.sizes))
        n = len(size)
        fixed = np.array([np.bincount(numbers, row) == size for row in self.fixed])
        begin, ratio = (self.start, self.ratio) if start is None else (start.root**2, start.ratio)
        if begin is None:
            each = np.tile(self._equal(numbers) / len(levels), (len(levels), 1))
        else:
            rows = begin.reshape(self.fixed.shape)
            each = np.array([np.bincount(numbers, row) / size for row in rows])
        each[fixed] = 0.0
        held, variances = np.append(fixed, self.fixed_ratio), np.append(each, ratio)
        self._hold(structure, held, variances, int(numbers[-1]) if self.intercept else n)
        group = np.array(
            [*(numbers + level * n for level in levels), fixed.size + self.blocks[self.columns]]
        )

        def evaluate(moved: Array) -> Structured[Point]:
            # What is held stays exactly: a step may move it by rounding errors.
            return Structured(np.where(held, variances, moved), held, group, self.at)

        return evaluate, variances, np.append(np.zeros(fixed.size), self.smallest_ratio)

    def _equal(self, group: Indices) -> Array:
        """Return the variance of each group with which a task's rows and the others' weigh alike.

        That of its sum of squares: a column of rounding errors beside others is of no account.
        """
        squares = np.bincount(group, self.squares)
        count = self.sizes[0] * np.bincount(group)
        return np.asarray(np.divide(count, squares, out=0.0 * squares, where=squares > 0))

    def _hold(self, end: str, fixed: Flags, variances: Array, intercepts: int) -> None:
        """Hold variances where an end has them; `intercepts` is their group."""
        n = len(variances) - len(self.ratio)
        number = np.arange(n) % (n // len(self.sizes))
        if end in ("levels", "pooled"):
            shared = np.flatnonzero((number != intercepts) | (end == "pooled"))
            fixed[shared], variances[shared] = True, 0.0
        elif end == "separate":  # coefficients around 0, and intercepts anywhere
            fixed[n:], variances[n:] = True, self.smallest_ratio
            free = np.flatnonzero(number == intercepts)
            fixed[free], variances[free] = True, self.free

    def _full(self, start: Optimum[Point] | None = None) -> Optimum[Point]:
        start = self.best("diagonal") if start is None else start
        numbers, blocks = np.arange(len(start.root)), self.blocks[self.columns]
        root, ratio, n_iter, converged = full_covariance(
            cast("Callable[[Array, Array], VariancePoint]", self.at),
            start.root**2,
            start.ratio,
            blocks,
            fixed_ratio=self.fixed_ratio,
            tol=self.options.tol,
            max_iter=self.options.max_iter,
        )
        point = self.at(root, ratio[blocks])
        n_free = int(np.count_nonzero(start.root))
        charge = self._price[0] * (len(numbers) + n_free * (n_free - 1) // 2)
        variances = root**2 if root.ndim == 1 else np.einsum("jk,jk->j", root, root)
        here = Structured(
            np.append(variances, ratio),
            np.append(self.fixed, self.fixed_ratio),
            np.array([numbers, len(numbers) + blocks]),
            lambda *_: point,
        )
        return Optimum(
            structure="full",
            point=point,
            root=root,
            ratio=ratio,
            score=point.value - charge,
            n_iter=n_iter + start.n_iter,
            converged=converged,
            law=partial(VarianceLaw.of, here, self.sizes),
        )
