"""Learners with fits of their own, such as trees: without the task, and with it as a column."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crosslearning.convex.deadline import check_deadline
from crosslearning.tables.forecast import Trees, probabilities_of
from crosslearning.tables.rows import Rows
from crosslearning.tasks.folds import Splits

Array = NDArray[np.float64]
GROWN: dict[str, Any] = {  # settings of all trees
    "bagging_freq": 1,
    "deterministic": True,
    "force_row_wise": True,
    "min_data_in_bin": 1,
    "verbosity": -1,
}
_MANY = 10**6  # numbers, which are worth several threads


@dataclass(eq=False)
class Learner(ABC):
    """Predicts held-out rows without having seen them, and fits all rows at last.

    `pooled` and `cross` label its models without and with the task, and `feature` all of them in a
    sentence. It needs a `package`.
    """

    rows: Rows
    splits: Splits
    family: str
    seed: int

    pooled: ClassVar[str]
    cross: ClassVar[str]
    feature: ClassVar[str]
    plural: ClassVar[bool] = False
    only_classes: ClassVar[bool] = False
    package: ClassVar[str] = "lightgbm"

    @abstractmethod
    def held_out(self, *, with_task: bool) -> Iterator[list[Array]]:
        """Learn split by split; after the last, yield the predictions of all test parts."""

    @abstractmethod
    def final(self, sds: Array, *, with_task: bool) -> Any:
        """Learn from all rows; a record that predicts, with standard deviations around that."""

    def stored(
        self, texts: Sequence[str], sds: Array, *, with_task: bool, by_class: bool = False
    ) -> Trees:
        """Trees, and those that predict new tasks."""
        return Trees(
            text=np.frombuffer("\0".join(texts).encode(), dtype=np.uint8),
            sds=sds,
            smallest=_smallest(self.rows),
            by_class=by_class,
            pooled=self.final(sds, with_task=False) if with_task else None,
            groups=self.rows.levels.group_codes if with_task and self.rows.levels else None,
        )

    def complete(self, predictions: Array) -> Array:
        """Means as they are, or probabilities of all classes."""
        if self.rows.classes is None:
            return predictions
        return probabilities_of(predictions, _smallest(self.rows))


def _smallest(rows: Rows) -> float:
    """Smallest probability of a class."""
    return 1.0 / (len(rows.y) + 2.0)


def design(part: Rows, *, with_task: bool) -> Array:
    """Features, and the codes of groups and tasks for models that know the task."""
    if not with_task:
        return part.X
    groups = () if part.levels is None else part.levels.group_codes[part.codes].T
    return np.column_stack([part.X, *groups, part.codes])


def n_threads(part: Rows) -> int:
    """One thread for few numbers, for which threads mostly wait for each other; else all."""
    return 1 if part.X.size < _MANY else 0


def give_up_in_time(_: Any) -> None:
    """Stop growing trees when there is no more time."""
    check_deadline()
