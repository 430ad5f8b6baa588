"""Search for the best tether and ridge strength, one axis at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crosslearning.evaluation.scores import best, standard_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crosslearning.convex.solver.problem import ConvexProblem
    from crosslearning.linear._folds import Evaluation
    from crosslearning.tether import Array

_ROUNDS, _LAST_ROUNDS = 2, 10  # of refinement, and of searches along whole axes
_FEW = 3  # every third value is enough for a first look
_STRENGTHS = (1e-3, 1e3)  # of springs, in curvatures of a typical task
_TENSIONS = 1e-3  # smallest tension, as a share of one that makes all tasks the centre
_AXES: dict[str, tuple[str, ...]] = {
    "ball": ("epsilon",),
    "spring": ("stiffness",),
    "tension": ("tension",),
    "bounded spring": ("stiffness", "epsilon"),
}


class Candidate(NamedTuple):
    """A ridge strength and a tether."""

    alpha: float
    epsilon: float = math.inf
    stiffness: float = 0.0
    tension: float = 0.0

    def at(self, axis: str, value: float) -> Candidate:
        """Return the candidate with another value on an axis."""
        return self._replace(**{axis: value})


@dataclass(frozen=True, eq=False)
class Search:
    """Coordinate search: the number of fits grows with the sum of the axes, not the product."""

    evaluation: Evaluation
    problem: Callable[[float], ConvexProblem]  # on all rows; determines the ends of the axes
    alphas: Sequence[float]
    n_values: int  # along an axis
    smallest: float  # positive radius, as a fraction of the largest
    epsilons: Sequence[float] | None  # overrides the grid from the data
    one_standard_error: bool

    def best(self, tether: str) -> tuple[Candidate, str]:
        """Best candidate of a family of tethers, or of all families, and its family."""
        families = ("ball", "spring", "tension") if tether == "auto" else (tether,)
        leaders = {name: self._climbed(name) for name in families}
        if tether == "auto":
            # Bound and spring: the better of the two, with the other added.
            leader = max((leaders["ball"], leaders["spring"]), key=self.score)
            leaders["bounded spring"] = self._climb(leader, _AXES["bounded spring"])
        family = max(leaders, key=lambda name: self.score(leaders[name]))
        if self.one_standard_error:
            return self._shared_more(leaders[family], family), family
        return leaders[family], family

    def score(self, candidate: Candidate) -> float:
        """Mean score over the folds."""
        return float(self.evaluation.of([candidate]).means[0])

    def path(self, candidate: Candidate) -> tuple[Array, Array]:
        """Radii, and the scores of the folds there with all else as in the candidate."""
        values = sorted({*self._values("epsilon", candidate), candidate.epsilon})
        scores = self.evaluation.of([candidate.at("epsilon", v) for v in values])
        return np.array(values), scores.by_split

    def _climbed(self, family: str) -> Candidate:
        """Search a coarse grid, with both ends of the axis for every ridge strength; then climb."""
        (axis,) = _AXES[family]
        coarse = {*self.alphas[::2], self.alphas[-1]}
        candidates = []
        for start in map(Candidate, self.alphas):
            values = self._some(axis, start)
            tried = values if start.alpha in coarse else [values[0], values[-1]]
            candidates += [start.at(axis, value) for value in tried]
        return self._climb(self._best(candidates), (axis,))

    def _climb(self, candidate: Candidate, knobs: Sequence[str]) -> Candidate:
        """Search each axis, refine around the best, and search the axes of the public path."""
        axes, grids = ("alpha", *knobs), {}
        for axis in axes:
            grids[axis] = self._some(axis, candidate)
            candidate = self._best_of(axis, candidate, grids[axis])

        def around(axis: str, at: Candidate) -> list[float]:
            return self._around(axis, getattr(at, axis), grids[axis])

        candidate = self._cycled(candidate, axes, around, _ROUNDS)
        searched = [axis for axis in axes if self._is_fixed(axis) or axis == "epsilon"]
        return self._cycled(candidate, searched, self._values, _LAST_ROUNDS)

    def _cycled(
        self,
        candidate: Candidate,
        axes: Sequence[str],
        values: Callable[[str, Candidate], Sequence[float]],
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

    def _shared_more(self, leader: Candidate, family: str) -> Candidate:
        """Return the candidate that shares most within one standard error of the best."""
        enough = self.score(leader) - standard_error(self.evaluation.of([leader]), 0)
        for axis in _AXES[family]:
            chosen, grid = getattr(leader, axis), self._values(axis, leader)
            values = _in_order(axis, [*grid, *self._around(axis, chosen, grid), chosen])
            candidates = [leader.at(axis, value) for value in values[: values.index(chosen) + 1]]
            means = self.evaluation.of(candidates).means
            leader = candidates[int(np.argmax(means >= enough))]
        return leader

    def _best_of(self, axis: str, candidate: Candidate, values: Sequence[float]) -> Candidate:
        """Best of a candidate and those with other values on an axis."""
        ordered = _in_order(axis, [*values, getattr(candidate, axis)])
        return self._best([candidate.at(axis, value) for value in ordered])

    def _best(self, candidates: Sequence[Candidate]) -> Candidate:
        return candidates[best(self.evaluation.of(candidates))]

    def _some(self, axis: str, candidate: Candidate) -> list[float]:
        """Few values of an axis, both ends among them; all if the user gave them."""
        values = self._values(axis, candidate)
        return values if self._is_fixed(axis) else [*values[:-1:_FEW], values[-1]]

    def _around(self, axis: str, value: float, values: Sequence[float]) -> list[float]:
        """Neighbours of a value, and what is half way to them unless the user gave the values."""
        below = max((v for v in values if v < value), default=value)
        above = min((v for v in values if v > value), default=value)
        middle = () if self._is_fixed(axis) else (math.sqrt(value * v) for v in (below, above))
        return [below, above, *(v for v in middle if 0.0 < v < math.inf)]

    def _is_fixed(self, axis: str) -> bool:
        return axis == "alpha" or (axis == "epsilon" and self.epsilons is not None)

    def _values(self, axis: str, candidate: Candidate) -> list[float]:
        """Return the values of an axis, from most to least sharing."""
        if axis == "alpha":
            return sorted(self.alphas, reverse=True)
        if axis == "epsilon" and self.epsilons is not None:
            return sorted(self.epsilons)
        problem = self.problem(candidate.alpha)
        if axis == "epsilon":
            end = problem.end(problem.coupling(*candidate[1:]), 0)
            return radii(end, self.n_values, self.smallest)
        if axis == "stiffness":
            low, high = np.median(problem.loss.curvature) * np.array(_STRENGTHS)
        else:
            high = float(np.linalg.norm(problem.pooled.forces, axis=1).max()) or 1.0
            low = _TENSIONS * high
        return [*np.geomspace(high, low, self.n_values).tolist(), 0.0]


def _in_order(axis: str, values: Sequence[float]) -> list[float]:
    """Return distinct values, from most to least sharing."""
    return sorted(set(values), reverse=axis != "epsilon")


def radii(end: float, n_epsilons: int, smallest: float) -> list[float]:
    """Return 0, a geometric sequence up to the largest useful radius, and infinity."""
    if not (n_epsilons >= 2 and 0 < smallest < 1):
        raise ValueError(
            "`n_epsilons` must be at least 2 and `smallest` between 0 and 1; got "
            f"{n_epsilons!r} and {smallest!r}."
        )
    if end <= 0:
        return [0.0, np.inf]
    return [0.0, *np.geomspace(smallest * end, end, n_epsilons).tolist(), np.inf]
