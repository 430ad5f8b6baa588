"""What a projection of networks returns: forces, distances, and how far to trust them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crosslearning.coupling import Status
from crosslearning.coupling._result import multipliers

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BlockCertificate", "StepCertificate"]


@dataclass(frozen=True, eq=False)
class BlockCertificate:
    """The projection of one block of parameters; tasks are in the order of the models.

    Attributes
    ----------
    pull : array of shape (n_tasks,)
        Share of its way to the centre that each task was moved, from 0 (untouched) to 1 (onto it).
    active : array of bool of shape (n_tasks,)
        Which tasks the radius holds back.
    distances : array of shape (n_tasks,)
        Distances to the centre after the move.
    measured : bool
        Whether the distances were taken from the stored numbers, which is done where rounding
        could change their fourth digit; otherwise they are those of the exact solution.
    kkt_residual : float
        Residual of the optimality conditions, or excess of a distance over its radius, whichever
        is larger; relative to the largest distance before the move.
    n_iter : int
        Newton steps.
    status : Status
        How it ended; ``status.value`` is a sentence.
    """

    pull: NDArray[np.float64]
    active: NDArray[np.bool_]
    distances: NDArray[np.float64]
    measured: bool
    kkt_residual: float
    n_iter: int
    status: Status

    @property
    def multipliers(self) -> NDArray[np.float64]:
        """``pull / (1 - pull)``: the Lagrange multipliers of the halved problem, ``inf`` at 1."""
        return multipliers(self.pull)


@dataclass(frozen=True, eq=False)
class StepCertificate:
    """The projection of all blocks; ``certificate["features"]`` is that of one.

    Attributes
    ----------
    blocks : dict of str to BlockCertificate
        By the prefix that names the block; "all" if there is but one for everything.
    """

    blocks: dict[str, BlockCertificate]

    def __getitem__(self, block: str) -> BlockCertificate:
        return self.blocks[block]

    @property
    def distances(self) -> NDArray[np.float64]:
        """Distance of each task to the centre over all tethered parameters."""
        squares = [block.distances**2 for block in self.blocks.values()]
        return np.asarray(np.sqrt(np.sum(squares, axis=0)), dtype=np.float64)

    @property
    def pull(self) -> NDArray[np.float64]:
        """Largest pull on each task among the blocks."""
        return np.asarray(np.max([b.pull for b in self.blocks.values()], axis=0), dtype=np.float64)

    @property
    def active(self) -> NDArray[np.bool_]:
        """Which tasks a radius holds back in some block."""
        return np.asarray(np.any([b.active for b in self.blocks.values()], axis=0), dtype=np.bool_)

    @property
    def kkt_residual(self) -> float:
        """Largest residual among the blocks."""
        return max(block.kkt_residual for block in self.blocks.values())

    @property
    def n_iter(self) -> int:
        """Newton steps of all blocks together."""
        return sum(block.n_iter for block in self.blocks.values())

    @property
    def status(self) -> Status:
        """Converged if all blocks are, otherwise the first other status."""
        ends = [block.status for block in self.blocks.values()]
        return next((end for end in ends if end is not Status.CONVERGED), Status.CONVERGED)
