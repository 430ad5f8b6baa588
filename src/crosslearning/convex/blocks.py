"""Blocks of parameters by name, and the tethers that users give for them."""

from __future__ import annotations

import numpy as np

from crosslearning.convex._tethers import BlockTethers
from crosslearning.convex.problem import ConvexProblem
from crosslearning.tether import Tether

PerBlock = float | dict[str, float]


__all__ = ["BLOCKS", "coupling_of", "per_block"]

BLOCKS = ("coef", "intercept")
_FREE = {"epsilon": np.inf, "stiffness": 0.0, "tension": 0.0}


def per_block(*knobs: PerBlock) -> bool:
    """Whether any of the values is given by block."""
    return any(isinstance(knob, dict) for knob in knobs)


def coupling_of(
    epsilon: PerBlock, stiffness: PerBlock, tension: PerBlock, problem: ConvexProblem
) -> BlockTethers:
    """Tethers from an estimator's parameters: one for all, or one per block, if there are two."""
    knobs = {"epsilon": epsilon, "stiffness": stiffness, "tension": tension}
    P, at = problem.loss.shape[1], problem.intercept
    apart = per_block(*knobs.values()) and at.start < P
    slices = (slice(0, at.start), at) if apart else (slice(0, P),)
    values = [_by_block(name, knob, BLOCKS[: len(slices)]) for name, knob in knobs.items()]
    return BlockTethers(slices, tuple(Tether(*own) for own in zip(*values, strict=True)))


def _by_block(name: str, knob: PerBlock, blocks: tuple[str, ...]) -> list[float]:
    """Value of each block; those that are left out are free."""
    if not isinstance(knob, dict):
        return [knob] * len(blocks)
    unknown = set(knob) - set(BLOCKS)
    if unknown:
        raise ValueError(
            f"The blocks of `{name}` are 'coef' and 'intercept'; got {sorted(unknown)}. "
            "Omit a block to leave it free."
        )
    return [knob.get(block, _FREE[name]) for block in blocks]
