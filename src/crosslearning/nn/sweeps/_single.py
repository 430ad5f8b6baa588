"""Runs of a sweep trained one by one; finished runs are kept in files."""

from __future__ import annotations

import json
import math
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from crosslearning.files import replacing, write_json
from crosslearning.nn._checkpoint import name_of
from crosslearning.nn._evaluation import score_sources
from crosslearning.nn._history import History
from crosslearning.nn._seeds import build
from crosslearning.nn._sources import digest
from crosslearning.nn._task_models import TaskModels
from crosslearning.nn._training import fit
from crosslearning.nn.sweeps._settings import Plan, Setting

_NUMBERS = ("batch_size", "sampling", "project_every")  # of a plan, for `fit`


def train_single(
    plan: Plan,
    setting: Setting,
    seed: int,
    engine: Any,
    folder: Folder | None,
    share: bool,
) -> list[dict[str, Any]]:
    """Train one setting with one seed, and return its rows of the table, task by task.

    With `share`, runs with the same seed begin with the same pooled epochs, kept in the folder.
    """
    module, weight = build(plan.module, seed), plan.center_weight
    models = TaskModels(
        module, plan.data, tether=plan.tether(setting), center_weight=weight, mesh=plan.mesh
    )
    run, pooled = setting.run(seed), plan.pooled_epochs_of(setting)
    train = partial(_fit, plan, models, run, engine, pooled)
    checkpoint = None if folder is None else folder.checkpoint(setting, seed)
    if folder and checkpoint and share and pooled and not checkpoint.exists():
        train(folder.stage(seed), min(pooled, plan.epochs))
        with replacing(checkpoint) as copy:
            shutil.copyfile(folder.stage(seed), copy)
    history = train(checkpoint, plan.epochs)
    last, distances = history.records[-1], models.distances()
    scores = score_sources(models, plan.test_sources(), plan.test_metric)
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
    plan: Plan,
    models: TaskModels,
    run: dict[str, Any],
    engine: Any,
    pooled: int,
    checkpoint: Path | None,
    epochs: int,
) -> History:
    on_epoch, blocks = plan.on_epoch, plan.blocks
    tethered = blocks and [name for name, radius in blocks.items() if radius != math.inf]
    return fit(
        models,
        plan.data,
        plan.loss,
        plan.optimizer,
        epochs,
        pooled_epochs=pooled if tethered is None else dict.fromkeys(tethered, pooled),
        **{name: getattr(plan, name) for name in (*_NUMBERS, "scheduler", "augment")},
        callbacks=() if on_epoch is None else [lambda record: on_epoch(run, record)],
        engine=engine,
        seed=run["seed"],
        checkpoint=checkpoint,
        checkpoint_every=plan.checkpoint_every if checkpoint else None,
    )


class Folder:
    """A folder with one file per finished run, and a description of the sweep."""

    def __init__(self, path: str | os.PathLike[str], plan: Plan) -> None:
        self.path, self._mesh = Path(path), plan.mesh
        self.path.mkdir(parents=True, exist_ok=True)
        about, expected = self.path / "sweep.json", _description(plan)
        if not about.exists():
            write_json(about, expected)
        content = _read(about)
        actual = content if isinstance(content, dict) else {}
        if other := [name for name, value in expected.items() if actual.get(name) != value]:
            raise ValueError(
                f"The folder {path} holds another sweep, which differs in {', '.join(other)}. "
                "Choose another folder, or delete this one."
            )

    def find(self, setting: Setting, seed: int) -> list[dict[str, Any]] | None:
        """Rows of a finished run, or None."""
        file = self._file(setting, seed, "json")
        return list(_read(file)) if file.exists() else None

    def keep(self, setting: Setting, seed: int, rows: list[dict[str, Any]]) -> None:
        """Write the rows of a finished run, and remove its checkpoint."""
        write_json(self._file(setting, seed, "json"), rows)
        self._file(setting, seed, "safetensors").unlink(missing_ok=True)
        shutil.rmtree(self._file(setting, seed, "ranks.safetensors"), ignore_errors=True)

    def checkpoint(self, setting: Setting, seed: int) -> Path:
        """File, or folder of ranks, for the state of a run that is not finished."""
        suffix = "safetensors" if self._mesh is None else "ranks.safetensors"
        return self._file(setting, seed, suffix)

    def stage(self, seed: int) -> Path:
        """File for the state after the pooled epochs."""
        return self.path / f"stage-seed-{seed}.safetensors"

    def _file(self, setting: Setting, seed: int, suffix: str) -> Path:
        return self.path / f"{setting.key}-seed-{seed}.{suffix}"


def _description(plan: Plan) -> dict[str, Any]:
    """Describe a sweep in JSON; a folder holds runs of equal descriptions."""
    functions = ("loss", "metric", "scheduler", "augment")
    names = ("epochs", *_NUMBERS, "pooled_epochs", "center_weight", "blocks")
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
