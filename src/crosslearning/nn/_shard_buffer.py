"""Parameters sharded by FSDP2: a matrix of the local shards, a row per task.

FSDP manages the memory of its parameters. The matrix is a copy of the local shards, taken before a
projection and copied back after it; whole parameters are never gathered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, Shard

from crosslearning.nn._flat_buffer import FlatBuffer


class ShardBuffer(FlatBuffer):
    """Matrix of shape (n_tasks + 1, n_local_parameters) with copies of the shards of a block."""

    def __init__(
        self, names: Sequence[str], modules: list[nn.Module], owners: Sequence[str], n_tasks: int
    ) -> None:
        self.owners, self._n_tasks = tuple(owners), n_tasks
        self.slots, self._names, self._modules = (), tuple(names), modules
        self.frozen, self._workspace = {}, None
        for name in names:
            parameter = modules[0].get_parameter(name)
            if not isinstance(parameter, DTensor) or not isinstance(parameter.placements[0], Shard):
                raise ValueError(
                    f"`shard` must shard every tethered parameter; {name!r} is not sharded. "
                    "Use shard=fully_shard, or do not tether it: epsilon={prefix: ...}."
                )
        shards = self._shards(modules[0])
        self.flat = shards[0].new_empty((len(owners), sum(shard.numel() for shard in shards)))

    @property
    def sizes(self) -> dict[str, int]:
        """Number of columns of each parameter on this rank, in their order."""
        shards = self._shards(self._modules[0])
        return {name: one.numel() for name, one in zip(self._names, shards, strict=True)}

    @property
    def tasks(self) -> torch.Tensor:
        """Copies of the current shards of the tasks."""
        self.take()
        return self.flat[:-1]

    def take(self) -> None:
        """Copy the shards into the matrix."""
        for row, shards in zip(self.flat, map(self._shards, self._modules), strict=True):
            torch.cat([shard.reshape(-1) for shard in shards], out=row)

    def give(self) -> None:
        """Copy the matrix back into the shards."""
        for row, shards in zip(self.flat, map(self._shards, self._modules), strict=True):
            for shard, part in zip(shards, row.split([s.numel() for s in shards]), strict=True):
                shard.copy_(part.view(shard.shape))

    def adopt(self, *_: Any) -> None:
        """Leave the parameters where they are."""

    def convert(self, *_: Any) -> None:
        """Refuse: FSDP manages its parameters."""
        raise ValueError(
            "Sharded models cannot be converted. Convert the module before passing it to "
            "TaskModels."
        )

    def tethered(self, module: nn.Module) -> list[nn.Parameter]:
        """Parameters of the block in a module, sharded."""
        for part in module.modules():  # a forward pass may have left parameters gathered
            if isinstance(part, FSDPModule):
                part.reshard()
        return [module.get_parameter(name) for name in self._names]

    def _shards(self, module: nn.Module) -> list[torch.Tensor]:
        """Shards that this rank holds, in FSDP's memory."""
        shards: list[Any] = self.tethered(module)
        return [parameter.detach().to_local() for parameter in shards]
