"""Callbacks for training loops of others: they project after each step of the optimizer."""

from torch import nn
from torch.optim import Optimizer

from crosslearning.nn._task_models import TaskModels
from crosslearning.nn._training import step_size


def task_models(module: nn.Module) -> list[TaskModels]:
    """Return the :class:`TaskModels` inside a module; there must be one."""
    inside = [part for part in module.modules() if isinstance(part, TaskModels)]
    if not inside:
        raise ValueError(
            f"The trained module must contain TaskModels to project; {type(module).__name__} has "
            "none. Assign them to an attribute: self.models = TaskModels(...)."
        )
    return inside


def project_inside(module: nn.Module, optimizer: Optimizer) -> None:
    """Project all :class:`TaskModels` inside a module after a step of the optimizer."""
    for models in task_models(module):
        rate = step_size(models, optimizer)
        if rate != 0.0:  # then springs have nothing to do
            models.project(rate)
