"""The settings that a sweep compares, and their runs, trained one by one and kept in files."""

import json
import math
import os
import shutil
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from crosslearning.files import replacing, write_json
from crosslearning.nn._checkpoint import name_of
from crosslearning.nn._data import Augment, Source, as_sources, check_counts, digest
from crosslearning.nn._evaluation import EpochRecord, History, as_metric, score_sources
from crosslearning.nn._seeds import build
from crosslearning.nn._task_models import TaskModels
from crosslearning.nn._training import fit
from crosslearning.tether import Tether

Measure = Callable[[dict[str, Any], TaskModels, History], Sequence[dict[str, Any]]]
_BASELINES = ("pooled", "separate", "spring", "fine-tuned")
_ENDS = {0.0: "pooled", math.inf: "separate"}


class Setting(NamedTuple):
    """One way to couple the tasks: "cross" with a radius, or a baseline."""

    method: str
    epsilon: float = math.inf
    stiffness: float = 0.0

    @property
    def key(self) -> str:
        return f"{self.method}-{self.stiffness if self.method == 'spring' else self.epsilon!r}"

    def run(self, seed: int) -> dict[str, Any]:
        """Columns of the table that identify a run."""
        return {**self._asdict(), "seed": seed}


def settings_of(
    epsilons: float | Iterable[float], baselines: str | Iterable[str], stiffness: Iterable[float]
) -> list[Setting]:
    """List settings in the order of the table: by radius, then springs, then fine-tuned."""
    names = [baselines] if isinstance(baselines, str) else list(baselines)
    if unknown := [name for name in names if name not in _BASELINES]:
        allowed = ", ".join(map(repr, _BASELINES))
        raise ValueError(f"`baselines` may be {allowed}; got {unknown[0]!r}.")
    values = [epsilons] if isinstance(epsilons, int | float) else epsilons
    radii = {float(Tether(epsilon=float(value)).epsilon) for value in values}
    radii |= {radius for radius, name in _ENDS.items() if name in names}
    settings = [Setting(_ENDS.get(radius, "cross"), radius) for radius in sorted(radii)]
    if "spring" in names:
        settings += [Setting("spring", stiffness=float(value)) for value in stiffness]
    if "fine-tuned" in names:
        settings.append(Setting("fine-tuned"))
    if not settings:
        raise ValueError("There is nothing to compare. Pass `epsilons` or `baselines`.")
    return settings


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Model, data and training; see :func:`crosslearning.nn.sweep` for what they mean."""

    module: Callable[[], nn.Module]
    data: Mapping[Any, Any]
    loss: Callable[[Any, Any], torch.Tensor]
    optimizer: Callable[[Any], torch.optim.Optimizer]
    epochs: int
    test: Mapping[Any, Any] | None
    metric: Any
    batch_size: int | None
    sampling: Literal["cycle", "proportional"]
    engine: Any
    pooled_epochs: int
    center_weight: float
    scheduler: Callable[[torch.optim.Optimizer], Any] | None
    augment: Augment | None
    measure: Measure | None
    on_epoch: Callable[[dict[str, Any], EpochRecord], Any] | None
    checkpoint_every: int | None
    mesh: DeviceMesh | None
    blocks: dict[str, float | None] | None

    def __post_init__(self) -> None:
        check_counts(least=0, pooled_epochs=self.pooled_epochs)
        for name, kind in (("module", nn.Module), ("optimizer", torch.optim.Optimizer)):
            value = getattr(self, name)
            if isinstance(value, kind) or not callable(value):
                raise ValueError(
                    f"`{name}` must be a function that returns one, since every run needs its own; "
                    f"got {type(value).__name__}."
                )
        test = self.data if self.test is None else self.test
        for task in self.data:
            if task not in test:
                raise ValueError(f"`test` must have data of every task; there is none of {task!r}.")

    def tether(self, setting: Setting) -> Tether | dict[str, Tether]:
        tether = Tether(epsilon=setting.epsilon, stiffness=setting.stiffness)
        if self.blocks is None:
            return tether
        radii = self.blocks.items()
        return {name: tether if radius is None else Tether(radius) for name, radius in radii}

    def pooled_epochs_of(self, setting: Setting) -> int:
        if setting.method == "fine-tuned":
            return self.pooled_epochs or self.epochs // 2
        return self.pooled_epochs if setting.method in ("pooled", "cross") else 0

    def test_sources(self) -> dict[Hashable, Source]:
        """Data to evaluate on, in the order of the tasks."""
        judged = as_sources(self.data) if self.test is None else as_sources(self.test, "test")
        return {task: judged[task] for task in self.data}


class Folder:
    """A folder with one file per finished run, and a description of the sweep."""

    def __init__(self, path: str | os.PathLike[str], plan: Plan) -> None:
        self.path, self._mesh = Path(path), plan.mesh
        self.path.mkdir(parents=True, exist_ok=True)
        about, expected = self.path / "sweep.json", _description(plan)
        if not about.exists():
            write_json(about, expected)
        actual = json.loads(about.read_text(encoding="utf-8"))
        if other := [name for name, value in expected.items() if actual.get(name) != value]:
            raise ValueError(
                f"The folder {path} holds another sweep, which differs in {', '.join(other)}. "
                "Choose another folder, or delete this one."
            )

    def find(self, setting: Setting, seed: int) -> list[dict[str, Any]] | None:
        file = self._file(setting, seed, "json")
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None

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
        return self.path / f"stage-seed-{seed}.safetensors"

    def _file(self, setting: Setting, seed: int, suffix: str) -> Path:
        return self.path / f"{setting.key}-seed-{seed}.{suffix}"


def _description(plan: Plan) -> dict[str, Any]:
    """Describe a sweep in JSON; a folder holds runs of equal descriptions."""
    functions = ("loss", "metric", "scheduler", "augment")
    names = ("epochs", "batch_size", "sampling", "pooled_epochs", "center_weight", "blocks")
    parts = {"data": as_sources(plan.data), "test": plan.test_sources()}
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


def train_single(
    plan: Plan, setting: Setting, seed: int, folder: Folder | None
) -> list[dict[str, Any]]:
    """Train one setting with one seed, and return its rows of the table, task by task."""
    models = TaskModels(
        build(plan.module, seed),
        plan.data,
        tether=plan.tether(setting),
        center_weight=plan.center_weight,
        mesh=plan.mesh,
    )
    try:
        history = _fit(plan, models, setting, seed, folder)
    except Exception as error:
        error.add_note(f"This was run {setting.key} with seed {seed}.")
        raise
    last, distances = history.records[-1], models.distances()
    metric = plan.loss if plan.metric is None else as_metric(plan.metric)
    scores = score_sources(models, plan.test_sources(), metric)
    columns = {
        "loss": last.losses.tolist(),
        "score": [scores[task] for task in models.tasks],
        "distance": distances.tolist(),
        "pull": last.pulls.tolist(),
    }
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if plan.measure is None:
        return rows
    measured = plan.measure(setting.run(seed), models, history)
    return [row | more for row, more in zip(rows, measured, strict=True)]


def _fit(
    plan: Plan, models: TaskModels, setting: Setting, seed: int, folder: Folder | None
) -> History:
    """Train; in a folder, runs with the same seed share their pooled epochs, trained once."""
    run, pooled = setting.run(seed), plan.pooled_epochs_of(setting)
    on_epoch, blocks = plan.on_epoch, plan.blocks
    tethered = blocks and [name for name, radius in blocks.items() if radius != math.inf]
    train = partial(
        fit,
        models,
        plan.data,
        plan.loss,
        plan.optimizer,
        pooled_epochs=pooled if tethered is None else dict.fromkeys(tethered, pooled),
        batch_size=plan.batch_size,
        sampling=plan.sampling,
        scheduler=plan.scheduler,
        augment=plan.augment,
        callbacks=() if on_epoch is None else [lambda record: on_epoch(run, record)],
        engine=plan.engine,
        seed=seed,
    )
    if folder is None:
        return train(plan.epochs)
    train = partial(train, checkpoint_every=plan.checkpoint_every)
    checkpoint, stage = folder.checkpoint(setting, seed), folder.stage(seed)
    if plan.mesh is None and pooled and not checkpoint.exists():
        train(min(pooled, plan.epochs), checkpoint=stage)
        with replacing(checkpoint) as copy:
            shutil.copyfile(stage, copy)
    return train(plan.epochs, checkpoint=checkpoint)
