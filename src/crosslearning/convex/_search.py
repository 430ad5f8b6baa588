"""Search for the variances of a structure, and for the structure, by evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import numpy as np

from crosslearning.convex._full_covariance import full_covariance
from crosslearning.convex._scoring import maximise, promised
from crosslearning.convex._structure import CovariancePoint, Structured, groups

if TYPE_CHECKING:
    from collections.abc import Callable

    from crosslearning.convex._arrays import Array, Flags, Indices

_MENTION = 1.0  # log evidence below which a difference is not worth a mention (Kass and Raftery)
_ROOM = 3.0  # gains of a structure in promised gains, at most: slopes see no further than a step
_FREE = 100.0  # variance of the intercepts of separate models, in units of the noise
C = TypeVar("C", bound=CovariancePoint)


@dataclass(frozen=True, eq=False)
class Found(Generic[C]):
    """The best covariance of a structure, and its log evidence less a charge for parameters."""

    structure: str
    point: C
    root: Array
    ratio: Array
    score: float
    n_iter: int
    converged: bool

    @property
    def covariance(self) -> Array:
        """S."""
        return np.diag(self.root**2) if self.root.ndim == 1 else self.root @ self.root.T


@dataclass(frozen=True, eq=False)
class Search(Generic[C]):
    """A model as a function of the covariance of tasks S and the variances t of the centre.

    Parameters
    ----------
    at : callable
        Evaluates the model at a root of S and the t of each parameter.
    columns : array of int of shape (p,)
        Column of each parameter.
    blocks : array of int
        Block of each column, from 0; each has its own t.
    intercept : bool
        Whether the last column is the intercept.
    start : array of shape (p,)
        Variances to begin with.
    ratio, smallest_ratio : array of shape (n_blocks,)
        t to begin with, and its bound.
    fixed : array of bool of shape (p + n_blocks,)
        Parameters whose variance is 0 unless they share it with others; which t stay.
    n_tasks : float
        Number of tasks.
    tol, max_iter
        As in :func:`evidence_fit`.
    """

    at: Callable[[Array, Array], C]
    columns: Indices
    blocks: Indices
    intercept: bool
    start: Array
    ratio: Array
    smallest_ratio: Array
    fixed: Flags
    n_tasks: float
    tol: float
    max_iter: int

    def run(self, covariance: str) -> tuple[Found[C], dict[str, float]]:
        """Return the best of a structure, or of all, and the scores of those that were tried."""
        if covariance != "auto":
            found = self._full() if covariance == "full" else self._grouped(covariance)
            return found, {covariance: found.score}
        tried = [self._grouped("block")]
        # Score tests: a richer structure is tried only if it promises more than its charge.
        if self._promise_of_diagonal(tried[0]) > self._charge(len(tried[0].root)):
            tried.append(self._grouped("diagonal", tried[0]))
        free = np.flatnonzero(tried[-1].root)
        pairs = len(free) * (len(free) - 1) // 2
        if tried[-1].point.promise_of_full(free) > self._charge(pairs):
            tried.append(self._full(tried[-1]))
        best = tried[0]
        for found in tried[1:]:
            best = found if found.score > best.score + _MENTION else best
        return best, {found.structure: found.score for found in tried}

    def _charge(self, n_parameters: int) -> float:
        """½ log N for each parameter: tasks are the sample that variances between them have."""
        return 0.5 * n_parameters * float(np.log(max(self.n_tasks, 1.0)))

    def _promise_of_diagonal(self, block: Found[C]) -> float:
        """Return the gain that the slope at the best block promises, with room for its error."""
        evaluate, variances, floor, _ = self._space("diagonal", block)
        return _ROOM * promised(evaluate(variances), floor)

    def _grouped(self, structure: str, start: Found[C] | None = None) -> Found[C]:
        evaluate, variances, floor, group = self._space(structure, start)
        best, n_iter, converged = maximise(
            evaluate, evaluate(variances), floor, tol=self.tol, max_iter=self.max_iter
        )
        n = int(group.max()) + 1
        score = best.value - self._charge(int(np.count_nonzero(~best.fixed[:n])))
        root = np.sqrt(best.variances[group])
        point = cast("C", best.point)
        return Found(structure, point, root, best.variances[n:], score, n_iter, converged)

    def _space(
        self, structure: str, start: Found[C] | None = None
    ) -> tuple[Callable[[Array], Structured], Array, Array, Indices]:
        """Return the points of a structure, where to begin, the bounds, and who shares what."""
        kind = structure if structure == "diagonal" else "block"
        group = groups(kind, self.columns, self.blocks, intercept=self.intercept)
        size, p = np.bincount(group), len(group)
        n = len(size)
        fixed = np.append(np.bincount(group, self.fixed[:p]) == size, self.fixed[p:])
        own, ratio = (self.start, self.ratio) if start is None else (start.root**2, start.ratio)
        variances = np.append(np.bincount(group, own) / size, ratio)
        variances[:n][fixed[:n]] = 0.0
        self._hold(structure, fixed, variances, int(group[-1]) if self.intercept else n)
        both = np.append(group, n + self.blocks[self.columns])

        def evaluate(moved: Array) -> Structured:
            # What is held stays exactly: a step may move it by rounding errors.
            return Structured(np.where(fixed, variances, moved), fixed, both, self.at)

        return evaluate, variances, np.append(np.zeros(n), self.smallest_ratio), group

    def _hold(self, end: str, fixed: Flags, variances: Array, level: int) -> None:
        """Hold variances where an end has them; the group of intercepts is number `level`."""
        n = len(variances) - len(self.ratio)
        number = np.arange(n)
        if end in ("levels", "pooled"):
            shared = number[(number != level) | (end == "pooled")]
            fixed[shared], variances[shared] = True, 0.0
        elif end == "separate":  # coefficients around 0, and intercepts anywhere
            fixed[n:], variances[n:] = True, self.smallest_ratio
            own = number == level
            fixed[:n][own], variances[:n][own] = True, _FREE

    def _full(self, start: Found[C] | None = None) -> Found[C]:
        start = self._grouped("diagonal") if start is None else start
        n_free = int(np.count_nonzero(start.root))
        root, ratio, n_iter, converged = full_covariance(
            self.at,
            start.root**2,
            start.ratio,
            self.blocks[self.columns],
            fixed_ratio=self.fixed[len(start.root) :],
            tol=self.tol,
            max_iter=self.max_iter,
        )
        point = self.at(root, ratio[self.blocks[self.columns]])
        charge = self._charge(len(start.root) + n_free * (n_free - 1) // 2)
        return Found(
            "full", point, root, ratio, point.value - charge, n_iter + start.n_iter, converged
        )
