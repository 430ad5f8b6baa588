"""Settings that compete in a cross-validation, and the axes along which they are searched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from crosslearning.convex._tethers import BlockTethers
from crosslearning.convex.blocks import BLOCKS, block_slices
from crosslearning.linear.path import radii
from crosslearning.tether import Tether

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crosslearning.convex import blocks as _blocks
    from crosslearning.convex.problem import ConvexProblem

__all__ = ["Axis", "Candidate", "Knob", "grid"]

Knob = Literal["alpha", "epsilon", "stiffness", "tension"]

_STRENGTHS = (1e-3, 1e3)  # of springs, in curvatures of a typical task
_TENSIONS = 1e-3  # smallest tension, as a share of one that makes all tasks the centre


@dataclass(frozen=True)
class Candidate:
    """A ridge strength, and radius, stiffness and tension of each block."""

    alpha: float
    epsilon: tuple[float, ...]
    stiffness: tuple[float, ...]
    tension: tuple[float, ...]

    @classmethod
    def free(cls, alpha: float, n_blocks: int) -> Candidate:
        """Separate tasks."""
        return cls(alpha, (np.inf,) * n_blocks, (0.0,) * n_blocks, (0.0,) * n_blocks)

    @classmethod
    def pooled(cls, alpha: float, n_blocks: int) -> Candidate:
        """One model for all."""
        return cls(alpha, (0.0,) * n_blocks, (0.0,) * n_blocks, (0.0,) * n_blocks)

    def coupling(self, problem: ConvexProblem) -> BlockTethers:
        """Tethers for the blocks of a problem."""
        return BlockTethers(block_slices(problem, by_block=len(self.epsilon) > 1), self._tethers)

    @cached_property
    def _tethers(self) -> tuple[Tether, ...]:
        triples = zip(self.epsilon, self.stiffness, self.tension, strict=True)
        return tuple(Tether(*triple) for triple in triples)

    def knob(self, name: str) -> _blocks.PerBlock:
        """Value of a knob as users write it: a number, or one by block."""
        values: tuple[float, ...] = getattr(self, name)
        return values[0] if len(values) == 1 else dict(zip(BLOCKS, values, strict=True))


@dataclass(frozen=True)
class Axis:
    """A knob that is varied alone: of one block, or of all together if `block` is None."""

    knob: Knob
    block: int | None = None

    def of(self, candidate: Candidate) -> float:
        """Value of the candidate on this axis."""
        values: float | tuple[float, ...] = getattr(candidate, self.knob)
        return values[self.block or 0] if isinstance(values, tuple) else values

    def at(self, candidate: Candidate, value: float) -> Candidate:
        """Return the candidate with another value on this axis."""
        if self.knob == "alpha":
            return replace(candidate, alpha=value)
        old: tuple[float, ...] = getattr(candidate, self.knob)
        if self.block is None:
            new = (value,) * len(old)
        else:
            new = (*old[: self.block], value, *old[self.block + 1 :])
        changes: dict[str, Any] = {self.knob: new}
        return replace(candidate, **changes)


def grid(
    axis: Axis, candidate: Candidate, problem: ConvexProblem, n_values: int, smallest: float
) -> list[float]:
    """Values of an axis, from those that share most to those that share least.

    Radii end where the bound no longer matters, the other knobs as they are in the candidate.
    """
    coupling = candidate.coupling(problem)
    blocks: Sequence[int] = range(len(coupling.blocks)) if axis.block is None else [axis.block]
    if axis.knob == "epsilon":
        end = max(problem.end(coupling, b) for b in blocks)
        return radii(end, n_values, smallest)
    if axis.knob == "stiffness":
        typical = float(np.median(problem.loss.curvature))
        low, high = (share * typical for share in _STRENGTHS)
        return [*np.geomspace(high, low, n_values).tolist(), 0.0]
    forces = [np.linalg.norm(problem.pooled.forces[:, coupling.blocks[b]], axis=1) for b in blocks]
    strongest = float(np.max(forces)) or 1.0
    return [*np.geomspace(strongest, _TENSIONS * strongest, n_values).tolist(), 0.0]
