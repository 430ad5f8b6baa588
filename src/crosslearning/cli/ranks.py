"""A command under ``torchrun``: who speaks and writes, and how tasks are spread."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

__all__ = ["Ranks"]


class Ranks:
    """The processes that ``torchrun`` has started, or this one alone."""

    def __init__(self) -> None:
        self.size = int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1
        self.is_first = self.size == 1 or os.environ["RANK"] == "0"

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Let the ranks talk to each other."""
        if self.size == 1:
            yield
            return
        import torch.distributed as dist

        dist.init_process_group("gloo")
        try:
            yield
        finally:
            dist.destroy_process_group()

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """Let the first rank do something, such as fill a cache, before the others do it too."""
        if not self.is_first:
            self._barrier()
        yield
        if self.is_first:
            self._barrier()

    def mesh(self, n_tasks: int) -> "DeviceMesh | None":
        """As many ranks for different tasks as there can be, and the others to share them."""
        if self.size == 1:
            return None
        from torch.distributed.device_mesh import init_device_mesh

        apart = max(n for n in range(1, n_tasks + 1) if self.size % n == 0)
        return init_device_mesh("cpu", (apart, self.size // apart), mesh_dim_names=("task", "data"))

    def _barrier(self) -> None:
        if self.size > 1:
            import torch.distributed as dist

            dist.barrier()
