"""How far a step moves the parameters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from crosslearning.nn.task_models import TaskModels

__all__ = ["StepLength"]

_ELEMENTS = 1 << 20  # that are looked at: a copy of all would cost as much as the models


class StepLength:
    """Remembers parameters before a step, evenly spaced ones where there are many."""

    def __init__(self, models: TaskModels) -> None:
        total = sum(flat.tasks.numel() for flat in models._flats)
        self._models, self._stride = models, -(-total // _ELEMENTS)
        self._before = [part.clone() for part in self._parts()]

    def since(self) -> float:
        """Norm of what the tethered parameters of all tasks moved since then."""
        pairs = zip(self._parts(), self._before, strict=True)
        norms = [float(torch.linalg.vector_norm(before.sub_(now))) for now, before in pairs]
        return float(self._stride**0.5 * math.hypot(*norms))

    def _parts(self) -> list[torch.Tensor]:
        return [flat.tasks[:, :: self._stride] for flat in self._models._flats]
