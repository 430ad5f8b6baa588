"""The coupling of tasks and centre: one tether per block of parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crosslearning.tether import Array, Tether

_RIGID = 1.0 - 1e-8  # a share of the way that stands for all of it


@dataclass(frozen=True, eq=False)
class BlockTethers:
    """Disjoint ranges of parameters that together are all of them, and the tether of each."""

    blocks: tuple[slice, ...]
    tethers: tuple[Tether, ...]

    def scaled(self, strength: Array) -> BlockTethers:
        """Divide springs and tensions by a strength per task; bounds stay what they are."""
        if all(tether.is_ball for tether in self.tethers):
            return self
        tethers = tuple(
            Tether(t.epsilon, t.stiffness / strength, t.tension / strength) for t in self.tethers
        )
        return BlockTethers(self.blocks, tethers)

    def distances(self, offsets: Array) -> Array:
        """Length of each block of each offset θ_i - c, shape (n_blocks, n_tasks)."""
        return np.stack([_lengths(offsets[:, b]) for b in self.blocks])

    def clipped(self, offsets: Array) -> Array:
        """Offsets shortened to the radii, where rounding left them longer."""
        result = offsets.copy()
        for b, tether in zip(self.blocks, self.tethers, strict=True):
            d = _lengths(offsets[:, b])
            share = np.divide(tether.epsilon, d, out=np.ones_like(d), where=d > tether.epsilon)
            result[:, b] *= share[:, None]
        return result

    def penalty(self, offsets: Array) -> float:
        """Σ h(‖θ_i - c‖) over tasks and blocks, for offsets within the radii."""
        pairs = zip(self.tethers, self.distances(offsets), strict=True)
        return float(sum(np.sum(t.tension * d + 0.5 * t.stiffness * d**2) for t, d in pairs))

    def hold(self, offsets: Array) -> Hold:
        """Envelope of the coupling at offsets that want to be there, and its derivatives."""
        value = np.zeros(len(offsets))
        moves = np.empty_like(offsets)
        radial = []
        for b, tether in zip(self.blocks, self.tethers, strict=True):
            d = _lengths(offsets[:, b])
            pull, slope, envelope = tether.law(d)
            value += envelope
            moves[:, b] = pull[:, None] * offsets[:, b]
            radial.append((b, d, pull, slope))
        return Hold(offsets, value, moves, radial)


@dataclass(frozen=True, eq=False)
class Hold:
    """Value of the envelope per task, how far each task is moved, and the way to the Hessian."""

    offsets: Array
    value: Array
    moves: Array
    radial: list[tuple[slice, Array, Array, Array]]

    def hessian(self) -> Array:
        """Hessian of the envelope, shape (n_tasks, P, P)."""
        return self._tensor(lambda share: share)

    def release(self) -> Array:
        """Inverse of I minus the Hessian: how much an offset changes with where it wants to be.

        Infinite along a bound or where a task is stuck; cut off there.
        """
        return self._tensor(lambda share: 1.0 / (1.0 - np.minimum(share, _RIGID)))

    def _tensor(self, function: Callable[[Array], Array]) -> Array:
        """Build a function of pull I + (slope - pull) v vᵀ in each block."""
        n_tasks, n_parameters = self.offsets.shape
        result = np.zeros((n_tasks, n_parameters, n_parameters))
        for b, d, pull, slope in self.radial:
            across, along = function(pull), function(slope)
            if b.stop - b.start == 1:  # a number has no other directions
                result[:, b.start, b.start] = along
                continue
            v = self.offsets[:, b] / np.where(d > 0, d, 1.0)[:, None]
            block = (along - across)[:, None, None] * v[:, :, None] * v[:, None, :]
            diagonal = np.arange(v.shape[1])
            block[:, diagonal, diagonal] += across[:, None]
            result[:, b, b] = block
        return result


def _lengths(rows: Array) -> Array:
    if rows.shape[1] == 1:
        return np.abs(rows[:, 0])
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)))
