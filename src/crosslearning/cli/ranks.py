"""A command under ``torchrun``: which rank reports and writes, and how tasks are spread."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
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
        """Connect the ranks."""
        if self.size == 1:
            yield
            return
        import torch.distributed as dist

        dist.init_process_group("gloo")
        try:
            yield
        finally:
            dist.destroy_process_group()

    def first_alone(self) -> AbstractContextManager[None]:
        """Let the first rank do something, such as fill a cache, before the others do it too."""
        if self.size == 1:
            return nullcontext()
        from crosslearning.nn._ranks import Ranks as MeshRanks

        return MeshRanks(self.mesh(n_tasks=1), n_tasks=1).first_alone()

    def mesh(self, n_tasks: int) -> "DeviceMesh | None":
        """Use as many ranks for different tasks as possible, and the others to share them."""
        if self.size == 1:
            return None
        from torch.distributed.device_mesh import init_device_mesh

        apart = max(n for n in range(1, n_tasks + 1) if self.size % n == 0)
        return init_device_mesh("cpu", (apart, self.size // apart), mesh_dim_names=("task", "data"))
