"""Passes over a flat buffer in chunks of columns, with memory allocated once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

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
        self.dtype = torch.float64 if flat.dtype is torch.float64 else torch.float32
        self._chunks = torch.split(flat, wide, dim=1)
        self._rows = torch.empty((n_rows, wide), dtype=self.dtype, device=flat.device)
        self._center = torch.empty(wide, dtype=self.dtype, device=flat.device)
        # Sums are in float64: on the CPU where the matrix' own device cannot.
        self._sums = torch.device("cpu") if flat.device.type == "mps" else flat.device

    def gram(self) -> NDArray[np.float64]:
        """Gram matrix ⟨z_i - z_g, z_j - z_g⟩ of the tasks.

        Subtracted first, multiplied in chunks of columns, and summed over the chunks in float64.
        """
        shape = (len(self.flat) - 1,) * 2
        product = torch.empty(shape, dtype=self.dtype, device=self.flat.device)
        total = torch.zeros(shape, dtype=torch.float64, device=self._sums)
        for chunk in self._chunks:
            difference = self._differences(chunk)
            torch.mm(difference, difference.T, out=product)
            total += product.to(self._sums)
        gram: NDArray[np.float64] = total.cpu().numpy()
        return 0.5 * (gram + gram.T)

    def move(self, pull: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
        """Set θ_g = z_g + Σ weights_i (z_i - z_g) and θ_i = z_i + pull_i (θ_g - z_i), in one pass.

        A task with pull 0 is not touched, one with pull 1 is a copy of the centre, bit by bit.
        """
        if not pull.any() and not weights.any():
            return
        device, dtype = self.flat.device, self.dtype
        coefficients = torch.from_numpy(exact_combination(weights, dtype)).to(device, dtype)
        shares = torch.from_numpy(pull[:, None]).to(device, dtype)
        inside = bool(np.all((pull > 0) & (pull < 1)))
        for chunk in self._chunks:
            width = chunk.shape[1]
            native = chunk.dtype == dtype
            rows = chunk if native else self._rows[:, :width].copy_(chunk)
            center = torch.mv(rows.T, coefficients, out=self._center[:width])
            if inside:  # the usual case, in one call
                rows[:-1].lerp_(center, shares)
            else:
                _move_one_by_one(rows[:-1], center, pull)
            rows[-1].copy_(center)
            if not native:
                chunk.copy_(rows)

    def distances(self, *, exactly: bool = False) -> NDArray[np.float64]:
        """Distances of the tasks to the centre as they are stored.

        To five digits, or with every sum in float64, which takes three times as long.
        """
        double = exactly and self._sums == self.flat.device
        dtype = torch.float64 if double else self.dtype
        return self._norms((self._differences(chunk) for chunk in self._chunks), dtype)

    def norm(self) -> float:
        """Norm of the first task, which stands for all."""
        return float(self._norms((chunk[:1] for chunk in self._chunks), self.dtype)[0])

    def _norms(self, chunks: Iterable[torch.Tensor], dtype: torch.dtype) -> NDArray[np.float64]:
        """Norms of rows that come in chunks, summed in this dtype in them and in float64 over."""
        total = torch.zeros(1, dtype=torch.float64, device=self._sums)
        for rows in chunks:
            norms = torch.linalg.vector_norm(rows, dim=1, dtype=dtype)
            total = total + norms.to(device=self._sums, dtype=torch.float64).square()
        return total.sqrt().cpu().numpy()

    def _differences(self, chunk: torch.Tensor) -> torch.Tensor:
        """Tasks minus centre, in the workspace."""
        room = self._rows[:, : chunk.shape[1]]
        if chunk.dtype == self.dtype:
            return torch.sub(chunk[:-1], chunk[-1], out=room[:-1])
        room.copy_(chunk)
        return room[:-1].sub_(room[-1])


def _move_one_by_one(tasks: torch.Tensor, center: torch.Tensor, pull: NDArray[np.float64]) -> None:
    for task, share in zip(tasks, pull.tolist(), strict=True):
        if share == 1.0:
            task.copy_(center)
        elif share > 0.0:
            task.lerp_(center, share)


def exact_combination(weights: NDArray[np.float64], dtype: torch.dtype) -> NDArray[np.float64]:
    """Coefficients of tasks and centre that sum to 1 in this dtype, exactly.

    A sum that is off by one rounding error would scale the whole centre, step after step in the
    same direction. Rounded to a grid that the dtype holds, the tasks' coefficients change by
    little, and that little only multiplies differences.
    """
    grid = 2.0 * torch.finfo(dtype).eps
    rounded = np.round(weights / grid) * grid
    return np.append(rounded, 1.0 - rounded.sum())
