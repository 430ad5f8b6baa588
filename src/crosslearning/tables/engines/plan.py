"""How the rows of a table become numbers, sums and folds, chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.convex.sums.passes import Pass, PassSums
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.tables.columns.encoder import TableEncoder
from crosslearning.tables.columns.recognition import as_numbers, first_of
from crosslearning.tables.columns.target import refuse_slips
from crosslearning.tables.engines.dealing import GROUP, TASK, deal, uniform
from crosslearning.tables.engines.survey import usable
from crosslearning.tables.metrics import weights_of
from crosslearning.tables.rows import Rows
from crosslearning.tables.settings import FitSettings
from crosslearning.tables.splits import Splits, hold_out_words, splits_of, time_values

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Kept:
    """Rows of a chunk that stay in memory; `ends` are the extremes of all targets that count."""

    X: Array
    y: Array
    codes: NDArray[np.intp]
    folds: NDArray[np.intp]
    weights: Array
    times: NDArray[Any]
    groups: NDArray[Any]
    ends: Array


@dataclass(frozen=True, eq=False)
class Collected:
    """Rows that stay in memory, of all chunks, and the sums of all rows by task and fold."""

    kept: Kept
    sums: Statistics

    @classmethod
    def of(cls, parts: Sequence[Kept], sums: Statistics) -> Collected:
        """Put chunks together."""
        columns = {
            one.name: np.concatenate([getattr(part, one.name) for part in parts])
            for one in fields(Kept)
        }
        return cls(Kept(**columns), sums)


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """What to do with each chunk of a table.

    Attributes
    ----------
    settings : FitSettings
        Columns of tasks, targets, weights, times and groups, number of folds, and the seed.
    encoder : TableEncoder
        Turns columns into features.
    labels : Index
        Labels of the tasks, as they are written.
    classes : array, optional
        Classes of the target.
    complete : bool
        Whether all rows are kept, so that nothing needs to be summed.
    summed_by_fold : bool
        Whether models are compared by sums, not by rows.
    task_share, row_share : float
        Shares of the tasks, and of their rows, to keep.
    starts : array
        First moments of the parts that later rows are divided into.
    horizon : dict, optional
        How far ahead models are tested.
    day_first : bool
        Whether dates of the column of times begin with a day.
    """

    settings: FitSettings
    encoder: TableEncoder
    labels: pd.Index[Any]
    classes: NDArray[Any] | None
    complete: bool
    summed_by_fold: bool = False
    task_share: float = 1.0
    row_share: float = 1.0
    starts: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    horizon: dict[str, Any] | None = None
    day_first: bool = False

    @property
    def columns(self) -> list[str]:
        """The columns that are needed."""
        given = self.settings
        named = [given.task, given.target, *self.encoder.columns]
        named += [name for name in (given.weights, given.group, given.time) if name is not None]
        return list(dict.fromkeys(named))

    @property
    def n_features(self) -> int:
        """Number of encoded features."""
        return len(self.encoder.feature_names)

    @property
    def n_folds(self) -> int:
        """Number of parts that rows are divided into."""
        return self.settings.folds if self.settings.time is None else len(self.starts) + 1

    @property
    def n_summed(self) -> int:
        """Number of folds whose sums are needed."""
        return self.n_folds if self.summed_by_fold else 1

    @property
    def parts(self) -> list[tuple[list[int], int]]:
        """Folds to learn from, and the one to test on, of each split."""
        if self.settings.time is not None:
            return [(list(range(k)), k) for k in range(1, self.n_folds)]
        return [([j for j in range(self.n_folds) if j != k], k) for k in range(self.n_folds)]

    @property
    def words(self) -> str:
        """What the splits test on."""
        return hold_out_words(self.settings, self.horizon)

    def encoded(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, Rows]:
        """Rows with a target, and the same as numbers."""
        given = self.settings
        frame, codes, labels = usable(frame, given.task, given.target, drop=given.drop_unlabelled)
        index, weights = pd.Index(labels, tupleize_cols=False), None
        if given.weights is not None:
            weights = weights_of(frame, given.weights, self.encoder.marks)
        return frame, Rows(
            X=self.encoder.encode(frame),
            y=self._targets(frame[given.target]),
            codes=self.labels.get_indexer(index)[codes],
            n_tasks=len(self.labels),
            weights=weights,
            classes=self.classes,
        )

    def add(self, frame: pd.DataFrame, seen: NDArray[np.int64], sums: Statistics) -> Kept:
        """Add rows to sums, having seen so many rows of each task, and keep some of them."""
        frame, rows = self.encoded(frame)
        times, groups = self._times(frame), self._groups(frame)
        keep, folds = np.ones(len(rows.y), dtype=bool), np.zeros(len(rows.y), dtype=np.intp)
        if not self.complete:
            folds, keys = deal(rows.codes, seen, self.n_folds, self.settings.seed)
            if self.settings.time is not None:
                folds = np.searchsorted(self.starts, times, side="right")
            elif self.settings.group is not None:
                folds = self._folds_of_groups(groups)
            sums.partial_fit(
                rows.X,
                rows.y,
                rows.codes,
                # Of all tasks, codes are the positions; a part of a table may lack some.
                labels=sums.labels if sums.n_tasks == len(self.labels) else None,
                sample_weight=rows.weights,
                folds=folds if sums.n_folds > 1 else None,
            )
            keep = (keys < self.row_share) & (rows.given_weights > 0)
            if self.task_share < 1:
                keep &= uniform(rows.codes, 0, self.settings.seed, TASK) < self.task_share
        counted = rows.counted
        return Kept(
            X=rows.X[keep],
            y=rows.y[keep],
            codes=rows.codes[keep],
            folds=folds[keep],
            weights=rows.given_weights[keep],
            times=times[keep],
            groups=groups[keep],
            ends=np.sort(counted)[[0, -1]] if len(counted) else np.empty(0),
        )

    def sums_at(self, frame: pd.DataFrame, at: Pass) -> PassSums:
        """Sum rows at the parameters of a pass."""
        _, rows = self.encoded(frame)
        return at.sums(rows.X, rows.y, rows.codes, rows.weights)

    def rows_of(self, kept: Kept) -> tuple[Rows, Splits, NDArray[np.intp]]:
        """Rows that were kept, their splits, and the tasks that they belong to."""
        tasks, codes = np.unique(kept.codes, return_inverse=True)
        y = kept.y if self.classes is None else self.classes[kept.y.astype(np.intp)]
        weights = None if self.settings.weights is None else kept.weights
        rows = Rows(kept.X, y, codes, len(tasks), weights, self.classes)
        return rows, self._splits(kept, rows), tasks

    def _splits(self, kept: Kept, rows: Rows) -> Splits:
        given = self.settings
        if self.complete:
            return splits_of(
                rows.codes,
                given.folds,
                given.seed,
                classes=rows.y if rows.classes is not None else None,
                parts=np.searchsorted(self.starts, kept.times, side="right")
                if given.time
                else None,
                groups=kept.groups if given.group else None,
            )
        sides = (
            (np.flatnonzero(np.isin(kept.folds, train)), np.flatnonzero(kept.folds == test))
            for train, test in self.parts
        )
        parts = [(train, test) for train, test in sides if len(train) and len(test)]
        if not parts:  # such as one group only
            raise ValueError(
                f"Testing {self.words} leaves nothing to train on. Hold out other rows."
            )
        folds = np.unique(kept.folds, return_inverse=True)[1]  # some have no rows
        return Splits(parts, folds if given.time is None else None)

    def _targets(self, values: pd.Series[Any]) -> Array:
        """Numbers, or the number of each row's class."""
        if self.classes is None:
            y = self._numbers(values)
            refuse_slips(values, y)
            return y
        codes, uniques = pd.factorize(values)
        distinct: Any = pd.Series(np.asarray(uniques))
        if self.classes.dtype == object:
            distinct = distinct.astype(object).map(str)
        elif self.classes.dtype != bool:
            distinct = self._numbers(distinct.rename(values.name))
        numbers = pd.Index(self.classes).get_indexer(pd.Index(distinct))[codes]
        if (numbers < 0).any():
            raise ValueError(
                f"The target {values.name!r} must be one of {', '.join(map(str, self.classes))}; "
                f"got {first_of(values[numbers < 0])}. Correct the table."
            )
        return np.asarray(numbers, dtype=np.float64)

    def _numbers(self, values: pd.Series[Any]) -> Array:
        return as_numbers(values, self.encoder.marks.get(str(values.name)))

    def _times(self, frame: pd.DataFrame) -> NDArray[Any]:
        name = self.settings.time
        if name is None:
            return np.zeros(len(frame))
        return time_values(frame[name], day_first=self.day_first)

    def _groups(self, frame: pd.DataFrame) -> NDArray[Any]:
        """Text of the group of each row."""
        name = self.settings.group
        if name is None:
            return np.zeros(len(frame))
        codes, uniques = pd.factorize(frame[name].astype(object), use_na_sentinel=False)
        return np.array([str(group) for group in uniques], dtype=object)[codes]

    def _folds_of_groups(self, groups: NDArray[Any]) -> NDArray[np.intp]:
        """Folds that depend on the group of a row alone."""
        codes, names = pd.factorize(groups)
        random = uniform(pd.util.hash_array(names), 0, self.settings.seed, GROUP)
        return (self.n_folds * random).astype(np.intp)[codes]
