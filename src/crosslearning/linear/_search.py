"""Search for the best candidate, one axis at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crosslearning.evaluation.choice import best, standard_error
from crosslearning.linear._candidates import Axis, Candidate, Knob, grid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from crosslearning.convex.problem import ConvexProblem
    from crosslearning.linear._folds import Evaluation

__all__ = ["Search"]

_ROUNDS, _LAST_ROUNDS = 2, 10  # of looking around, and along whole axes, where few are needed
_FEW = 3  # every third value is enough for a first look
_KNOBS: dict[str, Knob] = {"ball": "epsilon", "spring": "stiffness", "tension": "tension"}


@dataclass(frozen=True, eq=False)
class Search:
    """A cyclic search: the number of fits grows with the sum of the axes, not their product.

    Parameters
    ----------
    evaluation : Evaluation
        Scores candidates.
    problem : callable
        ConvexProblem on all rows for a ridge strength; tells where the axes end.
    alphas : sequence of float
        Ridge strengths.
    end_alphas : sequence of float
        Ridge strengths of pooled and separate models to compare with.
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
    problem: Callable[[float], ConvexProblem]
    alphas: Sequence[float]
    end_alphas: Sequence[float]
    n_blocks: int
    n_values: int
    smallest: float
    epsilons: Sequence[float] | None
    one_standard_error: bool

    def pooled(self) -> list[Candidate]:
        """Candidates with one model for all."""
        return [Candidate.pooled(alpha, self.n_blocks) for alpha in self.end_alphas]

    def separate(self) -> list[Candidate]:
        """Candidates with separate models."""
        return [Candidate.free(alpha, self.n_blocks) for alpha in self.end_alphas]

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
        return float(self.evaluation.of([candidate]).means[0])

    def path(self, candidate: Candidate, axis: Axis) -> tuple[list[float], NDArray[np.float64]]:
        """Values of an axis and the scores of the folds there, all else as in the candidate."""
        values = sorted({*self._values(axis, candidate), axis.of(candidate)})
        return values, self.evaluation.of([axis.at(candidate, v) for v in values]).by_split

    def _climbed(self, family: str) -> Candidate:
        """Look at few ridge strengths and few values for all blocks together; then climb.

        Where the ridge strength is known, at all radii at once: neighbours are good starts.
        """
        axis = Axis(_KNOBS[family])
        first, *others = dict.fromkeys([*self.alphas[::2], self.alphas[-1]])
        start = Candidate.free(first, self.n_blocks)
        known = not others and self.n_blocks == 1 and family == "ball"
        values = self._values(axis, start) if known else self._some(axis, start)
        candidates = [axis.at(start, value) for value in values]
        for alpha in others:
            start = Candidate.free(alpha, self.n_blocks)
            candidates += [axis.at(start, value) for value in self._some(axis, start)]
        return self._climb(self._best(candidates), [Axis("alpha"), *self._axes(family)])

    def _shared_more(self, leader: Candidate, family: str) -> Candidate:
        """Return the candidate that shares most within a standard error of the best one."""
        enough = self.score(leader) - standard_error(self.evaluation.of([leader]), 0)
        families = ("spring", "ball") if family == "bounded spring" else (family,)
        for axis in [axis for name in families for axis in self._axes(name)]:
            own, known = axis.of(leader), self._values(axis, leader)
            values = _in_order(axis, [*known, *self._around(axis, own, known), own])
            candidates = [axis.at(leader, value) for value in values[: values.index(own) + 1]]
            means = self.evaluation.of(candidates).means
            leader = candidates[int(np.argmax(means >= enough))]
        return leader

    def _axes(self, family: str) -> list[Axis]:
        if self.n_blocks == 1:
            return [Axis(_KNOBS[family])]
        # The intercept first: it is where tasks differ most.
        return [Axis(_KNOBS[family], b) for b in reversed(range(self.n_blocks))]

    def _climb(self, candidate: Candidate, axes: Sequence[Axis]) -> Candidate:
        """Look along each axis, then around the best so far, then along all of some axes.

        The last are the paths that users see: no candidate there is better than the choice.
        """
        grids: dict[Axis, list[float]] = {}
        for axis in axes:
            grids[axis] = self._some(axis, candidate)
            candidate = self._best_of(axis, candidate, grids[axis])
        candidate = self._cycled(
            candidate,
            axes,
            lambda axis, own: self._around(axis, axis.of(own), grids[axis]),
            _ROUNDS,
        )
        seen = [axis for axis in axes if self._is_given(axis) or axis.knob == "epsilon"]
        return self._cycled(candidate, seen, self._values, _LAST_ROUNDS)

    def _cycled(
        self,
        candidate: Candidate,
        axes: Sequence[Axis],
        values: Callable[[Axis, Candidate], Sequence[float]],
        max_rounds: int,
    ) -> Candidate:
        """Improve a candidate along one axis after the other until none helps."""
        for _ in range(max_rounds):
            before = candidate
            for axis in axes:
                candidate = self._best_of(axis, candidate, values(axis, candidate))
            if candidate == before:
                break
        return candidate

    def _best_of(self, axis: Axis, candidate: Candidate, values: Sequence[float]) -> Candidate:
        """Best of a candidate and those with other values on an axis."""
        ordered = _in_order(axis, [*values, axis.of(candidate)])
        return self._best([axis.at(candidate, value) for value in ordered])

    def _some(self, axis: Axis, candidate: Candidate) -> list[float]:
        """Few values of an axis, both ends among them; all if the user gave them."""
        values = self._values(axis, candidate)
        return values if self._is_given(axis) else [*values[:-1:_FEW], values[-1]]

    def _around(self, axis: Axis, own: float, values: Sequence[float]) -> list[float]:
        """Neighbours of a value, and what is half way to them unless the user gave the values."""
        below = max((v for v in values if v < own), default=own)
        above = min((v for v in values if v > own), default=own)
        middle = () if self._is_given(axis) else (math.sqrt(own * v) for v in (below, above))
        return [below, above, *(v for v in middle if 0.0 < v < math.inf)]

    def _is_given(self, axis: Axis) -> bool:
        return axis.knob == "alpha" or (axis.knob == "epsilon" and self.epsilons is not None)

    def _values(self, axis: Axis, candidate: Candidate) -> list[float]:
        if axis.knob == "alpha":
            return sorted(self.alphas, reverse=True)
        if axis.knob == "epsilon" and self.epsilons is not None:
            return sorted(self.epsilons)
        problem = self.problem(candidate.alpha)
        return grid(axis, candidate, problem, self.n_values, self.smallest)

    def _best(self, candidates: Sequence[Candidate]) -> Candidate:
        return candidates[best(self.evaluation.of(candidates))]


def _in_order(axis: Axis, values: Sequence[float]) -> list[float]:
    """Return the values once each, from those that share most to those that share least."""
    return sorted(set(values), reverse=axis.knob != "epsilon")
