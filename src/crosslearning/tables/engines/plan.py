"""How the rows of a large table become numbers and folds, chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.convex.passes import Pass, PassSums
from crosslearning.convex.statistics import Statistics
from crosslearning.tables.columns.encoder import TableEncoder
from crosslearning.tables.columns.recognition import as_numbers, first_of
from crosslearning.tables.columns.target import refuse_slips
from crosslearning.tables.engines.dealing import deal, uniform
from crosslearning.tables.engines.survey import usable
from crosslearning.tables.metrics import weights_of
from crosslearning.tables.rows import Rows
from crosslearning.tables.splits import HELD_OUT, LATER, time_values


class Shown(NamedTuple):
    """Rows that are kept: features, targets, tasks, folds and weights; and `ends` of all targets.

    These are the smallest and largest of each chunk, of rows of positive weight.
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    codes: NDArray[np.intp]
    folds: NDArray[np.intp]
    weights: NDArray[np.float64]
    ends: NDArray[np.float64]

    @classmethod
    def of(cls, parts: Sequence[Shown]) -> Shown:
        """Put parts together."""
        return cls(*(np.concatenate(part) for part in zip(*parts, strict=True)))


class Plan(NamedTuple):
    """What to do with each chunk of a table.

    `classes` are those of the target, if it has any. Rows are dealt to `n_folds` folds at random,
    by the values of the column `group`, or by the first moments `starts` of the column `time`, in
    which days may come first. Models are compared by sums, or by rows; a random `task_share` of
    the tasks, and `row_share` of their rows, is kept.
    """

    task: str
    target: str
    weights: str | None
    drop: bool
    encoder: TableEncoder
    labels: pd.Index[Any]
    classes: NDArray[Any] | None
    n_folds: int
    seed: int
    group: str | None = None
    time: str | None = None
    starts: NDArray[Any] = np.empty(0)
    horizon: dict[str, Any] | None = None
    day_first: bool = False
    by_rows: bool = False
    task_share: float = 1.0
    row_share: float = 1.0

    @property
    def columns(self) -> list[str]:
        """The columns that are needed."""
        named = [self.task, self.target, *self.encoder.columns, self.weights, self.group, self.time]
        return [name for name in dict.fromkeys(named) if name is not None]

    @property
    def keeps_all(self) -> bool:
        """Whether all rows are kept, so that models need no more passes over them."""
        return self.by_rows and self.task_share == 1.0 and self.row_share > 1.0

    @property
    def n_summed(self) -> int:
        """Number of folds whose sums are needed."""
        return 1 if self.by_rows else self.n_folds

    @property
    def parts(self) -> list[tuple[list[int], int]]:
        """Folds to learn from, and the one to test on, of each split."""
        if self.time is not None:
            return [(list(range(k)), k) for k in range(1, self.n_folds)]
        return [([j for j in range(self.n_folds) if j != k], k) for k in range(self.n_folds)]

    @property
    def words(self) -> str:
        """What the splits test on."""
        if self.horizon is not None:
            return LATER.format(self.time, self.horizon["reach"])
        return HELD_OUT.format(self.group) if self.group else "on held-out rows"

    def encoded(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, Rows]:
        """Rows with a target, and the same as numbers."""
        frame, own, labels = usable(frame, self.task, self.target, drop=self.drop)
        X, y = self.encoder.encode(frame), self._targets(frame[self.target])
        codes = self.labels.get_indexer(pd.Index(labels))[own]
        weights = (
            None if self.weights is None else weights_of(frame, self.weights, self.encoder.marks)
        )
        return frame, Rows(X, y, codes, len(self.labels), weights, self.classes)

    def add_up(self, frame: pd.DataFrame, seen: NDArray[np.int64], sums: Statistics) -> Shown:
        """Add rows to sums, having seen so many rows of each task; and keep some of them."""
        frame, rows = self.encoded(frame)
        folds, keys = deal(rows.codes, seen, self.n_folds, self.seed)
        if self.time is not None:
            when = time_values(frame[self.time], day_first=self.day_first)
            folds = np.searchsorted(self.starts, when, side="right")
        elif self.group is not None:
            folds = self._of_groups(frame[self.group])
        X, y, codes = rows.X, rows.y, rows.codes
        sums.partial_fit(
            X,
            y,
            codes,
            labels=sums.labels,  # codes are positions: no search for distinct ones
            sample_weight=rows.weights,
            folds=folds if sums.n_folds > 1 else None,
        )
        few = keys < self.row_share
        if self.task_share < 1:
            few &= uniform(codes, 0, self.seed) < self.task_share
        ends = np.sort(rows.counted)[[0, -1]] if len(rows.counted) else np.empty(0)
        return Shown(X[few], y[few], codes[few], folds[few], rows.given_weights[few], ends)

    def passed(self, frame: pd.DataFrame, at: Pass) -> PassSums:
        """Sum rows at the parameters of a pass."""
        _, rows = self.encoded(frame)
        return at.sums(rows.X, rows.y, rows.codes, rows.weights)

    def _targets(self, values: pd.Series[Any]) -> NDArray[np.float64]:
        """Numbers, or the number of each row's class."""
        if self.classes is None:
            y = self._numbers(values)
            refuse_slips(values, y)
            return y
        codes, found = pd.factorize(values)
        distinct: Any = pd.Series(np.asarray(found))
        if self.classes.dtype == object:
            distinct = distinct.astype(object).map(str)
        elif self.classes.dtype != bool:
            distinct = self._numbers(distinct.rename(self.target))
        numbers = pd.Index(self.classes).get_indexer(pd.Index(distinct))[codes]
        if (numbers < 0).any():
            raise ValueError(
                f"The target {self.target!r} must be one of "
                f"{', '.join(map(str, self.classes))}; got {first_of(values[numbers < 0])}. "
                "Correct the table."
            )
        return np.asarray(numbers, dtype=np.float64)

    def _numbers(self, values: pd.Series[Any]) -> NDArray[np.float64]:
        return as_numbers(values, self.encoder.marks.get(str(values.name)))

    def _of_groups(self, values: pd.Series[Any]) -> NDArray[np.intp]:
        """Folds that depend on the group of a row alone."""
        codes, found = pd.factorize(values.astype(object), use_na_sentinel=False)
        names = np.array([str(name) for name in found], dtype=object)
        hashed = pd.util.hash_array(names)
        return (self.n_folds * uniform(hashed, 1, 2 * self.seed)).astype(np.intp)[codes]
