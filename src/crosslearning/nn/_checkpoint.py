"""Checkpoints from which a run resumes exactly, in one file.

They hold models, pulls, optimizer, scheduler, sums of the current epoch, best epoch and history.
Random numbers need no state; see `_seeds`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from crosslearning.nn._files import encode_label, encode_tether, pack, read_file, unpack, write_file
from crosslearning.nn._history import from_columns, to_columns

if TYPE_CHECKING:
    import os

    from torch.optim import Optimizer

    from crosslearning.nn._ranks import Ranks
    from crosslearning.nn._run import Run

KIND = "a checkpoint of fit"
_SHOWN = 3  # differences that a message lists
_PLAIN = ("step", "stopped", "seconds")  # of a run, for JSON


class Checkpoint:
    """A file to which a run is saved after every epoch, and in between."""

    def __init__(self, path: str | os.PathLike[str], every: int | None, run: Run) -> None:
        self.path, self.every, self.run = Path(path), every, run
        self.configuration = configuration(run)  # schedulers change options later

    @property
    def file(self) -> Path:
        """The file that marks the progress of a run."""
        return self.path

    @property
    def is_due(self) -> bool:
        """Whether an epoch has ended, or so many steps."""
        ends_epoch = self.run.step % self.run.steps == 0
        return ends_epoch or (self.every is not None and self.run.step % self.every == 0)

    def save(self) -> None:
        run = self.run
        tensors, content = self.stored()
        content["models"] = pack(dict(run.models.state_dict()), "models", tensors)
        content["optimizer"] = pack(run.optimizer.state_dict(), "optimizer", tensors)
        if run.validation is not None:
            content["best"] = pack(run.validation.state(), "best", tensors)
        write_file(self.file, KIND, tensors, content)

    def resume(self, epochs: int) -> None:
        """Resume the run from the file, if it exists."""
        ranks = self.run.models.ranks
        for leftover in self.file.parent.glob(f".{self.file.name}.*.tmp") if ranks.is_first else ():
            leftover.unlink()  # of a process killed while writing
        if not ranks.objects(self.file.exists())[0]:
            return
        try:
            tensors, content = read_file(self.file, KIND, "")
            self._refuse_another(content, epochs)
            self.restore(tensors, content)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            reason = f"it lacks {error}." if isinstance(error, KeyError) else error
            raise ValueError(
                f"The checkpoint {self.path} cannot be resumed from: {reason} "
                "Delete it to start from the beginning, or use another path."
            ) from error

    def stored(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Return all but the models, as tensors and as JSON."""
        run = self.run
        tensors = {"epoch": torch.from_numpy(np.stack([run.sums, run.counts]))}
        content = {
            "run": self.configuration | tethers(run, run.step),
            "history": pack(to_columns(run.history.records), "history", tensors),
            **{name: getattr(run, name) for name in _PLAIN},
        }
        if run.scheduler is not None:
            content["scheduler"] = pack(run.scheduler.state_dict(), "scheduler", tensors)
        return tensors, content

    def restore(self, tensors: dict[str, torch.Tensor], content: dict[str, Any]) -> None:
        """Restore the whole run."""
        run = self.run
        self.restore_models(tensors, content)
        if run.scheduler is not None:
            run.scheduler.load_state_dict(unpack(content["scheduler"], tensors))
        if run.validation is not None:
            run.history.best_epoch = run.validation.best_epoch
        for name in _PLAIN:
            setattr(run, name, content[name])
        run.sums, run.counts = tensors["epoch"].numpy()
        run.history.records = from_columns(unpack(content["history"], tensors))

    def restore_models(self, tensors: dict[str, torch.Tensor], content: dict[str, Any]) -> None:
        """Restore the models, the state of the optimizer, and the best models so far."""
        run = self.run
        run.models.load_state_dict(unpack(content["models"], tensors))
        run.optimizer.load_state_dict(unpack(content["optimizer"], tensors))
        if run.validation is not None:
            run.validation.load_state(unpack(content["best"], tensors))

    def _refuse_another(self, content: dict[str, Any], epochs: int) -> None:
        here = self.configuration | tethers(self.run, content["step"])
        changed = differences(content["run"], here)
        done = content["step"] // self.run.steps
        if not changed and epochs < done:
            changed = [f"`epochs` is {epochs}, but {done} are done"]
        if changed:
            more = f"; and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
            raise ValueError(f"it belongs to another run: {'; '.join(changed[:_SHOWN])}{more}.")


def configuration(run: Run) -> dict[str, Any]:
    """Describe a run in JSON; runs with equal descriptions and data train alike."""
    models, plan, validation = run.models, run.feed.plan, run.validation
    ranks = models.ranks
    rows = {} if validation is None else {t: len(s) for t, s in validation.sources.items()}
    tensors = {
        name: f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
        for name, value in models.state_dict().items()
        if not name.endswith("_extra_state")
    }
    described = {
        "tasks": [encode_label(task) for task in models.tasks],
        "architecture": _merged(ranks.objects(tensors)),
        "center_weight": models.center_weight,
        "optimizer": _optimizer(run.optimizer, ranks),
        "scheduler": None if run.scheduler is None else type(run.scheduler).__name__,
        "seed": run.feed.seed,
        "rows": list(plan.sizes),
        "rows per task and step": plan.per_step,
        "steps per epoch": plan.steps,
        "project_every": run.project_every,
        "augment": run.feed.augment is not None,
        "validation rows": None if validation is None else [*_merged(ranks.objects(rows)).values()],
        "metric": None if validation is None else name_of(validation.user_metric),
        "patience": None if validation is None else validation.patience,
    }
    return json.loads(json.dumps(described))


def tethers(run: Run, step: int) -> dict[str, Any]:
    """Describe what has applied until a step: while all is pooled, no radius has."""
    pooled = {block.name: run.pooled_steps.get(block.name, 0) for block in run.models.blocks}
    return {
        "pooled steps": {name: min(step, last) for name, last in pooled.items()},
        "tethers": {
            block.name: None if step <= pooled[block.name] else encode_tether(block.tether)
            for block in run.models.blocks
        },
    }


def differences(there: Any, here: Any, name: str = "") -> list[str]:
    """Return sentences about differences between two descriptions."""
    if isinstance(there, dict) and isinstance(here, dict):
        keys = dict.fromkeys([*there, *here])
        prefix = f"{name}: " if name else ""
        nested = [differences(there.get(key), here.get(key), f"{prefix}{key}") for key in keys]
        return [sentence for sentences in nested for sentence in sentences]
    return [] if there == here else [f"{name} is {there!r} there and {here!r} here"]


def _merged(parts: list[dict[Any, Any]]) -> dict[Any, Any]:
    return {key: value for part in parts for key, value in part.items()}


def _optimizer(optimizer: Optimizer, ranks: Ranks) -> dict[str, Any]:
    """Class, and options of each group with the initial learning rate."""
    groups = {
        f"group {number}": {
            "parameters": int(ranks.sum(np.array([float(len(group["params"]))]), "task")[0]),
            **{name: repr(value) for name, value in group.items() if name != "params"},
            "lr": repr(group.get("initial_lr", group["lr"])),
        }
        for number, group in enumerate(optimizer.param_groups)
    }
    return {"class": type(optimizer).__name__, **groups}


def name_of(function: Any) -> str | None:
    """Describe a function, a module or a word, independent of the process."""
    if function is None or isinstance(function, str):
        return function
    name = getattr(function, "__qualname__", None)
    if name is not None:
        return str(name)
    described = repr(function)
    return type(function).__qualname__ if " at 0x" in described else described
