"""What a run is made of, to tell whether a checkpoint belongs to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from crosslearning.nn.persistence import encode_tether
from crosslearning.nn.state import encode_label

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from crosslearning.nn.run import Run
    from crosslearning.nn.task_models import TaskModels

__all__ = ["configuration", "differences"]


def configuration(run: Run) -> dict[str, Any]:
    """Describe a run in JSON; two that agree in it train alike, given the same data."""
    models, plan, validation = run.models, run.feed.plan, run.validation
    described = {
        "tasks": [encode_label(task) for task in models.tasks],
        "architecture": _architecture(models),
        "tethers": {block.name: encode_tether(block.tether) for block in models.blocks},
        "center_weight": models.center_weight,
        "optimizer": _optimizer(run.optimizer),
        "scheduler": None if run.scheduler is None else type(run.scheduler).__name__,
        "seed": run.feed.seed,
        "rows": list(plan.sizes),
        "rows per task and step": plan.per_step,
        "steps per epoch": plan.steps,
        "project_every": run.project_every,
        "augment": run.feed.augment is not None,
        "validation rows": None
        if validation is None
        else [len(source) for source in validation.sources.values()],
        "metric": None if validation is None else validation.named,
        "patience": None if validation is None else validation.patience,
    }
    same: dict[str, Any] = json.loads(json.dumps(described))
    return same


def differences(there: Any, here: Any, name: str = "") -> list[str]:
    """Sentences that say where two descriptions differ."""
    if isinstance(there, dict) and isinstance(here, dict):
        keys = dict.fromkeys([*there, *here])
        prefix = f"{name}: " if name else ""
        found = [differences(there.get(key), here.get(key), f"{prefix}{key}") for key in keys]
        return [sentence for sentences in found for sentence in sentences]
    return [] if there == here else [f"{name} is {there!r} there and {here!r} here"]


def _architecture(models: TaskModels) -> dict[str, str]:
    state = models.state_dict()
    return {
        name: f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
        for name, value in state.items()
        if not name.endswith("_extra_state")
    }


def _optimizer(optimizer: Optimizer) -> dict[str, Any]:
    """Class and options of each group; of the learning rate where it started."""
    groups = {
        f"group {number}": {
            "parameters": len(group["params"]),
            **{name: repr(value) for name, value in group.items() if name != "params"},
            "lr": repr(group.get("initial_lr", group["lr"])),
        }
        for number, group in enumerate(optimizer.param_groups)
    }
    return {"class": type(optimizer).__name__, **groups}
