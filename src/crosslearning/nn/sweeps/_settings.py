"""The settings that a sweep compares, and what all its runs have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from crosslearning.nn._checks import check_counts
from crosslearning.nn._evaluation import as_metric
from crosslearning.nn._history import EpochRecord, History
from crosslearning.nn._sampling import Augment, Schedule, schedule
from crosslearning.nn._sources import Source, as_sources
from crosslearning.nn._task_models import TaskModels
from crosslearning.tether import Tether

Measure: TypeAlias = "Callable[[dict[str, Any], TaskModels, History], Sequence[dict[str, Any]]]"
_BASELINES = ("pooled", "separate", "spring", "fine-tuned")
_ENDS = {0.0: "pooled", math.inf: "separate"}


class Setting(NamedTuple):
    """One way to couple the tasks: "cross" with a radius, or a baseline."""

    method: str
    epsilon: float = math.inf
    stiffness: float = 0.0

    @property
    def tether(self) -> Tether:
        return Tether(epsilon=self.epsilon, stiffness=self.stiffness)

    @property
    def key(self) -> str:
        """Name in file names, unique to the setting."""
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
    project_every: int
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
        missing = [] if self.test is None else [task for task in self.data if task not in self.test]
        if missing:
            raise ValueError(
                f"`test` must have data of every task; there is none of {missing[0]!r}."
            )

    @property
    def test_metric(self) -> Callable[[Any, Any], Any]:
        """The metric, or the loss where none is given."""
        return self.loss if self.metric is None else as_metric(self.metric)

    def tether(self, setting: Setting) -> Tether | dict[str, Tether]:
        """Tether of a run, or those of its blocks."""
        if self.blocks is None:
            return setting.tether
        return {
            name: setting.tether if radius is None else Tether(epsilon=radius)
            for name, radius in self.blocks.items()
        }

    def pooled_epochs_of(self, setting: Setting) -> int:
        """Return the number of epochs in which a run is pooled before its radius applies."""
        if setting.method == "fine-tuned":
            return self.pooled_epochs or self.epochs // 2
        return self.pooled_epochs if setting.method in ("pooled", "cross") else 0

    def schedule(self) -> Schedule:
        """How many rows of each task a step takes."""
        return schedule(tuple(self.sources().values()), self.batch_size, self.sampling)

    def sources(self) -> dict[Hashable, Source]:
        """Training data."""
        return as_sources(self.data)

    def test_sources(self) -> dict[Hashable, Source]:
        """Data to evaluate on, in the order of the tasks."""
        judged = self.sources() if self.test is None else as_sources(self.test, "test")
        return {task: judged[task] for task in self.data}
