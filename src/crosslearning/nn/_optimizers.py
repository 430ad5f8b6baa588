"""Optimizers and schedulers, which may step over one matrix instead of many tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn, optim
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from crosslearning.nn._task_models import TaskModels

# They treat every element separately.
ELEMENTWISE = (
    optim.ASGD, optim.Adadelta, optim.Adagrad, optim.Adam, optim.AdamW, optim.Adamax,
    optim.NAdam, optim.RAdam, optim.RMSprop, optim.Rprop, optim.SGD,
)  # fmt: skip

_SMALL = 1 << 16  # numbers of a parameter, on average; with more, calls cost little


def make_optimizer(source: Any, models: TaskModels) -> Optimizer:
    """Return the given optimizer, or the one that a function returns for the parameters."""
    optimizer = source(models.parameters()) if callable(source) else source
    if not isinstance(optimizer, Optimizer):
        raise ValueError(
            "`optimizer` must be a torch optimizer, or a function of parameters that returns one; "
            f"got {type(source).__name__}. Use lambda p: torch.optim.SGD(p, lr=0.1)."
        )
    expected = {id(parameter) for parameter in models.parameters()}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    foreign = sum(id(parameter) not in expected for parameter in parameters)
    if foreign:
        raise ValueError(
            f"The optimizer must hold only parameters of the models; {foreign} of its "
            f"{len(parameters)} are not. Build it with `models.parameters()`."
        )
    return optimizer


def make_scheduler(source: Any, optimizer: Optimizer) -> Any:
    """Return the given scheduler, the one that a function returns, or None."""
    scheduler = source(optimizer) if callable(source) else source
    if scheduler is not None and not hasattr(scheduler, "step"):
        raise ValueError(
            "`scheduler` must be a torch scheduler, or a function of optimizers that returns one; "
            f"got {type(source).__name__}. Use lambda o: StepLR(o, step_size=10)."
        )
    if scheduler is not None and scheduler.optimizer is not optimizer:
        raise ValueError("`scheduler` must belong to the given optimizer.")
    return scheduler


def advance(scheduler: Any, score: float) -> None:
    if isinstance(scheduler, ReduceLROnPlateau):
        scheduler.step(score)
    elif scheduler is not None:
        scheduler.step()


def learning_rate(optimizer: Optimizer) -> float:
    return float(optimizer.param_groups[0]["lr"])


def step_size(models: TaskModels, optimizer: Optimizer) -> float | None:
    """Return the learning rate if springs or tensions need it, otherwise None."""
    if all(block.tether.is_ball for block in models.blocks):
        return None
    rates = {float(group["lr"]) for group in optimizer.param_groups}
    if len(rates) > 1:
        raise ValueError(
            "Springs and tensions scale with the step, and need one learning rate for "
            f"all parameters; got {sorted(rates)}. Use one group of parameters, or a bound alone: "
            "epsilon=..."
        )
    return rates.pop()


def can_be_flat(optimizer: optim.Optimizer, models: TaskModels) -> bool:
    """Whether stepping over one matrix is equivalent and worth its memory."""
    parameters = trained(models.parameters())
    tethered = sum(flat.tasks.numel() for flat in models.flats)
    optimized = trained(one for group in optimizer.param_groups for one in group["params"])
    steps = {float(state.get("step", -1)) for state in optimizer.state.values()}
    return (
        type(optimizer) in ELEMENTWISE
        and len(optimizer.param_groups) == 1
        and list(map(id, optimized)) == list(map(id, parameters))
        and tethered == sum(one.numel() for one in parameters)
        and not (optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks)
        and len(optimizer.state) in (0, len(parameters))
        and len(steps) <= 1
        and tethered < _SMALL * len(parameters)
    )


def trained(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    """Those that are not frozen."""
    return [parameter for parameter in parameters if parameter.requires_grad]


class FlatOptimizer:
    """Makes an optimizer step over the flat buffers, in one call instead of hundreds."""

    def __init__(self, optimizer: optim.Optimizer, models: TaskModels) -> None:
        self.optimizer, self.models = optimizer, models
        self._parameters = optimizer.param_groups[0]["params"]
        self.leaves: list[nn.Parameter] = []  # the rows of the tasks of each buffer
        self.gradients: dict[str, torch.Tensor] = {}  # of a parameter of all tasks, stacked

    def flatten(self) -> None:
        """Hand over the flat buffers, and the state of the parameters with them."""
        flats, state = self.models.flats, self.optimizer.state
        self.leaves = [nn.Parameter(flat.tasks) for flat in flats]
        for flat, leaf in zip(flats, self.leaves, strict=True):
            leaf.grad = torch.zeros_like(leaf)
            for slot in flat.slots:
                part = leaf.grad[:, slot.start : slot.stop]
                self.gradients[slot.name] = part.unflatten(1, slot.shape)
            rows = [flat.tethered(module) for module in self.models.per_task]
            if state:
                state[leaf] = {
                    key: _joined(key, [[state[p][key] for p in row] for row in rows], rows)
                    for key in state[rows[0][0]]
                }
        for parameter in self.models.parameters():
            state.pop(parameter, None)
        self.optimizer.param_groups[0]["params"] = self.leaves

    def scatter(self) -> None:
        """Hand the parameters back, each with its part of the state."""
        state = self.optimizer.state
        for flat, leaf in zip(self.models.flats, self.leaves, strict=True):
            whole = state.pop(leaf, None)
            for row, module in enumerate(self.models.per_task):
                for slot, parameter in zip(flat.slots, flat.tethered(module), strict=True):
                    if whole is not None:
                        state[parameter] = {
                            key: _part(value, leaf, row, slot) for key, value in whole.items()
                        }
        self.optimizer.param_groups[0]["params"] = self._parameters


def _joined(key: str, values: list[list[Any]], rows: list[list[nn.Parameter]]) -> Any:
    """Stack state of the shape of its parameter; other state is the same for all."""
    first = values[0][0]
    if key == "step" or not isinstance(first, torch.Tensor) or first.shape != rows[0][0].shape:
        return first
    return torch.stack([torch.cat([value.reshape(-1) for value in row]) for row in values])


def _part(value: Any, leaf: nn.Parameter, row: int, slot: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.shape != leaf.shape:
        return value.clone()
    return value[row, slot.start : slot.stop].view(slot.shape)
