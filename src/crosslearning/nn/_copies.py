"""One module per task and one for the centre, with the tethered parameters in flat buffers."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import nn

from crosslearning.nn._blocks import ALL, divide
from crosslearning.nn._flat_buffer import FlatBuffer, find_parameter

if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import Any

    from crosslearning.nn._blocks import Block

__all__ = ["copy_modules", "divide_parameters", "set_start", "sources_of"]


def sources_of(module: Any, labels: tuple[Hashable, ...]) -> list[nn.Module]:
    """Return the module to copy for each task."""
    given = (
        [module[label] for label in labels]
        if isinstance(module, Mapping)
        else [module] * len(labels)
    )
    for one in given:
        if not isinstance(one, nn.Module):
            raise ValueError(
                "`module` must be a torch.nn.Module, or a mapping from task to one; got "
                f"{type(one).__name__}."
            )
    return given


def divide_parameters(
    sources: list[nn.Module], labels: tuple[Hashable, ...], epsilon: Any, tether: Any
) -> tuple[Block, ...]:
    """Divide the first module's parameters into blocks, and check that all modules have them."""
    names = [name for name, _ in sources[0].named_parameters()]
    blocks = divide(names, epsilon, tether, len(sources))
    for source, label in zip(sources[1:], labels[1:], strict=True):
        if source is sources[0]:
            continue
        shapes = {name: parameter.shape for name, parameter in source.named_parameters()}
        for block in blocks:
            _check_agreement(block, sources[0], shapes, labels[0], label)
        extra = [name for name in shapes if name not in names]
        if extra and blocks[0].name == ALL:
            raise _disagreement(extra[0], "missing", tuple(shapes[extra[0]]), labels[0], label)
    return blocks


def copy_modules(
    sources: list[nn.Module], blocks: tuple[Block, ...], labels: tuple[Hashable, ...]
) -> tuple[list[nn.Module], list[FlatBuffer]]:
    """Copy the modules of the tasks, and the first once more as the centre, into flat buffers."""
    owners = [*(f"task {label!r}" for label in labels), "the centre"]
    buffers = [FlatBuffer(block.parameters, sources[0], owners) for block in blocks]
    modules = []
    for row, source in enumerate([*sources, sources[0]]):
        module = copy.deepcopy(source)
        for buffer in buffers:  # one after the other: at most one copy is outside of them
            buffer.adopt(row, module)
        module.zero_grad(set_to_none=True)
        modules.append(module)
    return modules, buffers


def set_start(flat: FlatBuffer, center_init: str, same_start: bool) -> None:
    """Set where tasks and centre start, given the parameters of the tasks' modules."""
    with torch.no_grad():
        if same_start:
            flat.tasks.copy_(flat.flat[0].clone())
        if center_init == "zero":
            flat.center.zero_()
        else:
            flat.center.copy_(flat.flat[0] if same_start else flat.tasks.mean(dim=0))


def _check_agreement(
    block: Block, first: nn.Module, shapes: dict[str, Any], label: Hashable, other: Hashable
) -> None:
    for name in block.parameters:
        shape = find_parameter(first, name).shape
        if shapes.get(name) != shape:
            found = tuple(shapes[name]) if name in shapes else "missing"
            raise _disagreement(name, tuple(shape), found, label, other)


def _disagreement(
    name: str, shape: object, found: object, label: Hashable, other: Hashable
) -> ValueError:
    return ValueError(
        f"Tethered parameters must have the same names and shapes in all tasks; {name!r} is "
        f"{shape} in task {label!r} and {found} in task {other!r}. Tether only what the tasks "
        "share, by the beginning of the names: epsilon={prefix: ...}."
    )
