"""What all runs of a sweep have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from crosslearning.nn.evaluation import as_metric
from crosslearning.nn.sources import as_sources

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from crosslearning.nn.history import EpochRecord, History
    from crosslearning.nn.sampling import Augment
    from crosslearning.nn.sources import Source
    from crosslearning.nn.task_models import TaskModels

    Measure = Callable[[dict[str, Any], TaskModels, History], Sequence[dict[str, Any]]]

__all__ = ["Plan"]


@dataclass(frozen=True)
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
    project_every: int
    center_weight: float
    scheduler: Callable[[torch.optim.Optimizer], Any] | None
    augment: Augment | None
    measure: Measure | None = None
    on_epoch: Callable[[dict[str, Any], EpochRecord], Any] | None = None
    checkpoint_every: int | None = None
    rows_at_once: int = 256

    def __post_init__(self) -> None:
        for name, kind in (("module", nn.Module), ("optimizer", torch.optim.Optimizer)):
            given = getattr(self, name)
            if isinstance(given, kind) or not callable(given):
                raise ValueError(
                    f"`{name}` must be a function that makes one, since every run needs its own; "
                    f"got {type(given).__name__}."
                )
        missing = [] if self.test is None else [task for task in self.data if task not in self.test]
        if missing:
            raise ValueError(
                f"`test` must have data of every task; there is none of {missing[0]!r}."
            )

    @property
    def judge(self) -> Callable[[Any, Any], Any]:
        """The metric, or the loss where none is given."""
        return self.loss if self.metric is None else as_metric(self.metric)

    def sources(self) -> dict[Hashable, Source]:
        """Return the data to train on."""
        return as_sources(self.data)

    def test_sources(self) -> dict[Hashable, Source]:
        """Return the data to judge by, in the order of the tasks."""
        if self.test is None:
            return self.sources()
        judged = as_sources(self.test, "test")
        return {task: judged[task] for task in self.data}
