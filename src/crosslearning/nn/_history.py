"""What happened in training, epoch by epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

_NUMBERS = ("epoch", "step", "score", "learning_rate", "stationarity", "seconds")
_PER_TASK = ("losses", "distances", "pulls", "scores")


@dataclass(frozen=True, eq=False)
class EpochRecord:
    """One epoch; arrays have one number per task, in the order of the models.

    Attributes
    ----------
    epoch : int
        Epochs done, from 1.
    step : int
        Steps done.
    losses : array of shape (n_tasks,)
        Training loss of each task, averaged over the steps of the epoch.
    distances : array of shape (n_tasks,)
        Distance of each task to the centre, as stored at the end of the epoch.
    pulls : array of shape (n_tasks,)
        Pulls of the last projection, the largest among the blocks.
    scores : array of shape (n_tasks,)
        Validation metric of each task, NaN without validation.
    score : float
        Their mean.
    learning_rate : float
        Of the first group of parameters, during the epoch.
    stationarity : float
        Length of the last step of the tethered parameters, projection included, divided by the
        learning rate: the norm of the gradient where nothing holds the tasks, and 0 at a solution.
        It is estimated from a million parameters where there are more.
    seconds : float
        Time it took.
    """

    epoch: int
    step: int
    losses: NDArray[np.float64]
    distances: NDArray[np.float64]
    pulls: NDArray[np.float64]
    scores: NDArray[np.float64]
    score: float
    learning_rate: float
    stationarity: float
    seconds: float

    @property
    def loss(self) -> float:
        """Training loss, averaged over tasks."""
        return float(np.mean(self.losses))


class History:
    """Records of the epochs of a run, as two tables.

    Parameters
    ----------
    tasks : tuple
        Labels of the tasks.

    Attributes
    ----------
    records : list of EpochRecord
        One per epoch.
    best_epoch : int or None
        Epoch of the best validation score, where there was validation.
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
        names = ["step", "loss", "score", "learning_rate", "stationarity", "seconds"]
        columns = {name: [getattr(record, name) for record in self.records] for name in names}
        return pd.DataFrame(columns, index=pd.Index(self._numbers(), name="epoch"))

    @property
    def tasks(self) -> pd.DataFrame:
        """Table with a row per epoch and task: loss, validation score, distance and pull."""
        names = {"loss": "losses", "score": "scores", "distance": "distances", "pull": "pulls"}
        epochs = np.repeat(np.array(self._numbers(), dtype=int), len(self._tasks))
        labels = pd.Series(list(self._tasks) * len(self))
        table = pd.DataFrame({"epoch": epochs, "task": labels})
        for name, attribute in names.items():
            values = [getattr(record, attribute) for record in self.records]
            table[name] = np.concatenate(values) if values else np.empty(0)
        return table

    def _numbers(self) -> list[int]:
        return [record.epoch for record in self.records]


def to_matrix(records: list[EpochRecord], n_tasks: int) -> NDArray[np.float64]:
    """Return records as rows of float64, which holds all of them exactly."""
    names = (*_NUMBERS, *_PER_TASK)
    rows = [np.hstack([getattr(record, name) for name in names]) for record in records]
    return np.array(rows).reshape(len(rows), len(_NUMBERS) + len(_PER_TASK) * n_tasks)


def from_matrix(matrix: NDArray[np.float64], n_tasks: int) -> list[EpochRecord]:
    """Turn around :func:`to_matrix`."""
    records = []
    for row in matrix:
        numbers: dict[str, Any] = dict(zip(_NUMBERS, row.tolist(), strict=False))
        numbers |= {"epoch": int(numbers["epoch"]), "step": int(numbers["step"])}
        per_task = row[len(_NUMBERS) :].reshape(len(_PER_TASK), n_tasks)
        arrays = {name: part.copy() for name, part in zip(_PER_TASK, per_task, strict=True)}
        records.append(EpochRecord(**numbers, **arrays))
    return records
