"""Passes over a flat buffer in chunks of columns, with memory allocated once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch

from crosslearning.coupling._members import exact_combination
from crosslearning.tether import Array

_ELEMENTS = 1 << 20  # of a chunk: its temporaries stay in the cache
_NARROWEST = 1 << 14  # narrower chunks cost more in calls than in arithmetic


class Workspace:
    """Chunks of columns of a matrix of shape (n_tasks + 1, n_parameters), and room to work.

    Fresh temporaries of this size cost three to five times as much as the arithmetic, so all
    passes share these. Numbers of less than 32 bits are worked on in float32.
    """

    def __init__(
        self, flat: torch.Tensor, wide: int, chunks: Sequence[torch.Tensor] | None = None
    ) -> None:
        n_rows = len(flat)
        self.flat, self.wide = flat, wide
        self.dtype = torch.float64 if flat.dtype is torch.float64 else torch.float32
        self.chunks = torch.split(flat, wide, dim=1) if chunks is None else chunks
        self._rows = torch.empty((n_rows, wide), dtype=self.dtype, device=flat.device)
        self._center = torch.empty(wide, dtype=self.dtype, device=flat.device)
        # Sums are in float64: on the CPU where the matrix' own device cannot.
        self._sums = torch.device("cpu") if flat.device.type == "mps" else flat.device

    def gram(self) -> Array:
        """Gram matrix ⟨z_i - z_g, z_j - z_g⟩ of the tasks.

        Subtracted first, multiplied in chunks of columns, and summed over the chunks in float64.
        """
        return sum_of_products(self.products(self.chunks), len(self.flat) - 1, self._sums)

    def products(self, chunks: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
        """Gram matrices of chunks, each in the memory of the one before."""
        shape = (len(self.flat) - 1,) * 2
        product = torch.empty(shape, dtype=self.dtype, device=self.flat.device)
        for chunk in chunks:
            difference = self._differences(chunk)
            yield torch.mm(difference, difference.T, out=product)

    def move(self, pull: Array, weights: Array) -> None:
        """Set θ_g = z_g + Σ weights_i (z_i - z_g) and θ_i = z_i + pull_i (θ_g - z_i), in one pass.

        A task with pull 0 is not touched, one with pull 1 is a copy of the centre, bit by bit.
        """
        if pull.any() or weights.any():
            coefficients, shares = self._coefficients(weights), self._shares(pull)
            for chunk in self.chunks:
                rows, center = self._working(chunk), self._center[: chunk.shape[1]]
                torch.mv(rows.T, coefficients, out=center)
                self._pull(chunk, rows, center, pull, shares)

    def new_center(self, weights: Array, out: torch.Tensor) -> None:
        """Write θ_g to a vector, and leave the matrix as it is."""
        coefficients = self._coefficients(weights)
        for chunk, part in zip(self.chunks, out.split(self.wide), strict=False):
            torch.mv(self._working(chunk).T, coefficients, out=part)

    def pull_to(self, center: torch.Tensor, pull: Array, local: slice) -> None:
        """Move to a new centre, where the matrix has the rows of some tasks only."""
        shares = self._shares(pull)
        shares = None if shares is None else shares[local]
        for chunk, part in zip(self.chunks, center.split(self.wide), strict=True):
            self._pull(chunk, self._working(chunk), part, pull[local], shares)

    def _coefficients(self, weights: Array) -> torch.Tensor:
        exact = torch.from_numpy(exact_combination(weights, torch.finfo(self.dtype).eps))
        return exact.to(self.flat.device, self.dtype)

    def _shares(self, pull: Array) -> torch.Tensor | None:
        """Return the pulls as a column, for one call, if none is 0 or 1, as usual."""
        inside = bool(np.all((pull > 0) & (pull < 1)))
        return torch.from_numpy(pull[:, None]).to(self.flat.device, self.dtype) if inside else None

    def _working(self, chunk: torch.Tensor) -> torch.Tensor:
        """Rows of a chunk to compute with: themselves, or wider copies in the workspace."""
        native = chunk.dtype == self.dtype
        return chunk if native else self._rows[:, : chunk.shape[1]].copy_(chunk)

    def _pull(
        self,
        chunk: torch.Tensor,
        rows: torch.Tensor,
        center: torch.Tensor,
        pull: Array,
        shares: torch.Tensor | None,
    ) -> None:
        if shares is None:
            _move_one_by_one(rows[:-1], center, pull)
        else:
            rows[:-1].lerp_(center, shares)
        rows[-1].copy_(center)
        if rows is not chunk:
            chunk.copy_(rows)

    def distances(self, *, exactly: bool = False) -> Array:
        """Distances of the tasks to the centre as they are stored.

        To five digits, or with every sum in float64, which takes three times as long.
        """
        double = exactly and self._sums == self.flat.device
        dtype = torch.float64 if double else self.dtype
        return self._norms((self._differences(chunk) for chunk in self.chunks), dtype)

    def norm(self) -> float:
        """Norm of the first task, which stands for all."""
        return float(self._norms((chunk[:1] for chunk in self.chunks), self.dtype)[0])

    def _norms(self, chunks: Iterable[torch.Tensor], dtype: torch.dtype) -> Array:
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


def chunk_width(n_tasks: int, n_columns: int) -> int:
    """Columns of a chunk: a power of 2, so that the rows of the workspace are aligned."""
    wide = 1 << (max(_NARROWEST, _ELEMENTS // max(n_tasks, 4)).bit_length() - 1)
    return max(1, min(wide, n_columns))


def sum_of_products(products: Iterable[torch.Tensor], n_tasks: int, device: torch.device) -> Array:
    """Sum Gram matrices of chunks in their order, in float64, and make the sum symmetric."""
    total = torch.zeros((n_tasks, n_tasks), dtype=torch.float64, device=device)
    for product in products:
        total += product.to(device)
    gram: Array = total.cpu().numpy()
    return 0.5 * (gram + gram.T)


def _move_one_by_one(tasks: torch.Tensor, center: torch.Tensor, pull: Array) -> None:
    for task, share in zip(tasks, pull.tolist(), strict=True):
        if share == 1.0:
            task.copy_(center)
        elif share > 0.0:
            task.lerp_(center, share)
