"""What a table holds, and what is to be done with its rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.convex.sums.passes import Pass, PassSums
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.tables.columns.encoder import TableEncoder
from crosslearning.tables.columns.features import Features, remarks
from crosslearning.tables.columns.levels import TaskLevels
from crosslearning.tables.columns.recognition import as_numbers
from crosslearning.tables.columns.target import Target, class_codes, refuse_slips
from crosslearning.tables.engines.dealing import GROUP, TASK, deal, uniform
from crosslearning.tables.engines.survey import Survey, usable
from crosslearning.tables.findings import Horizon
from crosslearning.tables.metrics import Metric
from crosslearning.tables.rows import Rows
from crosslearning.tables.settings import FitSettings
from crosslearning.tables.splits import Splits, splits_of, time_values

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Schema:
    """What a table holds, and what is to be done with its rows.

    Attributes
    ----------
    settings, survey
        The options of the fit, and what a first look at all rows showed.
    target, features, metric
        What to predict, what from, and what models are scored by.
    encoder : TableEncoder
        Turns columns into features.
    written, labels : Index, array
        Labels of the tasks, as they are written and as what they are.
    levels : TaskLevels, optional
        The same of several columns, if tasks are groups within groups.
    complete : bool
        Whether all rows are kept in memory, so that nothing needs to be summed.
    summed_by_fold : bool
        Whether models are compared by sums, not by rows.
    task_share, row_share : float
        Shares of the tasks, and of their rows, to keep.
    starts : array
        First moments of the parts that later rows are divided into.
    horizon : Horizon, optional
        How far ahead models are tested.
    """

    settings: FitSettings
    survey: Survey
    target: Target
    features: Features
    metric: Metric
    encoder: TableEncoder
    written: pd.Index[Any]
    labels: NDArray[Any]
    levels: TaskLevels | None
    complete: bool
    summed_by_fold: bool = False
    task_share: float = 1.0
    row_share: float = 1.0
    starts: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    horizon: Horizon | None = None

    @property
    def classes(self) -> NDArray[Any] | None:
        """The classes, if the target is one of them."""
        return self.target.classes

    @property
    def notes(self) -> list[str]:
        """What seems odd about columns and labels, and what a sample had to do for."""
        survey, notes = self.survey, []
        if not survey.complete:
            gaps = ", and medians in place of gaps" if self.encoder.flagged else ""
            some = f"{len(survey.sample):,} rows drawn at random{gaps}"
            notes.append(f"columns were recognised from {some}")
        return notes + remarks(survey.sample, self.features, self.settings, self.labels)

    @property
    def columns(self) -> list[str]:
        """The columns that are needed."""
        settings = self.settings
        named = [*settings.task, settings.target, *self.encoder.columns]
        named += [
            name for name in (settings.weights, settings.group, settings.time) if name is not None
        ]
        return list(dict.fromkeys(named))

    @property
    def n_features(self) -> int:
        """Number of encoded features."""
        return len(self.encoder.feature_names)

    @property
    def n_folds(self) -> int:
        """Number of parts that rows are divided into."""
        return self.settings.folds if self.horizon is None else len(self.starts) + 1

    @property
    def n_summed(self) -> int:
        """Number of folds whose sums are needed."""
        return self.n_folds if self.summed_by_fold else 1

    @property
    def parts(self) -> list[tuple[list[int], int]]:
        """Folds to learn from, and the one to test on, of each split."""
        folds = range(self.n_folds)
        if self.horizon is not None:
            return [(list(range(k)), k) for k in folds[1:]]
        return [([j for j in folds if j != k], k) for k in folds]

    @property
    def words(self) -> str:
        """Which rows models are tested on."""
        if self.horizon is not None:
            column, reach = self.horizon.column, self.horizon.reach
            return f"on rows with a later {column} than the training rows, by at most {reach}"
        group = self.settings.group
        return f"on rows with a held-out {group}" if group else "on held-out rows"

    def without_survey(self) -> Schema:
        """Return what the work on rows needs, which is small."""
        return replace(self, survey=Survey(self.settings))

    def encoded(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, Rows]:
        """Rows with a target, and the same as numbers; classes by their positions."""
        settings = self.settings
        frame, codes, labels = usable(frame, settings)
        target, mark = frame[settings.target], self.encoder.marks.get(settings.target)
        if self.classes is None:
            y = as_numbers(target, mark)
            refuse_slips(target, y)
        else:
            y = class_codes(target, self.classes, mark).astype(np.float64)
        index = pd.Index(labels, tupleize_cols=False)
        return frame, Rows(
            X=self.encoder.encode(frame),
            y=y,
            codes=self.written.get_indexer(index)[codes],
            n_tasks=len(self.labels),
            weights=self.encoder.weights(frame, settings.weights) if settings.weights else None,
            classes=self.classes,
            levels=self.levels,
        )

    def add(
        self, frame: pd.DataFrame, seen: NDArray[np.int64], sums: Statistics
    ) -> tuple[Rows, Array]:
        """Add rows to sums, having seen so many rows of each task.

        Returns the rows to keep, and the extremes of all targets that count.
        """
        frame, rows = self.encoded(frame)
        counted = rows.counted
        ends = np.array([counted.min(), counted.max()]) if len(counted) else np.empty(0)
        rows = replace(rows, folds=self._parts_in_time(frame), groups=self._groups(frame))
        if self.complete:
            return rows, ends
        folds, keys = deal(rows.codes, seen, self.n_folds, self.settings.seed)
        if rows.folds is not None:
            folds = rows.folds
        elif rows.groups is not None:
            folds = self._folds_of_groups(rows.groups)
        sums.partial_fit(
            rows.X,
            rows.y,
            rows.codes,
            # Of all tasks, codes are the positions; a part of a table may lack some.
            labels=sums.labels if sums.n_tasks == len(self.labels) else None,
            sample_weight=rows.weights,
            folds=folds if sums.n_folds > 1 else None,
        )
        keep = (keys < self.row_share) & (rows.row_weights > 0)
        if self.task_share < 1:
            keep &= uniform(rows.codes, 0, self.settings.seed, TASK) < self.task_share
        return replace(rows, folds=folds).take(keep), ends

    def sums_at(self, frame: pd.DataFrame, at: Pass) -> PassSums:
        """Sum rows at the parameters of a pass."""
        _, rows = self.encoded(frame)
        return at.sums(rows.X, rows.y, rows.codes, rows.weights)

    def rows_of(self, kept: Rows) -> tuple[Rows, Splits, NDArray[np.intp]]:
        """Rows that were kept, their splits, and the tasks that they belong to."""
        settings, classes = self.settings, self.classes
        tasks, codes = np.unique(kept.codes, return_inverse=True)
        y = kept.y if classes is None else classes[kept.y.astype(np.intp)]
        if kept.folds is not None:
            splits = Splits.of(kept.folds, in_time=self.horizon is not None)
        else:
            by_class = None if classes is None else y
            splits = splits_of(
                codes, settings.folds, settings.seed, classes=by_class, groups=kept.groups
            )
        if not splits.parts:  # such as one group only
            raise ValueError(
                f"Testing {self.words} leaves nothing to train on. Hold out other rows."
            )
        rows = Rows(
            X=kept.X,
            y=y,
            codes=codes,
            n_tasks=len(tasks),
            weights=kept.weights,
            classes=classes,
            levels=self.levels,
            grades=self.target.grades,
        )
        return rows, splits, tasks

    def _parts_in_time(self, frame: pd.DataFrame) -> NDArray[np.intp] | None:
        """Part of each row, if later rows are tested on."""
        if self.horizon is None:
            return None
        times = time_values(frame[self.horizon.column], day_first=self.horizon.day_first)
        return np.searchsorted(self.starts, times, side="right")

    def _groups(self, frame: pd.DataFrame) -> NDArray[Any] | None:
        """Text of the group of each row, if groups stay together."""
        name = self.settings.group
        if name is None:
            return None
        codes, uniques = pd.factorize(frame[name].astype(object), use_na_sentinel=False)
        return np.array([str(group) for group in uniques], dtype=object)[codes]

    def _folds_of_groups(self, groups: NDArray[Any]) -> NDArray[np.intp]:
        """Folds that depend on the group of a row alone."""
        codes, names = pd.factorize(groups)
        random = uniform(pd.util.hash_array(names), 0, self.settings.seed, GROUP)
        return (self.n_folds * random).astype(np.intp)[codes]
