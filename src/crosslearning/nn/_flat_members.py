"""The flat buffers of :class:`TaskModels` as members of a coupling, and the result by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from crosslearning.coupling import Coupling, Status, Storage
from crosslearning.nn._workspace import Columns, Workspace
from crosslearning.tether import Array, Flags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crosslearning.nn._flat_buffer import FlatBuffer
    from crosslearning.nn._task_models import TaskModels

_FRESH = 50  # steps after which norms, which change slowly, are measured again
_ALIKE = 1e-3  # relative difference of Gram matrices of copies that have the same gradients


class FlatMembers:
    """Rows of matrices with one row per local task and a last one for the centre, moved in place.

    With a mesh, every method is collective.
    """

    def __init__(self, models: TaskModels) -> None:
        self._models, self._ranks, blocks = models, models.ranks, models.blocks
        self.tasks = [f"task {label!r}" for label in models.tasks]
        self.groups = [f"block {block.name!r}" if len(blocks) > 1 else "" for block in blocks]
        self._columns: list[Columns] = []
        self._measured: list[Workspace] = []
        self._age = 0

    @property
    def _local(self) -> list[Workspace]:
        return [flat.workspace for flat in self._models.flats]

    @property
    def _joint(self) -> Sequence[Workspace | Columns]:
        """What passes over the rows of all tasks, block by block."""
        local = self._local
        if self._ranks.size == 1:
            return local
        if [one.local for one in self._columns] != local:
            self._columns = [Columns(one, self._ranks) for one in local]
        return self._columns

    def gram(self) -> Array:
        self._refuse_partly_frozen()
        self._take()
        grams = np.stack([one.gram() for one in self._joint])
        return self._total(grams) if self._models.sharded else self._of_first_copy(grams)

    def move(self, pull: Array, weights: Array) -> None:
        for one, block_pull, block_weights in zip(self._joint, pull, weights, strict=True):
            one.move(block_pull, block_weights)
        for flat in self._models.flats:
            flat.give()

    def distances(self, *, exactly: bool = False) -> Array:
        self._take()
        local = np.stack([one.distances(exactly=exactly) for one in self._local])
        if self._models.sharded:
            local = np.sqrt(self._total(local**2))
        return self._ranks.gather(local.T).T

    def storage(self) -> Storage:
        """Precision of the blocks; norms are the first task's, at most `_FRESH` steps old."""
        local = self._local
        if self._age % _FRESH == 0 or self._measured != local:
            norms = np.sqrt(self._total(np.array([one.norm() ** 2 for one in local])))
            self._norms = self._ranks.gather(np.tile(norms, (len(self._models.per_task), 1)))[0]
            widths = self._total(np.array([float(one.n_columns) for one in local]))
            self._sizes = np.maximum(widths, 1.0).astype(int).tolist()
            self._measured = local
        self._age += 1
        dtypes = [flat.flat.dtype for flat in self._models.flats]
        return dtype_storage(dtypes, self._norms, self._sizes)

    def culprits(self) -> tuple[list[str], str]:
        """Names of tasks, and of the centre, that are not finite; and the first such parameter."""
        culprits = [
            (flat, row)
            for flat in self._models.flats
            for row, values in enumerate(flat.flat)
            if not values.isfinite().all()
        ]
        where = self._first_not_finite(*culprits[0]) if culprits else ""
        parts = self._ranks.objects(([flat.owners[row] for flat, row in culprits], where))
        names = {name for some, _ in parts for name in some}
        ordered = [name for name in (*self.tasks, "the centre") if name in names]
        return ordered, next((where for _, where in parts if where), "")

    def _first_not_finite(self, flat: FlatBuffer, row: int) -> str:
        module = self._models.rows()[row]
        for slot in flat.slots:  # there are none of shards, which are not examined one by one
            parameter = module.get_parameter(slot.name)
            if not parameter.isfinite().all():
                gradient = parameter.grad
                also = gradient is not None and not bool(gradient.isfinite().all())
                return f"first in {slot.name!r}" + (", as is its gradient" if also else "")
        return ""

    def _take(self) -> None:
        for flat in self._models.flats:
            flat.take()

    def _refuse_partly_frozen(self) -> None:
        """Raise the same error on all ranks if a parameter is frozen in some tasks only."""
        flats, ranks = self._models.flats, self._ranks
        names = [name for flat in flats for name in flat.frozen]
        local = np.array([n for flat in flats for n in flat.frozen.values()], dtype=np.float64)
        counts = ranks.sum(local, "task", "data") / ranks.copies
        for name, count in zip(names, counts, strict=True):
            if 0 < count < ranks.n_tasks:
                raise ValueError(
                    f"A tethered parameter must be frozen in all tasks or in none; {name!r} is "
                    f"frozen in {count:g} of {ranks.n_tasks}. Freeze it in all tasks, or do not "
                    "tether it: epsilon={prefix: ...}."
                )

    def _total(self, values: Array) -> Array:
        """Sum over shards."""
        return self._ranks.sum(values, "data") if self._models.sharded else values

    def _of_first_copy(self, grams: Array) -> Array:
        """Take the numbers of the first of several ranks with the same tasks, if they agree."""
        ranks = self._ranks
        if ranks.copies == 1:
            return grams
        first = ranks.sum(np.zeros_like(grams) if ranks.copy else grams, "data")
        atol = _ALIKE * float(np.abs(first).max())
        if ranks.any(not np.allclose(grams, first, rtol=0.0, atol=atol, equal_nan=True)):
            raise ValueError(
                "The copies of a task's model on several ranks have diverged. Call "
                "`models.average_gradients()` between `backward()` and `optimizer.step()`."
            )
        return first


def dtype_storage(dtypes: Sequence[torch.dtype], norms: Array, sizes: Sequence[int]) -> Storage:
    names = [str(dtype).removeprefix("torch.") for dtype in dtypes]
    eps = np.array([torch.finfo(dtype).eps for dtype in dtypes])
    return Storage(names, eps, norms, np.array(sizes))


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
