"""The training loop, and its progress bar."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch.optim import Optimizer

from crosslearning.nn._checkpoint import Checkpoint
from crosslearning.nn._engines import Engine
from crosslearning.nn._evaluation import Validation
from crosslearning.nn._flat_members import StepCertificate
from crosslearning.nn._history import EpochRecord, History
from crosslearning.nn._optimizers import advance, learning_rate, step_size
from crosslearning.nn._sampling import Feed
from crosslearning.nn._task_models import TaskModels
from crosslearning.tether import Array

_ELEMENTS = 1 << 20  # of the sample: a copy of all would need as much memory as the models
_SHOWN = 6  # tasks that are listed one by one


@dataclass(eq=False)
class Run:
    """A training run, from any step on."""

    models: TaskModels
    feed: Feed
    optimizer: Optimizer
    scheduler: Any
    validation: Validation | None
    callbacks: Sequence[Callable[[EpochRecord], Any]]
    project_every: int
    pooled_epochs: dict[str, int]  # by block
    step: int = 0  # steps done
    stopped: bool = False  # by validation or a callback
    seconds: float = 0.0  # of the current epoch before `train` was called

    def __post_init__(self) -> None:
        self.sums, self.counts = np.zeros((2, len(self.models)))  # losses of the current epoch
        self.history = History(self.models.tasks)

    @property
    def steps(self) -> int:
        return self.feed.plan.steps

    @property
    def pooled_steps(self) -> dict[str, int]:
        return {name: epochs * self.steps for name, epochs in self.pooled_epochs.items()}

    def train(self, engine: Engine, epochs: int, bar: Bar, checkpoint: Checkpoint | None) -> None:
        """Train until the end, or until validation or a callback says so."""
        self._started = time.perf_counter() - self.seconds
        certificate = None
        self.models.link()
        while self.step < epochs * self.steps and not self.stopped:
            ends_epoch = (self.step + 1) % self.steps == 0
            self._take_gradients(engine)
            ruler = StepLength(self.models) if ends_epoch else None
            self.optimizer.step()
            self.step += 1
            certificate = self._project(ends_epoch) or certificate
            if bar.visible:
                losses = self.sums / np.maximum(self.counts, 1)
                bar.show(self.step, losses, certificate and certificate.distances)
            self.seconds = time.perf_counter() - self._started
            if ruler is not None:
                self._end_epoch(ruler.since(), certificate)
            if checkpoint is not None and checkpoint.is_due:
                with engine.released():
                    checkpoint.save()
        self.models.zero_grad()
        self.models.mark_changed()

    def _take_gradients(self, engine: Engine) -> None:
        rows, losses = engine.gradients(self.step)
        self.models.average_gradients()
        values = losses.double().cpu().numpy()
        if values.shape != (len(rows),):
            raise ValueError(
                "`loss` must return one number per batch; got shape "
                f"{values.shape[1:]}. Use one that averages, such as reduction='mean'."
            )
        rows, values = self._of_all_ranks(rows, values)
        if not np.isfinite(values).all():
            self._refuse(rows, values)
        self.sums[rows] += values
        self.counts[rows] += 1

    def _of_all_ranks(self, rows: list[int], values: Array) -> tuple[list[int], Array]:
        """Positions and losses of all tasks that took part in a step, given the local ones."""
        ranks = self.models.ranks
        if ranks.mesh is None:
            return rows, values
        table = np.zeros((len(self.models.local_tasks), 2))
        table[rows] = np.stack([np.ones(len(rows)), values], axis=1)
        table = ranks.gather(ranks.sum(table, "data") / ranks.copies)
        took_part = np.flatnonzero(table[:, 0])
        return took_part.tolist(), table[took_part, 1]

    def _refuse(self, rows: list[int], values: Array) -> None:
        bad = [
            f"task {self.models.tasks[row]!r} is {value}"
            for row, value in zip(rows, values, strict=True)
            if not np.isfinite(value)
        ]
        raise ValueError(
            f"A loss must be finite; that of {', that of '.join(bad)} in step {self.step + 1}. "
            "The models are as they were before this step. Lower the learning rate, and check the "
            "data of the task."
        )

    def _project(self, ends_epoch: bool) -> StepCertificate | None:
        since = (self.step - 1) % self.steps % self.project_every + 1
        if since < self.project_every and not ends_epoch:
            return None
        rate = step_size(self.models, self.optimizer)
        if rate == 0.0:  # nothing has moved, and springs scale with the rate
            return None
        step = None if rate is None else since * rate
        pooled = [name for name, last in self.pooled_steps.items() if self.step <= last]
        return self.models.project_linked(step, pooled)

    def _end_epoch(self, moved: float, certificate: StepCertificate | None) -> None:
        models, rate = self.models, learning_rate(self.optimizer)
        epoch = self.step // self.steps
        scores, score = np.full(len(models), np.nan), np.nan
        if self.validation is not None:
            scores, score = self.validation.scores(models)
            self.stopped = self.validation.note(models, epoch, score)
            self.history.best_epoch = self.validation.best_epoch
        record = EpochRecord(
            epoch=epoch,
            step=self.step,
            losses=self.sums / self.counts,
            distances=models.distances(),
            pulls=np.zeros(len(models)) if certificate is None else certificate.pull,
            scores=scores,
            score=score,
            learning_rate=rate,
            stationarity=moved / rate if rate else 0.0,
            seconds=self.seconds,
        )
        self.history.records.append(record)
        advance(self.scheduler, record.loss if self.validation is None else score)
        for callback in self.callbacks:
            self.stopped |= callback(record) is True
        self.stopped = models.ranks.any(self.stopped)
        models.link()  # what callbacks may have replaced
        self.sums, self.counts = np.zeros((2, len(models)))
        self.seconds, self._started = 0.0, time.perf_counter()


class StepLength:
    """Stores parameters before a step, an evenly spaced sample if there are many."""

    def __init__(self, models: TaskModels) -> None:
        total = sum(flat.tasks.numel() for flat in models.flats)
        self._models, self._stride = models, -(-total // _ELEMENTS)
        self._before = [part.clone() for part in self._parts()]

    def since(self) -> float:
        """Norm of what the tethered parameters of all tasks moved since then."""
        pairs = zip(self._parts(), self._before, strict=True)
        norms = [float(torch.linalg.vector_norm(before.sub_(now))) for now, before in pairs]
        ranks = self._models.ranks
        square = ranks.sum(np.array([self._stride * math.hypot(*norms) ** 2]), "task")
        return float(np.sqrt(ranks.sum(square, "data") if self._models.sharded else square)[0])

    def _parts(self) -> list[torch.Tensor]:
        return [flat.tasks[:, :: self._stride] for flat in self._models.flats]


class Bar:
    """Shows losses, distances and the remaining time on standard error."""

    def __init__(self, visible: bool, tasks: tuple[Hashable, ...], epochs: int, steps: int) -> None:
        self.visible = visible
        self._tasks, self._epochs, self._steps = tasks, epochs, steps
        text, state = TextColumn("{task.description}"), TextColumn("{task.fields[state]}")
        columns = text, BarColumn(bar_width=24), TimeRemainingColumn(), state
        self._progress = Progress(*columns, console=Console(stderr=True), disable=not visible)
        self._id = self._progress.add_task("training", total=epochs * steps, state="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, step: int, losses: Array, distances: Array | None) -> None:
        """Show the mean losses of this epoch so far, and the distances of the last projection."""
        epoch = f"epoch {1 + (step - 1) // self._steps}/{self._epochs}"
        state = describe(self._tasks, losses, distances)
        self._progress.update(self._id, completed=step, description=epoch, state=state)


def describe(tasks: tuple[Hashable, ...], losses: Array, distances: Array | None) -> str:
    """Loss and distance of each task, or ranges where there are many."""
    if len(tasks) > _SHOWN:
        text = f"loss {losses.min():.3g} to {losses.max():.3g}, mean {losses.mean():.3g}"
        return text if distances is None else f"{text}; distance up to {distances.max():.3g}"
    parts = [f"{task} {loss:.3g}" for task, loss in zip(tasks, losses, strict=True)]
    if distances is not None:
        parts = [f"{part} at {far:.3g}" for part, far in zip(parts, distances, strict=True)]
    return ", ".join(parts)
