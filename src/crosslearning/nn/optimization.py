"""Optimizer and scheduler: given, or made for the parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import optim
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

if TYPE_CHECKING:
    from crosslearning.nn.task_models import TaskModels

__all__ = [
    "ELEMENTWISE",
    "advance",
    "learning_rate",
    "make_optimizer",
    "make_scheduler",
    "step_size",
]

# They treat each number by itself, wherever it is.
ELEMENTWISE = (
    optim.ASGD, optim.Adadelta, optim.Adagrad, optim.Adam, optim.AdamW, optim.Adamax,
    optim.NAdam, optim.RAdam, optim.RMSprop, optim.Rprop, optim.SGD,
)  # fmt: skip


def make_optimizer(given: Any, models: TaskModels) -> Optimizer:
    """Return the optimizer given, or the one that a function makes of the parameters."""
    optimizer = given if isinstance(given, Optimizer) else _call(given, models)
    own = {id(parameter) for parameter in models.parameters()}
    held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    foreign = sum(id(parameter) not in own for parameter in held)
    if foreign:
        raise ValueError(
            f"The optimizer must hold parameters of the models only; {foreign} of its {len(held)} "
            "are others. Build it with `models.parameters()`."
        )
    return optimizer


def _call(given: Any, models: TaskModels) -> Optimizer:
    optimizer = given(models.parameters()) if callable(given) else given
    if not isinstance(optimizer, Optimizer):
        raise ValueError(
            "`optimizer` must be a torch optimizer, or a function that makes one of parameters; "
            f"got {type(given).__name__}. Use lambda p: torch.optim.SGD(p, lr=0.1)."
        )
    return optimizer


def make_scheduler(given: Any, optimizer: Optimizer) -> Any:
    """Return the scheduler given, or the one that a function makes of the optimizer, or None."""
    scheduler = given(optimizer) if callable(given) else given
    if scheduler is not None and not hasattr(scheduler, "step"):
        raise ValueError(
            "`scheduler` must be a torch scheduler, or a function that makes one of an optimizer; "
            f"got {type(given).__name__}. Use lambda o: StepLR(o, step_size=10)."
        )
    if scheduler is not None and scheduler.optimizer is not optimizer:
        raise ValueError("`scheduler` must steer the optimizer that is given with it.")
    return scheduler


def advance(scheduler: Any, score: float) -> None:
    """Step a scheduler at the end of an epoch."""
    if isinstance(scheduler, ReduceLROnPlateau):
        scheduler.step(score)
    elif scheduler is not None:
        scheduler.step()


def learning_rate(optimizer: Optimizer) -> float:
    """Learning rate of the first group of parameters."""
    return float(optimizer.param_groups[0]["lr"])


def step_size(models: TaskModels, optimizer: Optimizer) -> float | None:
    """Length of a gradient step where springs and tensions need it, otherwise None."""
    if all(block.tether.is_ball for block in models.blocks):
        return None
    rates = {float(group["lr"]) for group in optimizer.param_groups}
    if len(rates) > 1:
        raise ValueError(
            "Springs and tensions act in proportion to the step, and need one learning rate for "
            f"all parameters; got {sorted(rates)}. Use one group of parameters, or a bound alone: "
            "epsilon=..."
        )
    return rates.pop()
