"""Search for the variances of a structure, and for the structure, by evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from crosslearning.convex.evidence._full_covariance import full_covariance
from crosslearning.convex.evidence._point import VariancePoint
from crosslearning.convex.evidence.posterior import EvidenceFit, EvidenceStatus
from crosslearning.convex.evidence.scoring import Structured, groups, maximise, promised
from crosslearning.convex.evidence.variance_law import VarianceLaw
from crosslearning.tether import Array, Flags, Indices

MENTION = 1.0  # log evidence below which a difference is not worth a mention (Kass and Raftery)
ROOM = 3.0  # gains of a structure in promised gains, at most: slopes see no further than a step
_FREE = 100.0  # variance of the intercepts of separate models, in units of the noise
SMALLEST_RATIO = 1e-8  # smallest variance of the centre, relative to where the search begins


class SearchOptions(NamedTuple):
    """Structure of the covariance, blocks, tolerance and limit, as in `evidence_fit`."""

    covariance: str
    blocks: Indices | None
    tol: float
    max_iter: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Optimum:
    """The best covariance of a structure, and its log evidence less a charge for parameters."""

    structure: str
    point: VariancePoint
    root: Array
    ratio: Array
    score: float
    n_iter: int
    converged: bool
    law: Callable[[], VarianceLaw]  # of each parameter's variance

    @property
    def covariance(self) -> Array:
        return np.diag(self.root**2) if self.root.ndim == 1 else self.root @ self.root.T

    def fit(self, scores: dict[str, float]) -> EvidenceFit:
        """Return variances and posterior, with the scores of all structures that were tried."""
        point, flat = self.point, np.full(len(self.point.precision), np.inf)
        return EvidenceFit(
            structure=self.structure,
            noise_variance=point.dispersion,
            task_covariance=point.noise * self.covariance,
            center_variances=np.divide(
                point.noise, point.precision, out=flat, where=point.precision > 0
            ),
            center=point.beta,
            center_covariance=point.noise * point.center.covariance,
            thetas=point.thetas,
            log_evidence=point.value,
            scores=scores,
            variance_law=self.law(),
            n_iter=self.n_iter,
            status=EvidenceStatus.CONVERGED if self.converged else EvidenceStatus.MAX_ITER,
        )


class Search:
    """A model as a function of the covariance of tasks S and the variances t of the centre.

    `at` evaluates it at a root of S and the t of each parameter. `squares` are sums over the rows
    for each parameter, `mean_squares` means for each column, 0 where the centre has no t;
    `task_weights` are 0 for tasks without rows, and `columns` tell the column of each parameter.
    Begins where a task's own rows and the others' are worth the same, with t of each block that
    explain a target of variance 1, unless `start`, by parameter, and `ratio` are changed before
    `run`, as may be `free`, the variance of the intercepts of separate models.
    """

    def __init__(
        self,
        at: Callable[[Array, Array], VariancePoint],
        options: SearchOptions,
        *,
        squares: Array,
        mean_squares: Array,
        task_weights: Array,
        columns: Indices,
        intercept: bool,
    ) -> None:
        p, n_columns = len(squares), len(mean_squares)
        self.at, self.columns, self.intercept, self.options = at, columns, intercept, options
        none = np.zeros(n_columns, dtype=np.intp)
        self.blocks = none if options.blocks is None else options.blocks
        self.n_tasks = float(task_weights.sum())
        self.squares = squares
        self.start: Array | None = None
        self.free = _FREE
        total = np.bincount(self.blocks, mean_squares)
        size = np.bincount(self.blocks, mean_squares > 0)
        self.ratio = np.divide(size, total, out=np.ones(len(total)), where=total > 0)
        self.smallest_ratio = SMALLEST_RATIO * self.ratio
        # Parameters whose variance is 0 unless they share it with others, and t that stay.
        self.fixed = np.append(np.full(p, np.count_nonzero(task_weights) < 2), total == 0)
        if not self.fixed.all():
            first = at(np.sqrt(self._equal(np.arange(p))), self.ratio[self.blocks[columns]])
            self.fixed[:p] |= ~first.informed

    def run(self, covariance: str) -> tuple[Optimum, dict[str, float]]:
        """Return the best of a structure, or of all, and the scores of those that were tried."""
        if covariance != "auto":
            optimum = self._full() if covariance == "full" else self._grouped(covariance)
            return optimum, {covariance: optimum.score}
        tried = [self._grouped("block")]
        # Score tests: a richer structure is tried only if it promises more than its charge.
        evaluate, variances, floor, group = self._space("diagonal", tried[0])
        if ROOM * promised(evaluate(variances), floor) > self._charge(len(group)):
            tried.append(self._grouped("diagonal", tried[0]))
        free = np.flatnonzero(tried[-1].root)
        pairs = len(free) * (len(free) - 1) // 2
        if tried[-1].point.promise_of_full(free) > self._charge(pairs):
            tried.append(self._full(tried[-1]))
        best = tried[0]
        for richer in tried[1:]:
            best = richer if richer.score > best.score + MENTION else best
        return best, {optimum.structure: optimum.score for optimum in tried}

    def _charge(self, n_parameters: int) -> float:
        """½ log N for each parameter: tasks are the sample that variances between them have."""
        return 0.5 * n_parameters * float(np.log(max(self.n_tasks, 1.0)))

    def _grouped(self, structure: str, start: Optimum | None = None) -> Optimum:
        evaluate, variances, floor, group = self._space(structure, start)
        tol, max_iter = self.options.tol, self.options.max_iter
        first = evaluate(variances)
        best, n_iter, converged = maximise(evaluate, first, floor, tol=tol, max_iter=max_iter)
        n = int(group.max()) + 1
        score = best.value - self._charge(int(np.count_nonzero(~best.fixed[:n])))
        root, ratio = np.sqrt(best.variances[group]), best.variances[n:]
        return Optimum(
            structure=structure,
            point=best.point,
            root=root,
            ratio=ratio,
            score=score,
            n_iter=n_iter,
            converged=converged,
            law=partial(VarianceLaw.of, best, group, self.n_tasks, best.point.noise),
        )

    def _space(
        self, structure: str, start: Optimum | None = None
    ) -> tuple[Callable[[Array], Structured], Array, Array, Indices]:
        """Return the points of a structure, where to begin, the bounds, and who shares what."""
        group = groups(structure, self.columns, self.blocks, intercept=self.intercept)
        size, p = np.bincount(group), len(group)
        n = len(size)
        fixed = np.append(np.bincount(group, self.fixed[:p]) == size, self.fixed[p:])
        begin, ratio = (self.start, self.ratio) if start is None else (start.root**2, start.ratio)
        each = self._equal(group) if begin is None else np.bincount(group, begin) / size
        variances = np.append(each, ratio)
        variances[:n][fixed[:n]] = 0.0
        self._hold(structure, fixed, variances, int(group[-1]) if self.intercept else n)
        both = np.append(group, n + self.blocks[self.columns])

        def evaluate(moved: Array) -> Structured:
            # What is held stays exactly: a step may move it by rounding errors.
            return Structured(np.where(fixed, variances, moved), fixed, both, self.at)

        return evaluate, variances, np.append(np.zeros(n), self.smallest_ratio), group

    def _equal(self, group: Indices) -> Array:
        """Return the variance of each group with which a task's rows and the others' weigh alike.

        That of its sum of squares: a column of rounding errors beside others is of no account.
        """
        squares = np.bincount(group, self.squares)
        count = self.n_tasks * np.bincount(group)
        return np.asarray(np.divide(count, squares, out=0.0 * squares, where=squares > 0))

    def _hold(self, end: str, fixed: Flags, variances: Array, level: int) -> None:
        """Hold variances where an end has them; the group of intercepts is number `level`."""
        n = len(variances) - len(self.ratio)
        number = np.arange(n)
        if end in ("levels", "pooled"):
            shared = number[(number != level) | (end == "pooled")]
            fixed[shared], variances[shared] = True, 0.0
        elif end == "separate":  # coefficients around 0, and intercepts anywhere
            fixed[n:], variances[n:] = True, self.smallest_ratio
            intercepts = number == level
            fixed[:n][intercepts], variances[:n][intercepts] = True, self.free

    def _full(self, start: Optimum | None = None) -> Optimum:
        start = self._grouped("diagonal") if start is None else start
        n_free, group = int(np.count_nonzero(start.root)), self.blocks[self.columns]
        root, ratio, n_iter, converged = full_covariance(
            self.at,
            start.root**2,
            start.ratio,
            group,
            fixed_ratio=self.fixed[len(start.root) :],
            tol=self.options.tol,
            max_iter=self.options.max_iter,
        )
        point = self.at(root, ratio[group])
        score = point.value - self._charge(len(start.root) + n_free * (n_free - 1) // 2)
        number = np.arange(len(start.root))
        variances = root**2 if root.ndim == 1 else np.einsum("jk,jk->j", root, root)
        both = np.append(number, len(number) + group)
        here = Structured(np.append(variances, ratio), self.fixed, both, lambda *_: point)
        return Optimum(
            structure="full",
            point=point,
            root=root,
            ratio=ratio,
            score=score,
            n_iter=n_iter + start.n_iter,
            converged=converged,
            law=partial(VarianceLaw.of, here, number, self.n_tasks, point.noise),
        )
