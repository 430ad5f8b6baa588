"""Scores of the models by task, also after each epoch, and the history of training."""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from torch import nn

from crosslearning.nn._data import Batches, Source, as_sources, check_counts
from crosslearning.nn._task_models import TaskModels
from crosslearning.tether import Array

Metric = Callable[[Any, Any], Any]


def evaluate(
    models: TaskModels,
    data: Mapping[Any, Any],
    metric: str | Metric = "accuracy",
    *,
    batch_size: int = 256,
) -> "pd.Series[float]":
    """Apply a metric to the outputs of each task's model, in evaluation mode.

    Parameters
    ----------
    models, data : TaskModels, mapping from task to data
        As in :func:`fit`. New tasks are evaluated with ``models.center``.
    metric : "accuracy" or callable, default="accuracy"
        Called once per task, with the outputs and targets of all its rows. "accuracy" is the
        fraction of rows whose largest output is that of their class, or for a single output, whose
        sign is right.
    batch_size : int, default=256
        Rows per forward pass; a DataLoader has its own.

    Examples
    --------
    >>> import torch
    >>> from crosslearning.nn import TaskModels, evaluate
    >>> models = TaskModels(torch.nn.Linear(2, 2), tasks=["north"], epsilon=0.1)
    >>> with torch.no_grad():
    ...     _ = models["north"].weight.copy_(torch.eye(2)), models["north"].bias.zero_()
    >>> x, y = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
    >>> evaluate(models, {"north": (x, y)})
    north    0.5
    Name: accuracy, dtype: float64
    """
    name = metric if isinstance(metric, str) else getattr(metric, "__name__", "metric")
    scores = score_sources(models, as_sources(data), as_metric(metric), batch_size)
    return pd.Series(scores, dtype=float, name=name)


def score_sources(
    models: TaskModels, sources: Mapping[Hashable, Source], metric: Metric, batch_size: int = 256
) -> dict[Hashable, float]:
    """Metric of each task, of the centre for new tasks; each rank scores its own."""
    modules = dict(models.items())
    with mode(models, training=False), torch.no_grad():
        mine = {
            task: _score(modules.get(task, models.center), source, metric, batch_size)
            for task, source in sources.items()
            if task in modules or task not in models
        }
    scores: dict[Hashable, float] = {}
    requested = dict.fromkeys(sources)
    for scored, tasks in models.ranks.objects((mine, list(sources))):
        scores |= scored
        requested |= dict.fromkeys(tasks)
    if lost := [task for task in models.tasks if task in requested and task not in scores]:
        raise ValueError(
            "Data of a task must be given to the rank that holds it; those of "
            f"{', '.join(map(repr, lost))} were given to others only. See `models.local_tasks`."
        )
    return {task: scores[task] for task in requested}


def accuracy(output: torch.Tensor, target: torch.Tensor) -> float:
    """Fraction of rows whose largest output is that of their class, or has its sign."""
    if output.numel() == target.numel():
        predicted = (output > 0).to(target.dtype).view(target.shape)
    else:
        predicted = output.argmax(dim=1)
    return float((predicted == target).double().mean())


def as_metric(metric: Any) -> Metric:
    if metric != "accuracy" and not callable(metric):
        raise ValueError(
            f"`metric` must be 'accuracy' or a function of outputs and targets; got {metric!r}."
        )
    return metric if callable(metric) else accuracy


def _score(module: nn.Module, source: Source, metric: Metric, batch_size: int) -> float:
    device = next((parameter.device for parameter in module.parameters()), torch.device("cpu"))
    rows = torch.arange(len(source)).split(batch_size)
    batches = source.loader if isinstance(source, Batches) else map(source.batch, rows)
    pairs = [(module(x.to(device)), y.to(device)) for x, y in batches]
    if callable(reshard := getattr(module, "reshard", None)):
        reshard()  # FSDP keeps what a pass without gradients has gathered
    return float(metric(*(torch.cat(parts) for parts in zip(*pairs, strict=True))))


@contextmanager
def mode(module: nn.Module, training: bool) -> Iterator[None]:
    """Set the training mode of a module, and restore that of every part."""
    before = [(part, part.training) for part in module.modules()]
    module.train(training)
    try:
        yield
    finally:
        for part, was in before:
            part.training = was


class Validation:
    """Scores of the tasks, the best mean so far, and the parameters that had it."""

    def __init__(
        self, data: Any, metric: Any, loss: Callable[[Any, Any], Any], patience: int | None
    ) -> None:
        self.sources = as_sources(data, "validation")
        self.metric = loss if metric is None else as_metric(metric)
        self.sign = -1.0 if metric is None else 1.0
        self.user_metric, self.patience = metric, patience
        self.best = -math.inf
        self.best_epoch: int | None = None
        self.best_state: dict[str, torch.Tensor] | None = None

    @classmethod
    def optional(cls, data: Any, metric: Any, loss: Any, patience: int | None) -> Self | None:
        """Check the arguments; None without data."""
        for name, option in (("metric", metric), ("patience", patience)):
            if data is None and option is not None:
                raise ValueError(f"`{name}` needs `validation`, the data to score the models on.")
        if patience is not None:
            check_counts(patience=patience)
        return None if data is None else cls(data, metric, loss, patience)

    def scores(self, models: TaskModels) -> tuple[Array, float]:
        """Metric of each task, NaN without data, and the mean over the others."""
        scores = score_sources(models, self.sources, self.metric)
        by_task = np.array([scores.get(task, math.nan) for task in models.tasks])
        return by_task, math.fsum(scores.values()) / len(scores)

    def note(self, models: TaskModels, epoch: int, score: float) -> bool:
        """Record the best epoch; return whether patience has run out."""
        if self.best_epoch is None or self.sign * score > self.best:
            self.best, self.best_epoch = self.sign * score, epoch
            if self.patience is not None:
                state = models.state_dict()
                self.best_state = {name: value.detach().clone() for name, value in state.items()}
        return self.patience is not None and epoch - self.best_epoch >= self.patience

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "epoch": self.best_epoch, "models": self.best_state}

    def load_state(self, state: dict[str, Any]) -> None:
        self.best, self.best_epoch = state["best"], state["epoch"]
        self.best_state = state["models"]


@dataclass(frozen=True, eq=False)
class EpochRecord:
    """One epoch; arrays have one number per task, in the order of the models."""

    epoch: int  # epochs done, from 1
    step: int  # steps done
    losses: Array  # in training, averaged over the steps of the epoch
    distances: Array  # to the centre, at the end of the epoch
    pulls: Array  # of the last projection, the largest among the blocks
    scores: Array  # of validation, NaN without
    score: float  # their mean
    learning_rate: float  # of the first group of parameters, during the epoch
    seconds: float

    @property
    def loss(self) -> float:
        """Training loss, averaged over tasks."""
        return float(np.mean(self.losses))


class History:
    """Epochs of a run: ``records``, two tables of them, and ``best_epoch``, with the best score."""

    def __init__(self, tasks: tuple[Hashable, ...]) -> None:
        self._tasks = tasks
        self.records: list[EpochRecord] = []
        self.best_epoch: int | None = None

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"History({len(self)} epochs, {len(self._tasks)} tasks)"

    @property
    def epochs(self) -> pd.DataFrame:
        """Table with a row per epoch: loss and validation score averaged over tasks, and more."""
        names = ["epoch", "step", "loss", "score", "learning_rate", "seconds"]
        return pd.DataFrame({name: self.column(name) for name in names}).set_index("epoch")

    @property
    def tasks(self) -> pd.DataFrame:
        """Table with a row per epoch and task: loss, validation score, distance and pull."""
        names = {"loss": "losses", "score": "scores", "distance": "distances", "pull": "pulls"}
        epochs = np.repeat(np.array(self.column("epoch"), dtype=int), len(self._tasks))
        columns = {name: np.ravel(self.column(many)) for name, many in names.items()}
        labels = pd.Series(list(self._tasks) * len(self))
        return pd.DataFrame({"epoch": epochs, "task": labels, **columns})

    def column(self, name: str) -> list[Any]:
        """Values of an attribute of all records."""
        return [getattr(record, name) for record in self.records]
