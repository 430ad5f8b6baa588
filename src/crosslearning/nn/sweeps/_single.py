"""Runs of a sweep trained one by one; finished runs are kept in files."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import nn

from crosslearning.files import write_json
from crosslearning.nn._checkpoint import name_of
from crosslearning.nn._evaluation import score_sources
from crosslearning.nn._history import History
from crosslearning.nn._seeds import build, derive
from crosslearning.nn._sources import digest
from crosslearning.nn._task_models import TaskModels
from crosslearning.nn._training import fit
from crosslearning.nn.sweeps._settings import Plan, Setting

_NUMBERS = ("batch_size", "sampling", "project_every")  # of a plan, for `fit`


def train_single(
    plan: Plan, setting: Setting, seed: int, engine: Any, checkpoint: Path | None
) -> list[dict[str, Any]]:
    """Train one setting with one seed, and return its rows of the table, task by task."""
    module, weight = build(plan.module, seed), plan.center_weight
    models = TaskModels(
        module, plan.data, tether=plan.tether(setting), center_weight=weight, mesh=plan.mesh
    )
    run = setting.run(seed)
    history = _fit(plan, models, run, seed, engine, checkpoint)
    if setting.method == "fine-tuned":
        pooled = {
            task: models[task] if task in models.local_tasks else models.center
            for task in models.tasks
        }
        models = TaskModels(pooled, epsilon=math.inf, same_start=False, mesh=plan.mesh)
        second = checkpoint and checkpoint.with_suffix(".fine.safetensors")
        history = _fit(plan, models, run, derive(seed, "fine-tuned"), engine, second)
    last, distances = history.records[-1], models.distances()
    scores = score_sources(models, plan.test_sources(), plan.judge)
    measured = [{}] * len(models) if plan.measure is None else plan.measure(run, models, history)
    return [
        {
            "loss": float(last.losses[row]),
            "score": scores[task],
            "distance": float(distances[row]),
            "pull": float(last.pulls[row]),
            **more,
        }
        for row, (task, more) in enumerate(zip(models.tasks, measured, strict=True))
    ]


def _fit(
    plan: Plan, models: TaskModels, run: Any, seed: int, engine: Any, checkpoint: Path | None
) -> History:
    told = plan.on_epoch
    return fit(
        models,
        plan.data,
        plan.loss,
        plan.optimizer,
        plan.epochs,
        **{name: getattr(plan, name) for name in (*_NUMBERS, "scheduler", "augment")},
        callbacks=() if told is None else [lambda record: told(run, record)],
        engine=engine,
        seed=seed,
        checkpoint=checkpoint,
        checkpoint_every=plan.checkpoint_every if checkpoint else None,
    )


class Folder:
    """A folder with one file per finished run, and a description of the sweep."""

    def __init__(self, path: str | os.PathLike[str], plan: Plan) -> None:
        self.path, self._mesh = Path(path), plan.mesh
        self.path.mkdir(parents=True, exist_ok=True)
        about, wanted = self.path / "sweep.json", _description(plan)
        if not about.exists():
            write_json(about, wanted)
        found = _read(about)
        known = found if isinstance(found, dict) else {}
        if other := [name for name, value in wanted.items() if known.get(name) != value]:
            raise ValueError(
                f"The folder {path} holds another sweep, which differs in {', '.join(other)}. "
                "Choose another folder, or delete this one."
            )

    def find(self, setting: Setting, seed: int) -> list[dict[str, Any]] | None:
        """Rows of a finished run, or None."""
        file = self._file(setting, seed, "json")
        return list(_read(file)) if file.exists() else None

    def keep(self, setting: Setting, seed: int, rows: list[dict[str, Any]]) -> None:
        """Write the rows of a finished run, and remove its checkpoints."""
        write_json(self._file(setting, seed, "json"), rows)
        for suffix in ("safetensors", "fine.safetensors"):
            self._file(setting, seed, suffix).unlink(missing_ok=True)
            shutil.rmtree(self._file(setting, seed, f"ranks.{suffix}"), ignore_errors=True)

    def checkpoint(self, setting: Setting, seed: int) -> Path:
        """File, or folder of ranks, for the state of a run that is not finished."""
        suffix = "safetensors" if self._mesh is None else "ranks.safetensors"
        return self._file(setting, seed, suffix)

    def _file(self, setting: Setting, seed: int, suffix: str) -> Path:
        return self.path / f"{setting.key}-seed-{seed}.{suffix}"


def _description(plan: Plan) -> dict[str, Any]:
    """Describe a sweep in JSON; a folder holds runs of equal descriptions."""
    functions = ("loss", "metric", "scheduler", "augment")
    names = ("epochs", *_NUMBERS, "center_weight", "blocks")
    parts = {"data": plan.sources(), "test": plan.test_sources()}
    return {
        "model": repr(build(plan.module, 0)),
        **{
            part: {repr(task): [len(source), digest(source)] for task, source in sources.items()}
            for part, sources in parts.items()
        },
        **{name: name_of(getattr(plan, name)) for name in functions},
        **{name: getattr(plan, name) for name in names},
        "optimizer": repr(plan.optimizer([nn.Parameter(torch.zeros(1))])),
    }


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"The file {path} is damaged: {error}. Delete it and run again.") from None
