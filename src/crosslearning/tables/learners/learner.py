"""Learners with fits of their own, such as trees: without the task, and with it as a column."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crosslearning.tables.forecast import Learned, probabilities_of
from crosslearning.tables.rows import Rows
from crosslearning.tasks.folds import Splits

Array = NDArray[np.float64]


@dataclass(eq=False)
class Learner(ABC):
    """Predicts held-out rows without having seen them, and learns from all rows at last.

    `pooled` and `cross` label its models without and with the task, and are perhaps `plural`;
    `words` is what they are, in the plural. It is tried for targets of some `kinds`, with the
    option `base` at one of its `bases`, if there is a `package`.
    """

    rows: Rows
    splits: Splits
    family: str
    seed: int

    pooled: ClassVar[str]
    cross: ClassVar[str]
    words: ClassVar[str]
    plural: ClassVar[bool] = False
    bases: ClassVar[tuple[str, ...]] = ("auto",)
    package: ClassVar[str] = "numpy"
    kinds: ClassVar[tuple[str, ...]] = ("regression", "classification")

    @abstractmethod
    def held_out(self, *, with_task: bool) -> Iterator[list[Array]]:
        """Learn split by split, and yield the predictions of the test parts so far.

        After the last split, these are all of them: means, or probabilities by :meth:`complete`.
        Those of tasks that a training part lacks are replaced by those without the task.
        """

    @abstractmethod
    def final(self, sds: Array, *, with_task: bool) -> Learned:
        """Learn from all rows; `sds` are standard deviations, in tasks and in new ones."""

    def complete(self, predictions: Array) -> Array:
        """Means as they are, or probabilities of all classes."""
        return (
            predictions
            if self.rows.classes is None
            else probabilities_of(predictions, self.rows.smallest)
        )


def design(part: Rows, *, with_task: bool) -> Array:
    """Features, and the codes of groups and tasks for models that know the task."""
    if not with_task:
        return part.X
    groups = () if part.levels is None else part.levels.group_codes[part.codes].T
    return np.column_stack([part.X, *groups, part.codes])
