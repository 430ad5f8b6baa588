"""Search for the best candidate, one axis at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crosslearning.linear.candidates import Axis, Candidate, Knob, grid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from crosslearning.linear.evaluation import Evaluation
    from crosslearning.linear.fitting import Problem

__all__ = ["Search"]

_ROUNDS = 3
_COARSE = 3  # every third value is enough for a first look
_KNOBS: dict[str, Knob] = {"ball": "epsilon", "spring": "stiffness", "tension": "tension"}


@dataclass(frozen=True, eq=False)
class Search:
    """A cyclic search: the number of fits grows with the sum of the axes, not their product.

    Parameters
    ----------
    evaluation : Evaluation
        Scores candidates.
    problem : callable
        Problem on all rows for a ridge strength; tells where the axes end.
    alphas : sequence of float
        Ridge strengths.
    n_blocks : int
        Number of blocks that have a tether of their own.
    n_values : int
        Values along an axis.
    smallest : float
        Smallest positive radius, as a share of the largest.
    epsilons : sequence of float, optional
        Radii to use in place of those that the data suggest.
    one_standard_error : bool
        Whether to take the first value, in the order of sharing, within a standard error of the
        best.
    """

    evaluation: Evaluation
    problem: Callable[[float], Problem]
    alphas: Sequence[float]
    n_blocks: int
    n_values: int
    smallest: float
    epsilons: Sequence[float] | None
    one_standard_error: bool

    def pooled(self) -> list[Candidate]:
        """Candidates with one model for all."""
        return [Candidate.pooled(alpha, self.n_blocks) for alpha in self.alphas]

    def separate(self) -> list[Candidate]:
        """Candidates with separate models."""
        return [Candidate.free(alpha, self.n_blocks) for alpha in self.alphas]

    def best(self, tether: str) -> tuple[Candidate, str]:
        """Best candidate of a family of tethers, or of all families, and its family."""
        families = ("ball", "spring", "tension") if tether == "auto" else (tether,)
        found = {name: self._climbed(name) for name in families}
        if tether == "auto":
            # A bound and shrinkage: the better of the two, with the other added.
            leader = max((found["ball"], found["spring"]), key=self.score)
            axes = [Axis("alpha"), *self._axes("spring"), *self._axes("ball")]
            found["bounded spring"] = self._climb(leader, axes)
        family = max(found, key=lambda name: self.score(found[name]))
        if self.one_standard_error:
            return self._shared_more(found[family], family), family
        return found[family], family

    def score(self, candidate: Candidate) -> float:
        """Mean score over the folds."""
        return float(self._means([candidate])[0])

    def path(self, candidate: Candidate, axis: Axis) -> tuple[list[float], NDArray[np.float64]]:
        """Values of an axis and the scores of the folds there, all else as in the candidate."""
        own: tuple[float, ...] = getattr(candidate, axis.knob)
        values = sorted({*self._values(axis, candidate), own[axis.block or 0]})
        return values, self.evaluation.fold_scores([axis.at(candidate, v) for v in values])

    def _climbed(self, family: str) -> Candidate:
        """Look at all ridge strengths with few values for all blocks together; then climb."""
        axis = Axis(_KNOBS[family])
        candidates: list[Candidate] = []
        for start in self.separate():
            values = self._values(axis, start)
            few = [*values[:-1:_COARSE], values[-1]] if self.epsilons is None else values
            candidates += [axis.at(start, value) for value in few]
        return self._climb(self._best(candidates), [Axis("alpha"), *self._axes(family)])

    def _shared_more(self, best: Candidate, family: str) -> Candidate:
        """Return the candidate that shares most within a standard error of the best one."""
        scores = self.evaluation.fold_scores([best])[0]
        scores = scores[np.isfinite(scores)]
        error = scores.std(ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else 0.0
        enough = self.score(best) - error
        families = ("spring", "ball") if family == "bounded spring" else (family,)
        for axis in [axis for name in families for axis in self._axes(name)]:
            candidates = [axis.at(best, value) for value in self._values(axis, best)]
            for candidate, mean in zip(candidates, self._means(candidates), strict=True):
                if mean >= enough:
                    best = candidate
                    break
        return best

    def _axes(self, family: str) -> list[Axis]:
        if self.n_blocks == 1:
            return [Axis(_KNOBS[family])]
        # The intercept first: it is where tasks differ most.
        return [Axis(_KNOBS[family], b) for b in reversed(range(self.n_blocks))]

    def _climb(self, candidate: Candidate, axes: Sequence[Axis]) -> Candidate:
        for _ in range(_ROUNDS):
            before = candidate
            for axis in axes:
                candidate = self._sweep(candidate, axis)
            if candidate == before:
                break
        return candidate

    def _sweep(self, candidate: Candidate, axis: Axis) -> Candidate:
        return self._best([axis.at(candidate, v) for v in self._values(axis, candidate)])

    def _values(self, axis: Axis, candidate: Candidate) -> list[float]:
        if axis.knob == "alpha":
            return sorted(self.alphas, reverse=True)
        if axis.knob == "epsilon" and self.epsilons is not None:
            return sorted(self.epsilons)
        problem = self.problem(candidate.alpha)
        return grid(axis, candidate, problem, self.n_values, self.smallest)

    def _best(self, candidates: Sequence[Candidate]) -> Candidate:
        return candidates[int(self._means(candidates).argmax())]

    def _means(self, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
        """Mean scores over the folds that have one."""
        scores = self.evaluation.fold_scores(candidates)
        known = np.isfinite(scores)
        if not known.any():
            raise ValueError("`scoring` gives no score for any task. Choose another scorer.")
        count = np.maximum(known.sum(axis=1), 1)
        means = np.where(known, scores, 0.0).sum(axis=1) / count
        return np.where(known.any(axis=1), means, -np.inf)
