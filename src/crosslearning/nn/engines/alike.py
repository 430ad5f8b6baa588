"""Which models can pass through one computation, stacked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

if TYPE_CHECKING:
    from crosslearning.nn.task_models import TaskModels

__all__ = ["is_layered", "refuse_unlike"]

_LAYERS = ("activation", "container", "dropout", "flatten", "linear")
_OF_TORCH = tuple(f"torch.nn.modules.{kind}" for kind in _LAYERS)


def refuse_unlike(models: TaskModels) -> None:
    """Raise ValueError if the modules of two tasks are not of the same make."""
    first, label = _make(models.per_task[0]), models.tasks[0]
    for task, module in models.items():
        if _make(module) != first:
            raise ValueError(
                "A pass over all tasks at once needs one architecture for all; that of task "
                f"{task!r} differs from that of task {label!r}. Use engine='loop'."
            )


def is_layered(module: nn.Module) -> bool:
    """Whether a module is made of linear layers, activations and dropout of torch, no more.

    Examples
    --------
    >>> is_layered(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)))
    True
    >>> is_layered(nn.Sequential(nn.Conv2d(1, 1, 3), nn.Flatten()))
    False
    """
    return all(
        type(part) is nn.LayerNorm
        or (type(part).__module__ in _OF_TORCH and type(part) is not nn.MultiheadAttention)
        for part in module.modules()
    )


def _make(module: nn.Module) -> tuple[Any, ...]:
    """Layers with their options, and parameters with their shapes."""
    parameters = [
        (name, parameter.shape, parameter.dtype, parameter.requires_grad)
        for name, parameter in module.named_parameters()
    ]
    buffers = [(name, buffer.shape, buffer.dtype) for name, buffer in module.named_buffers()]
    return repr(module), parameters, buffers
