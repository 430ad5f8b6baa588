"""Passes over a flat buffer in chunks of columns, on one rank or many; memory is allocated once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist

from crosslearning.coupling._members import exact_combination
from crosslearning.nn._ranks import Ranks
from crosslearning.tether import Array

_ELEMENTS = 1 << 17  # of a chunk: its temporaries stay in the second-level cache
_NARROWEST = 1 << 14  # narrower chunks cost more in calls than in arithmetic
_MANY = 16  # rows from which NumPy, which computes half of a symmetric matrix, is faster than torch


class _Chunk(NamedTuple):
    """Views of some columns, sliced once since slicing takes as long as computing."""

    stored: torch.Tensor
    rows: torch.Tensor  # to compute with: the columns themselves, or room for wider copies
    tasks: torch.Tensor
    center: torch.Tensor
    room: torch.Tensor  # for differences of tasks and centre

    def load(self) -> None:
        if self.rows is not self.stored:
            self.rows.copy_(self.stored)

    def store(self) -> None:
        if self.rows is not self.stored:
            self.stored.copy_(self.rows)

    def differences(self) -> torch.Tensor:
        self.load()
        return torch.sub(self.tasks, self.center, out=self.room)


class Workspace:
    """Chunks of ranges of columns of a matrix of shape (n_tasks + 1, n_columns), and room for one.

    Fresh temporaries would cost more than the arithmetic. Numbers of less than 32 bits are
    converted to float32 to compute with.
    """

    def __init__(
        self,
        flat: torch.Tensor,
        wide: int,
        ranges: Sequence[slice],
        chunks: Sequence[torch.Tensor] | None = None,
    ) -> None:
        self.flat, self.wide = flat, wide
        self.cuts = [
            slice(start, min(start + wide, columns.stop))
            for columns in ranges
            for start in range(columns.start, columns.stop, wide)
        ]
        self.dtype = torch.float64 if flat.dtype is torch.float64 else torch.float32
        # Sums are in float64: on the CPU where the matrix' own device cannot.
        self._sums = torch.device("cpu") if flat.device.type == "mps" else flat.device
        room = torch.empty((len(flat), wide), dtype=self.dtype, device=flat.device)
        self._chunks = []
        for stored in [flat[:, cut] for cut in self.cuts] if chunks is None else chunks:
            here = room[:, : stored.shape[1]]
            rows = stored if stored.dtype == self.dtype else here
            self._chunks.append(_Chunk(stored, rows, rows[:-1], rows[-1], here[:-1]))

    @property
    def n_columns(self) -> int:
        """Number of columns that are passed over."""
        return sum(cut.stop - cut.start for cut in self.cuts)

    def gram(self) -> Array:
        """Gram matrix ⟨z_i - z_g, z_j - z_g⟩ of the tasks.

        Differences are multiplied chunk by chunk, and the products are summed in float64.
        """
        shape = (len(self.flat) - 1,) * 2
        product = torch.empty(shape, dtype=self.dtype, device=self.flat.device)
        numbers = range(len(self._chunks))
        return self.total(self.product(number, out=product) for number in numbers)

    def product(self, number: int, out: torch.Tensor) -> torch.Tensor:
        """Gram matrix of one chunk."""
        difference = self._chunks[number].differences()
        if len(difference) < _MANY or out.device.type != "cpu":
            return torch.mm(difference, difference.T, out=out)
        rows = difference.numpy()
        np.matmul(rows, rows.T, out=out.numpy())
        return out

    def total(self, products: Iterable[torch.Tensor]) -> Array:
        """Sum of the Gram matrices of chunks, in their order; symmetric."""
        shape = (len(self.flat) - 1,) * 2
        total = torch.zeros(shape, dtype=torch.float64, device=self._sums)
        for product in products:
            total += product.to(self._sums)
        gram: Array = total.cpu().numpy()
        return 0.5 * (gram + gram.T)

    def move(self, pull: Array, weights: Array) -> None:
        """Set θ_g = z_g + Σ weights_i (z_i - z_g) and θ_i = z_i + pull_i (θ_g - z_i), in one pass.

        A pull of 0 leaves a task as it is, and 1 makes it a copy of the centre, bit by bit.
        """
        if pull.any() or weights.any():
            others, rest = self._coefficients(weights)
            shares = self._column(pull)
            for chunk in reversed(self._chunks):  # the last ones are still in the cache
                chunk.load()
                chunk.center.addmv_(chunk.tasks.T, others, beta=rest)
                chunk.tasks.lerp_(chunk.center, shares)
                chunk.store()

    def new_center(self, weights: Array, out: torch.Tensor) -> None:
        """Write θ_g to a matrix with a row per chunk, and leave this one as it is."""
        others, rest = self._coefficients(weights)
        for chunk, row in zip(self._chunks, out, strict=True):
            chunk.load()
            part = row[: len(chunk.center)]
            torch.addmv(chunk.center, chunk.tasks.T, others, beta=rest, out=part)

    def pull_to(self, center: torch.Tensor, pull: Array) -> None:
        """Move to a new centre, a matrix with a row per chunk."""
        shares = self._column(pull)
        for chunk, row in zip(self._chunks, center, strict=True):
            chunk.load()
            chunk.center.copy_(row[: len(chunk.center)])
            chunk.tasks.lerp_(chunk.center, shares)
            chunk.store()

    def distances(self, *, exactly: bool = False) -> Array:
        """Distances of the tasks to the centre as they are stored.

        To five digits, or with every sum in float64, which takes three times as long.
        """
        double = exactly and self._sums == self.flat.device
        dtype = torch.float64 if double else self.dtype
        rows = (chunk.differences() for chunk in self._chunks)
        return self._norms(rows, dtype, len(self.flat) - 1)

    def norm(self) -> float:
        """Norm of the first task, which stands for all."""
        return float(self._norms((chunk.stored[:1] for chunk in self._chunks), self.dtype, 1)[0])

    def _norms(self, chunks: Iterable[torch.Tensor], dtype: torch.dtype, n_rows: int) -> Array:
        """Norms of rows that come in chunks, summed in this dtype in them and in float64 over."""
        total = torch.zeros(n_rows, dtype=torch.float64, device=self._sums)
        for rows in chunks:
            norms = torch.linalg.vector_norm(rows, dim=1, dtype=dtype)
            total = total + norms.to(device=self._sums, dtype=torch.float64).square()
        return total.sqrt().cpu().numpy()

    def _coefficients(self, weights: Array) -> tuple[torch.Tensor, float]:
        """Coefficients of the tasks and of the present centre in the new one."""
        *others, rest = exact_combination(weights, torch.finfo(self.dtype).eps).tolist()
        return torch.tensor(others, dtype=self.dtype, device=self.flat.device), rest

    def _column(self, pull: Array) -> torch.Tensor:
        return torch.tensor(pull[:, None], dtype=self.dtype, device=self.flat.device)


def chunk_width(n_tasks: int, n_columns: int) -> int:
    """Columns of a chunk: a power of 2, so that the rows of the workspace are aligned."""
    wide = 1 << (max(_NARROWEST, _ELEMENTS // max(n_tasks, 4)).bit_length() - 1)
    return max(1, min(wide, n_columns))


class Columns:
    """The passes of a workspace when tasks are spread over ranks; every operation is collective.

    Each rank has the whole vectors of its own tasks, and the centre. For the Gram matrix, columns
    are divided among ranks instead of tasks: each rank receives some columns of all tasks, one
    all-to-all per chunk, and multiplies them; all ranks gather the products and sum them in the
    same order, so that all solve the same problem, bit for bit. Each rank then computes its columns
    of the new centre; all gather them and move their own tasks.
    """

    def __init__(self, local: Workspace, ranks: Ranks) -> None:
        self.local, self._ranks = local, ranks  # rows of the local tasks, all columns
        wide, self._n_chunks = local.wide, len(local.cuts)
        self._most = max(1, -(-self._n_chunks // ranks.size))  # chunks of one rank
        self._cuts = local.cuts + [slice(0, 0)] * (self._most * ranks.size - self._n_chunks)
        first = ranks.rank * self._most
        self._mine = self._cuts[first : first + self._most]
        # Chunk after chunk in memory, so that each is received where it stays.
        n_rows, new = ranks.n_tasks + 1, local.flat.new_empty
        self._received = [new((n_rows, cut.stop - cut.start)) for cut in self._mine]
        self._work = Workspace(new((n_rows, 0)), wide, (), self._received)
        self._packed = new((len(local.flat) - 1) * ranks.size * wide)

    def gram(self) -> Array:
        """Gram matrix of all tasks, the same on all ranks."""
        shape = self._most, self._ranks.n_tasks, self._ranks.n_tasks
        products = self.local.flat.new_zeros(shape, dtype=self._work.dtype)
        for number in self._fetch():
            self._work.product(number, out=products[number])
        gathered = self._ranks.gather_tensors(products).flatten(0, 1)
        return self._work.total(gathered[: self._n_chunks])

    def move(self, pull: Array, weights: Array) -> None:
        """Compute some columns of the new centre, gather the others, and move the local tasks."""
        if pull.any() or weights.any():
            rows = self.local.flat.new_zeros((self._most, self.local.wide), dtype=self._work.dtype)
            self._work.new_center(weights, rows)
            center = self._ranks.gather_tensors(rows).flatten(0, 1)[: self._n_chunks]
            self.local.pull_to(center, pull[self._ranks.local])

    def _fetch(self) -> Iterator[int]:
        """Exchange one chunk of every rank after another; yield the numbers of those received."""
        for number, (cut, chunk) in enumerate(zip(self._mine, self._received, strict=True)):
            tasks = self.local.flat[:-1]
            sent = [tasks[:, one].reshape(-1) for one in self._cuts[number :: self._most]]
            sizes = [len(one) for one in sent]
            packed = torch.cat(sent, out=self._packed[: sum(sizes)])
            counts = [chunk.shape[1] * (part.stop - part.start) for part in self._ranks.parts]
            into = chunk[:-1].view(-1)
            dist.all_to_all_single(into, packed, counts, sizes, group=self._ranks.tasks)
            chunk[-1] = self.local.flat[-1, cut]
            yield number
