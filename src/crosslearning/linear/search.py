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
            # A bound and shrinkage: each of the two, with the other added.
            axes = [*self._axes("spring"), *self._axes("ball")]
            leader = max((found["ball"], found["spring"]), key=self.score)
            found["bounded spring"] = self._climb(leader, [*axes, Axis("alpha")])
        family = max(found, key=lambda name: self.score(found[name]))
        return found[family], family

    def score(self, candidate: Candidate) -> float:
        """Mean score over the folds."""
        return float(self.evaluation.fold_scores([candidate]).mean())

    def path(self, candidate: Candidate, axis: Axis) -> tuple[list[float], NDArray[np.float64]]:
        """Values of an axis and the scores of the folds there, all else as in the candidate."""
        values = self._values(axis, candidate)
        return values, self.evaluation.fold_scores([axis.at(candidate, v) for v in values])

    def _climbed(self, family: str) -> Candidate:
        """Best of all ridge strengths with one value for all blocks; then block by block."""
        candidates: list[Candidate] = []
        for start in self.separate():
            axis = Axis(_KNOBS[family])
            candidates += [axis.at(start, value) for value in self._values(axis, start)]
        best = self._best(candidates)
        if self.n_blocks == 1:
            return best
        return self._climb(best, [*self._axes(family), Axis("alpha")])

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
        values = self._values(axis, candidate)
        candidates = [axis.at(candidate, value) for value in values]
        if candidate not in candidates and not self.one_standard_error:
            candidates.append(candidate)
        return self._best(candidates)

    def _values(self, axis: Axis, candidate: Candidate) -> list[float]:
        if axis.knob == "alpha":
            return sorted(self.alphas, reverse=True)
        if axis.knob == "epsilon" and self.epsilons is not None:
            return sorted(self.epsilons)
        problem = self.problem(candidate.alpha)
        return grid(axis, candidate, problem, self.n_values, self.smallest)

    def _best(self, candidates: Sequence[Candidate]) -> Candidate:
        scores = self.evaluation.fold_scores(candidates)
        mean = scores.mean(axis=1)
        if not self.one_standard_error:
            return candidates[int(mean.argmax())]
        top = int(mean.argmax())
        error = scores[top].std(ddof=1) / np.sqrt(scores.shape[1])
        return candidates[int(np.flatnonzero(mean >= mean[top] - error)[0])]
