"""Which engine serves which models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn

from crosslearning.nn.engines.alike import is_layered
from crosslearning.nn.engines.loop import LoopEngine
from crosslearning.nn.engines.threads import ThreadsEngine
from crosslearning.nn.engines.vmap import VmapEngine

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from crosslearning.nn.sampling import Feed
    from crosslearning.nn.task_models import TaskModels

__all__ = ["Engine", "choose_engine"]

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_MANY = 8  # tasks from which on one pass over all is faster, for linear layers


class Engine(Protocol):
    """Computes the gradients of a step."""

    def gradients(self, step: int) -> tuple[list[int], torch.Tensor]:
        """Leave gradients where the optimizer looks; return positions of tasks, and losses."""
        ...

    def released(self) -> AbstractContextManager[None]:
        """Leave the optimizer as it was given, for a while."""
        ...

    def close(self) -> None:
        """Give back what it took."""
        ...


_ENGINES: dict[str, Callable[..., Engine]] = {
    "loop": LoopEngine,
    "threads": ThreadsEngine,
    "vmap": VmapEngine,
}


def choose_engine(
    name: str,
    models: TaskModels,
    loss: Callable[[Any, Any], torch.Tensor],
    optimizer: torch.optim.Optimizer,
    feed: Feed,
) -> Engine:
    """Build the engine of this name; "auto" follows the rule in :func:`crosslearning.nn.fit`."""
    chosen = automatic(models, loss, feed) if name == "auto" else name
    if chosen not in _ENGINES:
        known = ", ".join(map(repr, ["auto", *_ENGINES]))
        raise ValueError(f"`engine` must be one of {known}; got {name!r}.")
    return _ENGINES[chosen](models, loss, optimizer, feed)


def automatic(models: TaskModels, loss: Any, feed: Feed) -> str:
    """Choose by what is known before training, so that the same run has the same engine."""
    layered = all(is_layered(module) for module in models.per_task)
    alike = len({repr(module) for module in models.per_task}) == 1
    of_torch = (getattr(loss, "__module__", None) or "").startswith("torch.nn.")
    if len(models) >= _MANY and layered and alike and of_torch and feed.stackable:
        return "vmap"
    on_cpu = next(models.parameters()).device.type == "cpu"
    convolves = any(isinstance(part, _CONVOLUTIONS) for part in models.center.modules())
    if convolves and on_cpu and len(models) > 1 and torch.get_num_threads() > 1:
        return "threads"
    return "loop"
