"""Tasks that are spread over ranks as members of a coupling; every operation is collective.

Each rank has the whole vectors of its own tasks, and the centre. For the Gram matrix the columns
are divided in place of the tasks: a rank gets some columns of all tasks, by an all-to-all for each
of the chunks that one process would take, and multiplies them; all ranks get the products of all
and sum them in the same order, so that all solve the same problem, bit by bit. Each then computes
its columns of the new centre, and all gather them and move their own tasks.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.distributed as dist

from crosslearning.nn._flat_members import FRESH, FlatMembers, dtype_storage
from crosslearning.nn._workspace import Workspace, sum_of_products

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from crosslearning.coupling import Storage
    from crosslearning.nn._ranks import Ranks
    from crosslearning.nn._task_models import TaskModels

_ALIKE = 1e-3  # relative difference of Gram matrices of copies that have the same gradients


class Columns:
    """Some columns of all tasks and the centre of one block, and a way to get them."""

    def __init__(self, local: Workspace, ranks: Ranks) -> None:
        self.local, self.ranks = local, ranks  # rows of the local tasks, all columns
        n_columns, wide = local.flat.shape[1], local.wide
        self.n_chunks = -(-n_columns // wide)
        self.most = max(1, -(-self.n_chunks // ranks.size))  # chunks of one rank
        cuts = [min(chunk * wide, n_columns) for chunk in range(self.most * ranks.size + 1)]
        self.chunks = [slice(*pair) for pair in pairwise(cuts)]
        first = ranks.rank * self.most
        self.mine = self.chunks[first : first + self.most]
        self.width = self.mine[-1].stop - self.mine[0].start
        # Chunk after chunk in memory, so that each is received where it is to stay.
        n_rows, new = ranks.n_tasks + 1, local.flat.new_empty
        own = [new((n_rows, cut.stop - cut.start)) for cut in self.mine]
        self.own = Workspace(new((n_rows, 0)), wide, own)
        self._packed = new((len(local.flat) - 1) * ranks.size * wide)

    def fetch(self) -> Iterator[torch.Tensor]:
        """Exchange one chunk of every rank after the other; return those of this rank."""
        for number, (cut, chunk) in enumerate(zip(self.mine, self.own.chunks, strict=True)):
            tasks = self.local.flat[:-1]
            sent = [tasks[:, one].reshape(-1) for one in self.chunks[number :: self.most]]
            sizes = [len(one) for one in sent]
            packed = torch.cat(sent, out=self._packed[: sum(sizes)])
            counts = [chunk.shape[1] * (part.stop - part.start) for part in self.ranks.parts]
            received = chunk[:-1].view(-1)
            dist.all_to_all_single(received, packed, counts, sizes, group=self.ranks.tasks)
            chunk[-1] = self.local.flat[-1, cut]
            yield chunk

    def gram(self) -> NDArray[np.float64]:
        """Gram matrix of all tasks, the same on all ranks."""
        n_tasks = self.ranks.n_tasks
        products = self.local.flat.new_zeros((self.most, n_tasks, n_tasks), dtype=self.own.dtype)
        for place, product in zip(products, self.own.products(self.fetch()), strict=True):
            place.copy_(product)
        found = self.ranks.gather_tensors(products).flatten(0, 1)[: self.n_chunks]
        return sum_of_products(found, n_tasks, found.device)

    def move(self, pull: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
        """Compute some columns of the new centre, gather the others, and move the local tasks."""
        if pull.any() or weights.any():
            center = self._gathered(lambda part: self.own.new_center(weights, part))
            self.local.pull_to(center, pull, self.ranks.local)

    def mean(self) -> torch.Tensor:
        """Mean of all tasks."""
        means = torch.cat([chunk[:-1].mean(dim=0) for chunk in self.fetch()])
        return self._gathered(lambda part: part.copy_(means))

    def _gathered(self, write: Callable[[torch.Tensor], object]) -> torch.Tensor:
        """Vector of which every rank writes its columns."""
        part = self.local.flat.new_zeros(self.most * self.local.wide, dtype=self.own.dtype)
        write(part[: self.width])
        return self.ranks.gather_tensors(part).view(-1)[: self.local.flat.shape[1]]


class RankMembers(FlatMembers):
    """Flat buffers of the local tasks, of which the others are on other ranks."""

    def __init__(self, models: TaskModels) -> None:
        super().__init__(models)
        self._ranks = models._ranks
        self._columns: list[Columns] = []

    @property
    def tasks(self) -> Sequence[str]:
        """What messages call the tasks, of all ranks."""
        return [f"task {label!r}" for label in self._models.tasks]

    def gram(self) -> NDArray[np.float64]:
        """Inner products of the differences to the centre, of every block."""
        self._take()
        if self._ranks.size == 1:
            grams = super().gram()
        else:
            spaces = self._spaces
            if [one.local for one in self._columns] != spaces:
                self._columns = [Columns(local, self._ranks) for local in spaces]
            grams = np.stack([one.gram() for one in self._columns])
        return self._total(grams) if self._models._sharded else self._of_first_copy(grams)

    def move(self, pull: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
        """Move the local tasks and the centre of every block."""
        if self._ranks.size == 1:
            super().move(pull, weights)
        else:
            for columns, *step in zip(self._columns, pull, weights, strict=True):
                columns.move(*step)
        for flat in self._models._flats:
            flat.give()

    def distances(self, *, exactly: bool = False) -> NDArray[np.float64]:
        """Distances of all tasks to the centre in every block."""
        self._take()
        local = super().distances(exactly=exactly)
        if self._models._sharded:
            local = np.sqrt(self._total(local**2))
        return self._ranks.gather(local.T).T

    def storage(self) -> Storage:
        """How finely the blocks are stored, by the norms of the very first task."""
        if self._age % FRESH == 0:
            norms = np.array([work.norm() for work in self._spaces])
            norms = np.sqrt(self._total(norms**2))
            n_local = len(self._models.local_tasks)
            self._norms = self._ranks.gather(np.tile(norms, (n_local, 1)))[0]
            widths = np.array([float(work.flat.shape[1]) for work in self._spaces])
            self._sizes = self._total(widths).astype(int).tolist()
        self._age += 1
        return dtype_storage([work.flat.dtype for work in self._spaces], self._norms, self._sizes)

    def culprits(self) -> tuple[list[str], str]:
        """Names of tasks on any rank, and of the centre, that are not finite."""
        found = self._ranks.objects(super().culprits())
        names = {name for some, _ in found for name in some}
        ordered = [name for name in (*self.tasks, "the centre") if name in names]
        return ordered, next((where for _, where in found if where), "")

    def _take(self) -> None:
        for flat in self._models._flats:
            flat.take()

    def _total(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum over shards."""
        return self._ranks.sum_data(values) if self._models._sharded else values

    def _of_first_copy(self, grams: NDArray[np.float64]) -> NDArray[np.float64]:
        """Take the numbers of the first of several ranks with the same tasks, if they agree."""
        ranks = self._ranks
        if ranks.copies == 1:
            return grams
        first = ranks.sum_data(np.zeros_like(grams) if ranks.copy else grams)
        atol = _ALIKE * float(np.abs(first).max())
        if ranks.any(not np.allclose(grams, first, rtol=0.0, atol=atol, equal_nan=True)):
            raise ValueError(
                "The copies of a task's model on several ranks have come apart. Call "
                "`models.average_gradients()` between `backward()` and `optimizer.step()`."
            )
        return first
