"""Validation after each epoch, and when to stop."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.nn.evaluation import as_metric, score_sources
from crosslearning.nn.naming import name_of
from crosslearning.nn.sources import as_sources

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from crosslearning.nn.task_models import TaskModels

__all__ = ["Validation", "check_validation"]

_ROWS = 256  # that pass through a model at a time


class Validation:
    """Scores of the tasks, the best mean so far, and the parameters that had it.

    Parameters
    ----------
    data : mapping from task to data
        As in `fit`.
    metric : "accuracy", callable or None
        Higher is better; None takes the loss, of which lower is better.
    loss : callable
        Loss of outputs and targets.
    patience : int or None
        Epochs without improvement after which to stop; None never stops and keeps no parameters.
    """

    def __init__(
        self, data: Any, metric: Any, loss: Callable[[Any, Any], Any], patience: int | None
    ) -> None:
        self.sources = as_sources(data, "validation")
        self.metric = loss if metric is None else as_metric(metric)
        self.sign = -1.0 if metric is None else 1.0
        self.named = name_of(metric)
        self.patience = patience
        self.best = -math.inf
        self.best_epoch: int | None = None
        self.best_state: dict[str, torch.Tensor] | None = None

    def scores(self, models: TaskModels) -> tuple[np.ndarray[Any, np.dtype[np.float64]], float]:
        """Metric of each task, NaN for those without data, and the mean of all that have some."""
        found = score_sources(models, self.sources, self.metric, _ROWS)
        by_task = np.array([found.get(task, math.nan) for task in models.tasks])
        return by_task, float(np.mean(list(found.values())))

    def note(self, models: TaskModels, epoch: int, score: float) -> bool:
        """Remember the best epoch; say whether patience has run out."""
        if self.best_epoch is None or self.sign * score > self.best:
            self.best, self.best_epoch = self.sign * score, epoch
            if self.patience is not None:
                state = models.state_dict()
                self.best_state = {name: value.detach().clone() for name, value in state.items()}
        return self.patience is not None and epoch - self.best_epoch >= self.patience

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds of it."""
        return {"best": self.best, "epoch": self.best_epoch, "models": self.best_state}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`state` returned."""
        self.best, self.best_epoch = state["best"], state["epoch"]
        self.best_state = state["models"]

    def restore(self, models: TaskModels) -> None:
        """Give the models their best parameters, where they were kept."""
        if self.best_state is not None:
            models.load_state_dict(self.best_state)


def check_validation(validation: Any, metric: Any, patience: Any) -> None:
    """Refuse what would silently do nothing."""
    if validation is None and (metric is not None or patience is not None):
        given = "`metric`" if metric is not None else "`patience`"
        raise ValueError(f"{given} needs `validation`: data that the models are judged on.")
    if patience is not None and (not isinstance(patience, int) or patience < 1):
        raise ValueError(f"`patience` must be a positive number of epochs; got {patience!r}.")
