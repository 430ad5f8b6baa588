"""How well the models do, task by task."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch

from crosslearning.nn.modes import mode
from crosslearning.nn.sources import Batches, as_sources

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from crosslearning.nn.sources import Source
    from crosslearning.nn.task_models import TaskModels

__all__ = ["accuracy", "as_metric", "evaluate", "in_order", "score_sources"]

Metric = Callable[[Any, Any], Any]


def evaluate(
    models: TaskModels,
    data: Mapping[Any, Any],
    metric: str | Metric = "accuracy",
    *,
    batch_size: int = 256,
) -> pd.Series[float]:
    """Apply a metric to the outputs of each task's model, in evaluation mode.

    Parameters
    ----------
    models : TaskModels
        Left in the mode they were in.
    data : mapping from task to data
        As in :func:`fit`. A task that the models do not have is served by ``models.center``.
    metric : "accuracy" or callable, default="accuracy"
        Called once per task, with the outputs and targets of all its rows. "accuracy" is the share
        of rows whose largest output is that of their class; of a single output, whether it is
        above 0.
    batch_size : int, default=256
        Rows that pass through a model at a time; a DataLoader has its own.

    Returns
    -------
    Series
        The metric by task, in the order of `data`.

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
    models: TaskModels, sources: Mapping[Hashable, Source], metric: Metric, batch_size: int
) -> dict[Hashable, float]:
    """Metric of each task."""
    with mode(models, training=False), torch.no_grad():
        return {
            task: _score(_serving(models, task), source, metric, batch_size)
            for task, source in sources.items()
        }


def _serving(models: TaskModels, task: Hashable) -> torch.nn.Module:
    """Return the model of a task, or the centre for a task never seen."""
    if task in models:
        return models[task]
    return models.center


def accuracy(output: torch.Tensor, target: torch.Tensor) -> float:
    """Share of rows whose largest output is that of their class.

    Examples
    --------
    >>> import torch
    >>> accuracy(torch.tensor([[0.2, 0.8], [0.9, 0.1]]), torch.tensor([1, 1]))
    0.5
    >>> accuracy(torch.tensor([-1.0, 2.0]), torch.tensor([0, 1]))
    1.0
    """
    if output.numel() == target.numel():
        predicted = (output > 0).to(target.dtype).view(target.shape)
    else:
        predicted = output.argmax(dim=1)
    return float((predicted == target).double().mean())


def as_metric(metric: Any) -> Metric:
    """Return the function a metric stands for."""
    if metric == "accuracy":
        return accuracy
    if callable(metric):
        return metric
    raise ValueError(
        f"`metric` must be 'accuracy' or a function of outputs and targets; got {metric!r}."
    )


def _score(module: torch.nn.Module, source: Source, metric: Metric, batch_size: int) -> float:
    parameter = next(module.parameters(), None)
    device = torch.device("cpu") if parameter is None else parameter.device
    outputs, targets = [], []
    for x, y in in_order(source, batch_size):
        outputs.append(module(x.to(device)))
        targets.append(y.to(device))
    return float(metric(torch.cat(outputs), torch.cat(targets)))


def in_order(source: Source, batch_size: int) -> Iterator[tuple[Any, Any]]:
    """Give all rows of a task, batch by batch."""
    if isinstance(source, Batches):
        yield from source.loader
        return
    for indices in torch.arange(len(source)).split(batch_size):
        yield source.batch(indices)
