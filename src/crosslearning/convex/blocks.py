"""Blocks of parameters by name, and the tethers that users give for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crosslearning.convex._tethers import BlockTethers
from crosslearning.tether import Tether

if TYPE_CHECKING:
    from crosslearning.convex.problem import ConvexProblem

    PerBlock = float | dict[str, float]

__all__ = ["BLOCKS", "block_slices", "coupling_of", "per_block"]

BLOCKS = ("coef", "intercept")
_FREE = {"epsilon": np.inf, "stiffness": 0.0, "tension": 0.0}


def per_block(*knobs: PerBlock) -> bool:
    """Whether any of the values is given by block."""
    return any(isinstance(knob, dict) for knob in knobs)


def block_slices(problem: ConvexProblem, *, by_block: bool) -> tuple[slice, ...]:
    """Where the blocks are among the parameters; a model without intercept has one."""
    n_parameters = problem.loss.shape[1]
    if not by_block or problem.intercept.start == n_parameters:
        return (slice(0, n_parameters),)
    return slice(0, problem.intercept.start), problem.intercept


def coupling_of(
    epsilon: PerBlock, stiffness: PerBlock, tension: PerBlock, problem: ConvexProblem
) -> BlockTethers:
    """Tethers from an estimator's parameters: one tether for all, or one per block."""
    knobs = {"epsilon": epsilon, "stiffness": stiffness, "tension": tension}
    by_block = per_block(*knobs.values())
    slices = block_slices(problem, by_block=by_block)
    names = BLOCKS[: len(slices)]
    values = {name: _by_block(name, knob, names) for name, knob in knobs.items()}
    return BlockTethers(
        slices, tuple(Tether(*triple) for triple in zip(*values.values(), strict=True))
    )


def _by_block(name: str, knob: PerBlock, blocks: tuple[str, ...]) -> list[float]:
    """Value of each block; those that are left out are free."""
    if not isinstance(knob, dict):
        return [knob] * len(blocks)
    unknown = set(knob) - set(BLOCKS)
    if unknown:
        raise ValueError(
            f"`{name}` has values for the blocks 'coef' and 'intercept'; got {sorted(unknown)}. "
            "Leave a block out to set it free."
        )
    return [knob.get(block, _FREE[name]) for block in blocks]
