"""Preallocated memory for passes over a flat buffer in chunks of columns."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Workspace"]

_ELEMENTS = 1 << 20  # of a chunk: its temporaries stay in the cache
_NARROWEST = 1 << 14  # narrower chunks cost more in calls than in arithmetic


class Workspace:
    """Chunks of columns of a matrix of shape (n_tasks + 1, n_parameters), and room to work.

    Fresh temporaries of this size cost three to five times as much as the arithmetic, so all
    passes share these. Numbers of less than 32 bits are worked on in float32.
    """

    def __init__(self, flat: torch.Tensor) -> None:
        n_rows, n_columns = flat.shape
        # A power of 2, so that the rows of the workspace are aligned in memory.
        wide = 1 << (max(_NARROWEST, _ELEMENTS // max(n_rows - 1, 4)).bit_length() - 1)
        wide = min(wide, n_columns)
        self.flat = flat
        self.width = wide
        self.dtype = torch.float64 if flat.dtype is torch.float64 else torch.float32
        self.rows = torch.empty((n_rows, wide), dtype=self.dtype, device=flat.device)
        self.center = torch.empty(wide, dtype=self.dtype, device=flat.device)

    @property
    def n_tasks(self) -> int:
        """Number of rows above the centre."""
        return len(self.flat) - 1

    @cached_property
    def sums(self) -> torch.device:
        """Device that adds in float64: the CPU where the matrix' own cannot."""
        return torch.device("cpu") if self.flat.device.type == "mps" else self.flat.device

    def chunks(self) -> Iterator[torch.Tensor]:
        """Cut the matrix into views of successive columns."""
        return iter(torch.split(self.flat, self.width, dim=1))

    def differences(self, chunk: torch.Tensor) -> torch.Tensor:
        """Tasks minus centre, in the workspace."""
        room = self.rows[:, : chunk.shape[1]]
        if chunk.dtype == self.dtype:
            return torch.sub(chunk[:-1], chunk[-1], out=room[:-1])
        room.copy_(chunk)
        return room[:-1].sub_(room[-1])
