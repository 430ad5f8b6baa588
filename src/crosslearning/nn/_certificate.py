"""The result of projecting networks: a coupling for every block of parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslearning.coupling import Coupling, Status
from crosslearning.tether import Array, Flags


@dataclass(frozen=True, eq=False)
class StepCertificate:
    """The projection of all blocks; ``certificate["features"]`` is that of one block.

    ``blocks`` is a dict by prefix; a single block is called "all".
    """

    blocks: dict[str, Coupling]

    def __getitem__(self, block: str) -> Coupling:
        return self.blocks[block]

    @property
    def distances(self) -> Array:
        """Distance of each task to the centre over all tethered parameters."""
        squares = [block.distances**2 for block in self.blocks.values()]
        return np.asarray(np.sqrt(np.sum(squares, axis=0)), dtype=np.float64)

    @property
    def pull(self) -> Array:
        """Largest pull on each task among the blocks."""
        return np.asarray(np.max([b.pull for b in self.blocks.values()], axis=0), dtype=np.float64)

    @property
    def active(self) -> Flags:
        """Tasks whose bound is active in some block."""
        return np.asarray(np.any([b.active for b in self.blocks.values()], axis=0), dtype=np.bool_)

    @property
    def kkt_residual(self) -> float:
        """Largest residual among the blocks."""
        return max(block.kkt_residual for block in self.blocks.values())

    @property
    def n_iter(self) -> int:
        """Total number of Newton steps over all blocks."""
        return sum(block.n_iter for block in self.blocks.values())

    @property
    def status(self) -> Status:
        """Converged if all blocks have converged, otherwise the first other status."""
        ends = [block.status for block in self.blocks.values()]
        return next((end for end in ends if end is not Status.CONVERGED), Status.CONVERGED)
