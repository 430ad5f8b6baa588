"""The training history."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from crosslearning.tether import Array

if TYPE_CHECKING:
    from crosslearning.report.plots import Plot


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

    def plot(self) -> Plot:
        """Draw the loss and the validation score of every epoch; needs the extra ``app``."""
        from crosslearning.report import plots

        return plots.training(self.epochs)

    def _repr_html_(self) -> str:
        from crosslearning.report import plots

        if not self.records:
            return repr(self)
        best = "" if self.best_epoch is None else f"; the best was epoch {self.best_epoch}"
        sentence = f"{len(self)} epochs of {len(self._tasks)} tasks{best}."
        return plots.html(sentence, self.epochs.tail(5), self.plot)

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


def to_columns(records: list[EpochRecord]) -> dict[str, torch.Tensor]:
    """Return records field by field, exactly."""
    return {
        field.name: torch.from_numpy(np.array([getattr(record, field.name) for record in records]))
        for field in fields(EpochRecord)
    }


def from_columns(columns: dict[str, torch.Tensor]) -> list[EpochRecord]:
    """Invert :func:`to_columns`."""
    values = [one.tolist() if one.dim() == 1 else one.numpy() for one in columns.values()]
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True))
    return [EpochRecord(**row) for row in rows]
