"""The passes of a workspace when tasks are spread over ranks; every operation is collective.

Each rank has the whole vectors of its own tasks, and the centre. For the Gram matrix, columns are
divided among ranks instead of tasks: each rank receives some columns of all tasks, one all-to-all
per chunk, and multiplies them; all ranks gather the products and sum them in the same order, so
that all solve the same problem, bit for bit. Each rank then computes its columns of the new centre;
all gather them and move their own tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist

from crosslearning.nn._ranks import Ranks
from crosslearning.nn._workspace import Workspace
from crosslearning.tether import Array


class Columns:
    """Some columns of all tasks and the centre of one block."""

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
            center = self._gathered(lambda rows: self._work.new_center(weights, rows))
            self.local.pull_to(center, pull[self._ranks.local])

    def mean(self) -> torch.Tensor:
        """Mean of all tasks, if nothing is frozen."""
        for _ in self._fetch():
            pass
        return self._gathered(self._work.means).view(-1)[: self.local.flat.shape[1]]

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

    def _gathered(self, write: Callable[[torch.Tensor], object]) -> torch.Tensor:
        """Matrix with a row per chunk, of which every rank writes its own."""
        shape = self._most, self.local.wide
        rows = self.local.flat.new_zeros(shape, dtype=self._work.dtype)
        write(rows)
        return self._ranks.gather_tensors(rows).flatten(0, 1)[: self._n_chunks]
