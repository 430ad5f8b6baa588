"""Variances at the maximum of the evidence: of a structure, and the structure itself."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize, nnls

from crosslearning.convex.deadline import check_deadline
from crosslearning.convex.evidence.point import EvidencePoint, grouped
from crosslearning.convex.evidence.posterior import EvidenceFit, EvidenceStatus, VarianceLaw
from crosslearning.convex.families import Family, Gaussian
from crosslearning.tether import Array, Flags, Indices

_MENTION = 1.0  # log evidence below which a difference is not worth a mention (Kass and Raftery)
_ROOM = 3.0  # gains of a structure in promised gains, at most: slopes see no further than a step
FREE = 100.0  # variance of the intercepts of separate models, in units of the noise
_SMALLEST_RATIO = 1e-8  # smallest variance of the centre, relative to where the search begins
_LEAST, _MOST = 1e-4, 1e8  # damping, relative to the unit's curvature
_FLAT = 1e-10  # least curvature that a step trusts, relative to that of the unit
_REMEMBERED, _LEAST_BEND = 4, 1e-3  # moves, and curvature along them relative to the expected one
_NEAR = 0.3  # gain, in units of log evidence, from which the observed curvature is used


Point = TypeVar("Point", bound=EvidencePoint, covariant=True)


class SearchOptions(NamedTuple):
    """Structure of the covariance, blocks, tolerance and limit, as in `evidence_fit`."""

    covariance: str = "auto"
    blocks: Indices | None = None
    tol: float = 1e-6
    max_iter: int = 200


@dataclass(frozen=True, eq=False)
class Structured(Generic[Point]):
    """The log evidence as a function of some variances."""

    variances: Array  # of groups of parameters, level by level, then variances t of the centre
    fixed: Flags  # which of these may not move
    group: Indices  # as in `EvidencePoint`
    at: Callable[[Array, Array], Point]  # model at roots of all S in a row and t of each parameter

    @cached_property
    def point(self) -> Point:
        each = self.variances[self.group]
        return self.at(np.sqrt(each[:-1]).ravel(), each[-1])

    @property
    def value(self) -> float:
        """The log evidence; minus infinity where rows leave no noise and S grows without end."""
        try:
            return self.point.value
        except np.linalg.LinAlgError:
            return -np.inf

    @cached_property
    def slope(self) -> Array:
        slopes = map(np.diagonal, self.point.slopes)
        each = np.concatenate([*slopes, self.point.slope_of_ratio])
        slope = np.bincount(self.group.ravel(), each, len(self.variances))
        return np.where(self.fixed, 0.0, slope)

    @cached_property
    def unit(self) -> Array:
        """Inverse of the distance by which a variance has to move to matter."""
        curvature = self._fixed(0.5 * grouped(self.point.expected_parts[0], self.group))
        return np.sqrt(np.maximum(np.diagonal(curvature), np.finfo(np.float64).tiny))

    @cached_property
    def expected(self) -> Array:
        return self._fixed(self.point.expected(self.group) + self._between)

    @cached_property
    def observed(self) -> Array:
        """Observed curvature, which need not be positive."""
        return self._fixed(self.point.observed(self.group) - self._between)

    @cached_property
    def _between(self) -> Array:
        return self.point.between(self.group)

    def _fixed(self, curvature: Array) -> Array:
        fixed = self.fixed[:, None] | self.fixed
        return np.where(fixed, np.diag(self.fixed.astype(np.float64)), curvature)


@dataclass(frozen=True, eq=False, kw_only=True)
class Optimum(Generic[Point]):
    """The best variances of a structure, and their log evidence less a charge for parameters."""

    structure: str
    point: Point
    root: Array  # of S, or of the diagonal S of all levels, one after the other
    ratio: Array
    score: float
    n_iter: int
    converged: bool
    law: Callable[[], VarianceLaw]  # of each parameter's variance

    @property
    def variances(self) -> Array:
        return self.root**2 if self.root.ndim == 1 else np.sum(self.root**2, axis=1)

    def fit(self, family: Family | None = None) -> EvidenceFit:
        """Return variances and posterior; the prior of intercepts counts as flat."""
        point, marginal = self.point, self.point.marginal
        covariances = [np.diag(L**2) if L.ndim == 1 else L @ L.T for L in marginal.roots]
        flat = np.full(len(point.coef), np.inf)
        status = EvidenceStatus.CONVERGED if self.converged else EvidenceStatus.MAX_ITER
        return EvidenceFit(
            structure=self.structure,
            noise_variance=point.dispersion,
            center_variances=np.divide(point.noise, marginal.precision, out=flat, where=point.coef),
            level_covariances=point.noise * np.array(covariances),
            center=point.beta,
            means=[point.thetas, *marginal.means[1:-1]],
            log_evidence=point.value,
            variance_law=self.law(),
            n_iter=self.n_iter,
            status=EvidenceStatus.NOISELESS if point.noiseless else status,
            marginal=marginal,
            unit=point.noise,
            family=Gaussian() if family is None else family,
        )


class Search(Generic[Point]):
    """A model as a function of the variances S of each level, tasks first, and t of the centre.

    Begins with t of each block that explain a target of variance 1, or at an earlier optimum.
    """

    def __init__(
        self,
        at: Callable[[Array, Array], Point],  # evaluates it, as in `Structured`
        options: SearchOptions,
        start: Optimum[Point] | None = None,
        *,
        squares: Array,  # sums over the rows for each parameter
        mean_squares: Array,  # of each column, 0 where the centre has no t
        columns: Indices,  # of each parameter
        intercept: bool,
        sizes: Array,  # numbers of units of each level
        free: float = FREE,  # variance of intercepts of separate models
    ) -> None:
        self.at, self.options, self.free, self.squares = at, options, free, squares
        self.columns, self.intercept, self.sizes = columns, intercept, sizes
        none = np.zeros(len(mean_squares), dtype=np.intp)
        self.blocks = none if options.blocks is None else options.blocks
        self.start: Optimum[Point] | None = None
        total = np.bincount(self.blocks, mean_squares)
        size = np.bincount(self.blocks, mean_squares > 0)
        self.ratio = np.divide(size, total, out=np.ones(len(total)), where=total > 0)
        self.smallest_ratio = _SMALLEST_RATIO * self.ratio
        # Charge for each variance of a level: units are the sample that it is estimated from.
        self._price = 0.5 * np.log(np.maximum(sizes, 1.0))
        # A level with one unit, or as many as the level below, has nothing to tell.
        alone = (self.sizes < 2) | np.append(False, self.sizes[1:] == self.sizes[:-1])
        # Parameters whose variance is 0 unless they share it with others, and t that stay.
        self.fixed = np.repeat(alone[:, None], len(self.squares), axis=1)
        self.fixed_ratio = total == 0
        if not (self.fixed.all() and self.fixed_ratio.all()):
            evaluate, variances, _ = self.space("diagonal")
            self.fixed |= ~evaluate(variances).point.informed
        self.start = start

    def run(self, covariance: str) -> Optimum[Point]:
        if covariance != "auto":
            return self._full() if covariance == "full" else self.best(covariance)
        tried = [self.best("block")]
        # Score tests: a richer structure is tried only if it promises more than its charge.
        evaluate, variances, floor = self.space("diagonal", tried[0])
        richer = evaluate(variances)
        promise = _bounded(richer, richer.expected, floor, 0.0)[1]
        if _ROOM * promise > len(self.columns) * self._price.sum():
            tried.append(self.best("diagonal", tried[0]))
        if len(self.sizes) == 1:
            free = np.flatnonzero(tried[-1].root)
            pairs = len(free) * (len(free) - 1) // 2
            if tried[-1].point.promise_of_full(free) > pairs * self._price[0]:
                tried.append(self._full(tried[-1]))
        return reduce(lambda a, b: b if b.score > a.score + _MENTION else a, tried)

    def best(self, structure: str, start: Optimum[Point] | None = None) -> Optimum[Point]:
        """Return the best variances of a structure, from those of another or where it begins."""
        evaluate, variances, floor = self.space(structure, start)
        tol, max_iter = self.options.tol, self.options.max_iter
        first = evaluate(variances)
        best, n_iter, converged = maximise(evaluate, first, floor, tol=tol, max_iter=max_iter)
        n = int(best.group[:-1].max()) + 1
        charge = float(np.repeat(self._price, n // len(self.sizes)) @ ~best.fixed[:n])
        return Optimum(
            structure=structure,
            point=best.point,
            root=np.sqrt(best.variances[best.group[:-1]]).ravel(),
            ratio=best.variances[-len(self.ratio) :],
            score=best.value - charge,
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
        begin = self.start if start is None else start
        ratio = self.ratio if begin is None else begin.ratio
        if begin is None:
            # A task's rows and the others' weigh alike. Of sums of squares, so that a column of
            # rounding errors beside others does not count.
            squares, count = np.bincount(numbers, self.squares), self.sizes[0] * size
            equal = np.divide(count, squares, out=0.0 * squares, where=squares > 0)
            each = np.tile(equal / len(levels), (len(levels), 1))
        else:
            rows = begin.variances.reshape(self.fixed.shape)
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
        root, ratio, n_iter, converged = full_covariance(self, start)
        point = self.at(root, ratio[blocks])
        n_free = int(np.count_nonzero(start.root))
        charge = self._price[0] * (len(numbers) + n_free * (n_free - 1) // 2)
        variances = root**2 if root.ndim == 1 else np.sum(root**2, axis=1)
        fixed = np.append(self.fixed, self.fixed_ratio)
        group = np.array([numbers, len(numbers) + blocks])
        here = Structured(np.append(variances, ratio), fixed, group, lambda *_: point)
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


def groups(structure: str, columns: Indices, blocks: Indices, *, intercept: bool) -> Indices:
    """Return each parameter's group: its column, or its column's block, with intercepts apart."""
    if structure == "diagonal":
        return columns
    block = blocks[columns]
    level = (columns == columns.max()) & intercept & (columns.max() > 0)
    return np.unique(np.where(level, block.max() + 1, block), return_inverse=True)[1]


def maximise(
    evaluate: Callable[[Array], Structured[Point]],
    start: Structured[Point],
    floor: Array,
    *,
    tol: float,
    max_iter: int,
) -> tuple[Structured[Point], int, bool]:
    """Maximise by damped Newton steps, each the exact solution of a bounded quadratic problem.

    The curvature is the expected one (Fisher scoring) far from the maximum, the observed one near
    it. If that is not positive or leads down, since it leaves out how a mode moves, the expected
    one is corrected by how the slope changed along earlier steps. Returns the best point, the
    number of evaluations, and whether the slope says that it is a maximum.
    """
    best, damping, observing = start, 0.0, True
    moves: list[tuple[Array, Array]] = []
    for n_iter in range(1, max_iter + 1):
        check_deadline()
        curvature = best.expected if observing else _corrected(best.expected, moves)
        step, gain = _bounded(best, curvature, floor, damping)
        near = observing and gain < _NEAR
        if near:
            observing = near = bool(np.linalg.eigvalsh(best.observed)[0] > 0.0)
            curvature = best.observed if near else _corrected(best.expected, moves)
            step, gain = _bounded(best, curvature, floor, damping)
        if gain <= tol:
            return best, n_iter, True
        trial = evaluate(np.maximum(best.variances + step, floor))
        if trial.value > best.value:
            moved = trial.variances - best.variances, best.slope - trial.slope
            moves = [*moves[1 - _REMEMBERED :], moved]
            best, damping = trial, (0.1 * damping if damping > _LEAST else 0.0)
        elif near and damping == 0.0:
            observing = False
        elif damping > _MOST:
            # Value and slope differ by rounding errors.
            return best, n_iter, gain <= 1e4 * tol
        else:
            damping = max(10.0 * damping, _LEAST)
    return best, max_iter, False


def _corrected(curvature: Array, moves: list[tuple[Array, Array]]) -> Array:
    """Make a curvature agree with how much the slope fell along each move (BFGS)."""
    for step, fall in moves:
        expected, bend = curvature @ step, float(step @ fall)
        promise = float(step @ expected)
        if bend > _LEAST_BEND * promise > 0.0:
            along = np.outer(expected, expected) / promise
            curvature = curvature - along + np.outer(fall, fall) / bend
    return curvature


def _bounded(
    point: Structured[Point], curvature: Array, floor: Array, damping: float
) -> tuple[Array, float]:
    """Maximise slope·d - ½ dᵀ(curvature)d where variances + d are at least the floor: d, gain."""
    unit = point.unit
    values, vectors = np.linalg.eigh(curvature / np.outer(unit, unit))
    roots = np.sqrt(np.maximum(np.abs(values), _FLAT) + damping)
    factor, slope = (vectors * roots).T, point.slope / unit
    room = (point.variances - floor) * unit
    moved = nnls(factor, (vectors / roots).T @ slope + factor @ room)[0]
    scaled = moved - room
    gain = float(slope @ scaled - 0.5 * np.sum((factor @ scaled) ** 2))
    return np.where(moved > 0.0, scaled / unit, floor - point.variances), gain


def full_covariance(search: Search[Point], start: Optimum[Point]) -> tuple[Array, Array, int, bool]:
    """Maximise evidence - κ/2 (log det K + tr K⁻¹), where S = D^½ K D^½, by L-BFGS.

    D are the variances of the diagonal structure; κ, the number of parameters plus 1, counts as
    that many tasks that agree with it. Returns a root of S (a vector if S is 0), all t, the number
    of evaluations, and convergence.
    """
    variances, ratio, group = start.root**2, start.ratio, search.blocks[search.columns]
    free = np.flatnonzero(variances > 0)
    n, deviations = len(free), np.sqrt(variances[free])
    if not n:
        return start.root, ratio, 0, True
    rows, columns = np.tril_indices(n)
    on_diagonal, strength = rows == columns, n + 1.0

    def unpacked(x: Array) -> tuple[Array, Array]:
        factor = np.zeros((n, n))
        entries = x[: len(rows)]
        factor[rows, columns] = np.where(on_diagonal, np.exp(entries), entries)
        root = np.zeros((len(variances), len(variances)))
        root[np.ix_(free, free)] = deviations[:, None] * factor
        return factor, root

    def negative(x: Array) -> tuple[float, Array]:
        check_deadline()
        factor, root = unpacked(x)
        t = np.exp(x[len(rows) :])
        point = search.at(root, t[group])
        inverse = solve_triangular(factor, np.eye(n), lower=True)
        prior = -strength * (np.log(np.diagonal(factor)).sum() + 0.5 * np.sum(inverse**2))
        pull = strength * (inverse.T @ inverse - np.eye(n)) @ inverse.T
        slopes = deviations[:, None] * (point.slopes[0] @ root)[np.ix_(free, free)]
        slope = (2.0 * slopes + pull)[rows, columns]
        slope = np.where(on_diagonal, slope * factor[rows, columns], slope)
        by_block = np.bincount(group, point.slope_of_ratio, len(t))
        by_ratio: Array = np.where(search.fixed_ratio, 0.0, by_block * t)
        return -(point.value + prior), -np.append(slope, by_ratio)

    x = np.append(np.zeros(len(rows)), np.log(ratio))
    options = search.options
    limits: Any = {"maxiter": options.max_iter, "gtol": 1e3 * options.tol, "ftol": 1e-12}
    try:
        best = minimize(negative, x, jac=True, method="L-BFGS-B", options=limits)
    except np.linalg.LinAlgError:  # rows leave no noise, and S grows beyond rounding
        return start.root, ratio, 1, True
    ratio = np.exp(best.x[len(rows) :])
    return unpacked(best.x)[1], ratio, int(best.nfev), bool(best.success)
