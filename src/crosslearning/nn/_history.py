"""The training history."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from crosslearning.tether import Array

_NUMBERS = ("epoch", "step", "score", "learning_rate", "stationarity", "seconds")
_PER_TASK = ("losses", "distances", "pulls", "scores")


@dataclass(frozen=True, eq=False)
class EpochRecord:
    """One epoch; arrays have one number per task, in the order of the models.

    `stationarity` is the length of the last step of the tethered parameters, projection included,
    divided by the learning rate: the norm of the gradient if no bound is active, and 0 at a
    solution. With more than a million parameters it is estimated from a sample.
    """

    epoch: int  # epochs done, from 1
    step: int  # steps done
    losses: Array  # in training, averaged over the steps of the epoch
    distances: Array  # to the centre, at the end of the epoch
    pulls: Array  # of the last projection, the largest among the blocks
    scores: Array  # of validation, NaN without
    score: float  # their mean
    learning_rate: float  # of the first group of parameters, during the epoch
    stationarity: float
    seconds: float

    @property
    def loss(self) -> float:
        """Training loss, averaged over tasks."""
        return float(np.mean(self.losses))


class History:
    """Records of the epochs of a run, as two tables.

    ``records`` is a list of `EpochRecord`, and ``best_epoch`` that of the best validation score.
    """

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
        names = ["epoch", "step", "loss", "score", "learning_rate", "stationarity", "seconds"]
        return pd.DataFrame({name: self._all(name) for name in names}).set_index("epoch")

    @property
    def tasks(self) -> pd.DataFrame:
        """Table with a row per epoch and task: loss, validation score, distance and pull."""
        names = {"loss": "losses", "score": "scores", "distance": "distances", "pull": "pulls"}
        epochs = np.repeat(np.array(self._all("epoch"), dtype=int), len(self._tasks))
        columns = {name: np.ravel(self._all(many)) for name, many in names.items()}
        labels = pd.Series(list(self._tasks) * len(self))
        return pd.DataFrame({"epoch": epochs, "task": labels, **columns})

    def _all(self, name: str) -> list[Any]:
        return [getattr(record, name) for record in self.records]


def to_matrix(records: list[EpochRecord], n_tasks: int) -> Array:
    """Return records as rows of float64, which holds all of them exactly."""
    names = (*_NUMBERS, *_PER_TASK)
    rows = [np.hstack([getattr(record, name) for name in names]) for record in records]
    return np.array(rows).reshape(len(rows), len(_NUMBERS) + len(_PER_TASK) * n_tasks)


def from_matrix(matrix: Array, n_tasks: int) -> list[EpochRecord]:
    """Invert :func:`to_matrix`."""
    records = []
    for row in matrix:
        numbers: dict[str, Any] = dict(zip(_NUMBERS, row.tolist(), strict=False))
        numbers |= {name: int(numbers[name]) for name in ("epoch", "step")}
        arrays = row[len(_NUMBERS) :].reshape(len(_PER_TASK), n_tasks).copy()
        records.append(EpochRecord(**numbers, **dict(zip(_PER_TASK, arrays, strict=True))))
    return records
