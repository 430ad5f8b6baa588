"""Which rank holds which tasks, and collective operations; without a mesh there is one rank."""

import atexit
import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from crosslearning.tether import Array

_all_gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)  # its old name

Dimension = Literal["task", "data"]


class Ranks:
    """Contiguous parts of the tasks over the dimension "task"; "data" has copies or shards."""

    def __init__(self, mesh: DeviceMesh | None, n_tasks: int) -> None:
        names = () if mesh is None else mesh.mesh_dim_names or ("",)
        if set(names) - {"task", "data"}:
            raise ValueError(
                "The dimensions of `mesh` must be named 'task', 'data' or both; got "
                f"{names}. Use init_device_mesh(device, (4,), mesh_dim_names=('task',))."
            )
        if mesh is not None:
            # A process group ends its threads when nothing refers to it. One that is left in a
            # cycle of references would release tensors while Python shuts down, and abort.
            atexit.unregister(gc.collect)
            atexit.register(gc.collect)
        self.mesh = mesh
        self.tasks, self.size, self.rank = _group(mesh, "task")
        self.data, self.copies, self.copy = _group(mesh, "data")
        self._groups = {"task": (self.tasks, self.size), "data": (self.data, self.copies)}
        if self.size > n_tasks:
            raise ValueError(
                f"Every rank of the dimension 'task' holds a task; got {self.size} ranks and "
                f"{n_tasks} tasks. Use fewer ranks, or several per task in a dimension 'data'."
            )
        self.n_tasks = n_tasks
        firsts = [rank * n_tasks // self.size for rank in range(self.size + 1)]
        self.parts = [slice(*pair) for pair in pairwise(firsts)]
        self.local = self.parts[self.rank]

    @property
    def device(self) -> torch.device | None:
        """Device of the mesh, or None without one."""
        if self.mesh is None:
            return None
        kind = self.mesh.device_type
        if kind == "cpu":
            return torch.device(kind)
        return torch.device(kind, torch.get_device_module(kind).current_device())

    @property
    def is_first(self) -> bool:
        """Whether this rank reports and writes files for all."""
        return self.rank == self.copy == 0

    def gather(self, values: Array) -> Array:
        """Rows of all tasks, given those of the local ones."""
        rows = torch.from_numpy(np.ascontiguousarray(values)).to(self.device)
        return self.gather_rows(rows).cpu().numpy()

    def gather_rows(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows of all tasks, given those of the local ones."""
        if self.size == 1:
            return rows
        counts = [part.stop - part.start for part in self.parts]
        mine = rows.new_zeros((max(counts), *rows.shape[1:]))
        mine[: len(rows)] = rows
        gathered = self.gather_tensors(mine)
        return torch.cat([part[:count] for part, count in zip(gathered, counts, strict=True)])

    def gather_tensors(self, mine: torch.Tensor) -> torch.Tensor:
        """Tensors of one shape of all ranks of the dimension "task", stacked."""
        if self.size == 1:
            return mine[None]
        gathered = mine.new_empty((self.size, *mine.shape))
        _all_gather(gathered.view(-1), mine.reshape(-1), group=self.tasks)
        return gathered

    def objects(self, mine: Any) -> list[Any]:
        """Small objects of all ranks, in the order of the tasks."""
        objects = [mine]
        for group, size in self._groups.values():
            if size > 1:
                parts = [objects] * size
                dist.all_gather_object(parts, objects, group=group)
                objects = [one for part in parts for one in part]
        return objects

    def gather_first(self, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Tensors of all tasks, on the first rank only."""
        if self.size == 1 or self.copy:
            return tensors
        parts: list[Any] | None = None if self.rank else [None] * self.size
        mine = {name: value.cpu() for name, value in tensors.items()}
        dist.gather_object(mine, parts, group=self.tasks, group_dst=0)
        return {name: value for part in parts or () for name, value in part.items()}

    def sum(self, values: Array, *dimensions: Dimension) -> Array:
        """Sum over dimensions of the mesh, the same on all their ranks."""
        for name in dimensions:
            group, size = self._groups[name]
            if size > 1:
                total = torch.tensor(values, dtype=torch.float64, device=self.device)
                dist.all_reduce(total, group=group)
                values = total.cpu().numpy()
        return values

    def any(self, flag: bool) -> bool:
        return bool(self.sum(np.array([float(flag)]), "task", "data")[0])

    def barrier(self) -> None:
        self.any(False)

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """Let the first rank do something, such as fill a cache, before the others do it too."""
        if not self.is_first:
            self.barrier()
        yield
        if self.is_first:
            self.barrier()

    def broadcast(self, tensors: Iterable[torch.Tensor], *dimensions: Dimension) -> None:
        """Overwrite tensors by those of the first rank of each dimension."""
        for name in dimensions:
            group, size = self._groups[name]
            if size > 1:
                _coalesced(tensors, partial(dist.broadcast, group=group, group_src=0))

    def average(self, tensors: Iterable[torch.Tensor]) -> None:
        _coalesced(tensors, lambda one: dist.all_reduce(one.div_(self.copies), group=self.data))

    def __deepcopy__(self, _: Any) -> Self:
        return self


def _group(mesh: DeviceMesh | None, name: str) -> tuple[Any, int, int]:
    """Process group of a dimension, its size and the rank in it; one rank if there is none."""
    if mesh is None or name not in (mesh.mesh_dim_names or ()):
        return None, 1, 0
    dimension = mesh[name]
    return dimension.get_group(), dimension.size(), dimension.get_local_rank()


def _coalesced(tensors: Iterable[torch.Tensor], operation: Callable[[torch.Tensor], Any]) -> None:
    """Apply a collective operation to tensors in place, once per dtype."""
    by_dtype: dict[torch.dtype, list[torch.Tensor]] = {}
    for tensor in tensors:
        by_dtype.setdefault(tensor.dtype, []).append(tensor.detach())
    for same in by_dtype.values():
        flat = torch.cat([tensor.reshape(-1) for tensor in same])
        operation(flat)
        for tensor, part in zip(same, flat.split([t.numel() for t in same]), strict=True):
            tensor.copy_(part.view(tensor.shape))


def whole(value: torch.Tensor) -> torch.Tensor:
    """Return a tensor; one that is sharded is gathered by all ranks that have a part of it."""
    gathered: torch.Tensor = value.full_tensor() if hasattr(value, "full_tensor") else value
    return gathered
