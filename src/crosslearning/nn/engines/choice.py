"""Which engine serves which models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn

from crosslearning.nn.engines.loop import LoopEngine
from crosslearning.nn.engines.threads import ThreadsEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crosslearning.nn.sampling import TaskBatch
    from crosslearning.nn.task_models import TaskModels

__all__ = ["Engine", "choose_engine"]

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


class Engine(Protocol):
    """Computes the gradients of a step."""

    def gradients(self, batches: Iterable[TaskBatch]) -> tuple[list[int], torch.Tensor]:
        """Leave gradients in ``.grad``; return positions of tasks, and their losses."""
        ...

    def close(self) -> None:
        """Give back what it took."""
        ...


_ENGINES: dict[str, Callable[[TaskModels, Any], Engine]] = {
    "loop": LoopEngine,
    "threads": ThreadsEngine,
}


def choose_engine(
    name: str, models: TaskModels, loss: Callable[[Any, Any], torch.Tensor]
) -> Engine:
    """Build the engine of this name; "auto" follows the rule in :func:`crosslearning.nn.fit`."""
    chosen = _automatic(models) if name == "auto" else name
    if chosen not in _ENGINES:
        known = ", ".join(map(repr, ["auto", *_ENGINES]))
        raise ValueError(f"`engine` must be one of {known}; got {name!r}.")
    return _ENGINES[chosen](models, loss)


def _automatic(models: TaskModels) -> str:
    on_cpu = next(models.parameters()).device.type == "cpu"
    convolves = any(isinstance(part, _CONVOLUTIONS) for part in models.center.modules())
    if convolves and on_cpu and len(models) > 1 and torch.get_num_threads() > 1:
        return "threads"
    return "loop"
