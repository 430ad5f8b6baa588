"""The flat buffers of :class:`TaskModels` as members of a coupling: a group per block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from crosslearning.coupling import Storage
from crosslearning.tether import Array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from crosslearning.nn._flat_buffer import FlatBuffer
    from crosslearning.nn._task_models import TaskModels
    from crosslearning.nn._workspace import Workspace

FRESH = 50  # steps after which norms, which change slowly, are measured again


class FlatMembers:
    """Rows of matrices with one row per task and a last one for the centre, moved in place."""

    def __init__(self, models: TaskModels) -> None:
        self._models = models
        self._norms = np.zeros(len(models.blocks))
        self._age = 0

    @property
    def tasks(self) -> Sequence[str]:
        return self._models._flats[0].owners[:-1]

    @property
    def groups(self) -> Sequence[str]:
        blocks = self._models.blocks
        return [f"block {block.name!r}" if len(blocks) > 1 else "" for block in blocks]

    @property
    def _spaces(self) -> list[Workspace]:
        return [flat.workspace for flat in self._models._flats]

    def gram(self) -> Array:
        return np.stack([work.gram() for work in self._spaces])

    def move(self, pull: Array, weights: Array) -> None:
        for work, one_pull, one_weights in zip(self._spaces, pull, weights, strict=True):
            work.move(one_pull, one_weights)

    def distances(self, *, exactly: bool = False) -> Array:
        return np.stack([work.distances(exactly=exactly) for work in self._spaces])

    def storage(self) -> Storage:
        """Precision of the blocks; norms are at most `FRESH` steps old."""
        flats = [flat.flat for flat in self._models._flats]
        if self._age % FRESH == 0:
            self._norms = np.array([work.norm() for work in self._spaces])
        self._age += 1
        return dtype_storage(
            [flat.dtype for flat in flats], self._norms, [f.shape[1] for f in flats]
        )

    def culprits(self) -> tuple[list[str], str]:
        """Names of tasks, and of the centre, that are not finite; and the first such parameter."""
        found = [
            (flat, row)
            for flat in self._models._flats
            for row, values in enumerate(flat.flat)
            if not values.isfinite().all()
        ]
        if not found:
            return [], ""
        flat, row = found[0]
        names = dict.fromkeys(flat.owners[row] for _, row in found)
        return list(names), _first_not_finite(flat, row, self._models._rows()[row])


def dtype_storage(dtypes: Sequence[torch.dtype], norms: Array, sizes: Sequence[int]) -> Storage:
    names = [str(dtype).removeprefix("torch.") for dtype in dtypes]
    eps = np.array([torch.finfo(dtype).eps for dtype in dtypes])
    return Storage(names, eps, norms, np.array(sizes))


def _first_not_finite(flat: FlatBuffer, row: int, module: nn.Module) -> str:
    for slot, parameter in zip(flat.slots, flat.parameters(row, module), strict=True):
        if not parameter.isfinite().all():
            gradient = parameter.grad
            also = gradient is not None and not bool(gradient.isfinite().all())
            return f"first in {slot.name!r}" + (", as is its gradient" if also else "")
    return ""  # of shards, which are not looked at one by one
