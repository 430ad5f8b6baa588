"""A first look at a large table: labels, levels, gaps, and a sample of rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype

from crosslearning.tables.columns.encoder import PARTS, TableEncoder, counted, levels_of
from crosslearning.tables.columns.labels import tidy
from crosslearning.tables.columns.recognition import (
    ROW_NUMBER,
    as_numbers,
    column_of,
    has_days_first,
    is_date,
)
from crosslearning.tables.columns.schema import Features, check_task_count, features_of, unlabelled
from crosslearning.tables.columns.target import Target, target_of
from crosslearning.tables.engines.dealing import uniform
from crosslearning.tables.options import option
from crosslearning.tables.prepared import check_rows, kind_asked

_SAMPLE = 50_000  # rows
_MOST_LEVELS = 100_000  # distinct values to count; what has more is no category
_MOST_CLASSES = 100  # distinct targets to keep
_WHOLE = r"0|-?[1-9]\d{0,14}"


@dataclass(eq=False)
class Survey:
    """What is known of the rows seen so far; surveys of parts of a table can be added.

    `drop` leaves out rows without a label; `n_rows` counts the rows to learn from, and `dropped`
    the others, of which the `unlabelled` have a target. `labels` are distinct ones as written, and
    `targets` distinct ones too, None if they are many; `missing` counts gaps by column, `levels`
    counts by level and column, None for too many; `ranges` are those of columns of numbers, and
    days come first in dates of `day_first`. Rows of the `sample`, in the order of the table, were
    drawn at random by their `keys`.
    """

    task: str
    target: str
    drop: bool = False
    n_rows: int = 0
    dropped: int = 0
    labels: NDArray[Any] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    targets: NDArray[Any] | None = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    missing: dict[str, int] = field(default_factory=dict)
    levels: dict[str, pd.Series[Any] | None] = field(default_factory=dict)
    ranges: dict[str, list[float]] = field(default_factory=dict)
    day_first: set[str] = field(default_factory=set)
    sample: pd.DataFrame = field(default_factory=pd.DataFrame)
    keys: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    unlabelled: int = 0

    def look(self, frame: pd.DataFrame, part: int, types: dict[str, str], seed: int) -> None:
        """Take rows of some part into account; `types` are those of columns that are known."""
        rows, _, labels = usable(frame, self.task, self.target, drop=self.drop)
        keys = uniform(part, rows.index.to_numpy(), seed)
        few = np.flatnonzero(keys < (self.keys.max() if len(self.keys) == _SAMPLE else 1.0))
        few = few[_smallest(keys[few])]
        some = rows.iloc[few]
        texts = [name for name in some.columns if isinstance(some[name].dtype, pd.CategoricalDtype)]
        features = [name for name in frame.columns if name not in (self.task, self.target)]
        counted_ones = [name for name in features if _is_category(rows[name], types.get(name))]
        seen = Survey(
            self.task,
            self.target,
            self.drop,
            len(rows),
            len(frame) - len(rows),
            labels,
            _few(np.asarray(rows[self.target].unique())),
            {name: int(rows[name].isna().sum()) for name in features},
            {name: _capped(counted(rows[name])) for name in counted_ones},
            {
                name: _range(rows[name])
                for name in frame.columns
                if is_numeric_dtype(rows[name].dtype)
            },
            {name for name in features if _has_days_first(rows[name])},
            some.astype(dict.fromkeys(texts, object)),
            keys[few],
            int(frame[self.target].notna().sum()) - len(rows),
        )
        self.add(seen)

    def copy(self) -> Survey:
        """Return one that can be added to."""
        mine = {name: getattr(self, name).copy() for name in _MAPS}
        return replace(self, **mine)

    def add(self, other: Survey) -> None:
        """Take rows of another survey into account."""
        self.n_rows += other.n_rows
        self.dropped += other.dropped
        self.unlabelled += other.unlabelled
        self.labels = _union(self.labels, other.labels)
        if self.targets is not None:
            few = other.targets
            self.targets = None if few is None else _few(_union(self.targets, few))
        self.day_first |= other.day_first
        for name, gaps in other.missing.items():
            self.missing[name] = self.missing.get(name, 0) + gaps
        for name, counts in other.levels.items():
            self.levels[name] = _sum(
                self.levels.get(name, counts[:0] if counts is not None else None), counts
            )
        for name, (low, high) in other.ranges.items():
            known = self.ranges.get(name, (low, high))
            self.ranges[name] = [min(low, known[0]), max(high, known[1])]
        keys = np.append(self.keys, other.keys)
        best = _smallest(keys)
        both = [part for part in (self.sample, other.sample) if len(part)]
        if both:
            self.sample = pd.concat(both).iloc[best]
        self.keys = keys[best]

    def tasks(self) -> tuple[pd.Index[Any], NDArray[Any]]:
        """Labels as they are written, and as what they are, in order."""
        written = pd.Index(self.labels)
        meant = written
        if pd.api.types.is_string_dtype(written) and written.str.fullmatch(_WHOLE).all():
            meant = written.astype(np.int64)
        order = meant.argsort()
        return written[order], meant[order].to_numpy()

    def encoder(self, numbers: list[str], categories: list[str], dates: list[str]) -> TableEncoder:
        """Levels, gaps and ranges of all rows, medians and ranges of dates of the sample."""
        own = TableEncoder.of(self.sample, numbers, categories, dates)
        gaps = {name for name, count in self.missing.items() if count}
        gaps |= {f"{name} {part}" for name in gaps.intersection(dates) for part in PARTS}
        flagged = [name for name in own.numbers if name in gaps or name in own.flagged]
        levels, rare = dict(own.levels), dict(own.rare)
        for name in categories:
            counts = self.levels.get(name)
            if counts is not None:
                levels[name] = levels_of(counts)
                rare[name] = sorted(set(counts.index) - set(levels[name]))
        ranges = {name: self.ranges.get(name, ends) for name, ends in own.ranges.items()}
        days = [name for name in dates if name in self.day_first]
        return replace(
            own, flagged=flagged, levels=levels, rare=rare, ranges=ranges, day_first=days
        )


_MAPS = ("missing", "levels", "ranges", "day_first")


def usable(
    frame: pd.DataFrame, task: str, target: str, *, drop: bool
) -> tuple[pd.DataFrame, NDArray[np.intp], NDArray[Any]]:
    """Rows with a target, the code of each one's task, and the label of each code."""
    codes, found = pd.factorize(frame[task])
    labels = tidy(pd.Series(np.asarray(found)))
    empty = labels.isna().to_numpy()
    if empty.any():
        codes = np.where(empty[codes], -1, codes)
    keep = frame[target].notna().to_numpy()
    if drop:
        keep &= codes >= 0
    if not keep.all():
        frame, codes = frame[keep], codes[keep]
    if (codes < 0).any():
        raise unlabelled(task, frame.index[codes < 0])
    return frame, codes, labels.to_numpy()


def _is_category(values: pd.Series[Any], wanted: str | None) -> bool:
    """Whether to count levels: of all that may turn out to be categories."""
    if wanted is not None or not is_numeric_dtype(values.dtype):
        return wanted == "category" or not is_datetime64_any_dtype(values.dtype)
    return column_of(values.head(_SAMPLE)).type == "category"


def _has_days_first(values: pd.Series[Any]) -> bool:
    if is_numeric_dtype(values.dtype) or is_datetime64_any_dtype(values.dtype):
        return False
    written = pd.Series(values.dropna().unique()).astype(object)
    return is_date(written) and has_days_first(written)


def _range(values: pd.Series[Any]) -> list[float]:
    """Smallest and largest; of no values what any other range contains."""
    if not isinstance(values.dtype, np.dtype):
        values = values.dropna()
    numbers = values.to_numpy()
    ends = (np.fmin.reduce(numbers), np.fmax.reduce(numbers)) if len(numbers) else (np.nan, np.nan)
    return [np.inf, -np.inf] if np.isnan(ends[0]) else [float(end) for end in ends]


def _smallest(keys: NDArray[np.float64]) -> NDArray[np.intp]:
    """Positions of the smallest keys, as many as a sample has, in order."""
    return np.sort(np.argsort(keys, kind="stable")[:_SAMPLE])


def _few(values: NDArray[Any]) -> NDArray[Any] | None:
    return values if len(values) <= _MOST_CLASSES else None


def _capped(counts: pd.Series[Any]) -> pd.Series[Any] | None:
    return counts if len(counts) <= _MOST_LEVELS else None


def _sum(a: pd.Series[Any] | None, b: pd.Series[Any] | None) -> pd.Series[Any] | None:
    if a is None or b is None:
        return None
    return _capped(a.add(b, fill_value=0).astype(np.int64))


def _union(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Distinct labels in order of appearance, by hashing."""
    if not len(a):
        return pd.unique(b)
    return np.asarray(pd.unique(np.concatenate([a, b])))


def recognised(
    survey: Survey, sample: pd.DataFrame, settings: Any, types: dict[str, str]
) -> tuple[Target, Features]:
    """Recognise target and columns from a sample, and refuse what needs all rows at once."""
    task, target, features = settings.task, settings.target, settings.features
    check_rows(survey.n_rows, survey.n_rows + survey.dropped, target)
    check_task_count(task, survey.labels, survey.n_rows)
    kind = kind_asked(settings.kind, settings.family, types.pop(target, None))
    values = sample[target]
    if survey.targets is not None:  # rare ones may not be in the sample
        rare = pd.Series(survey.targets, name=target)
        values = pd.concat([values, rare[~rare.isin(values)]], ignore_index=True)
    goal = target_of(values, kind, settings.family, settings.metric)
    if settings.family in ("student", "gamma", "quantile"):
        raise ValueError(
            f"{option('family', settings.family)} needs all rows in memory, but this table is read "
            "in chunks. Choose another family, or fit a part of the table."
        )
    if goal.family in ("student", "gamma"):
        goal = replace(goal, family="gaussian")
    excluded = (settings.weights, settings.group)
    found = features_of(sample, task, target, features, excluded=excluded, types=types)
    columns = [
        replace(column, missing=survey.missing.get(column.name, column.missing))
        for column in found.used
    ]
    numbered = [
        replace(column, reason=ROW_NUMBER)
        for column in columns
        if features is None
        and column.type == "number"
        and _numbers_rows(sample[column.name], survey)
    ]
    names = {column.name for column in numbered}
    used = tuple(column for column in columns if column.name not in names)
    return goal, Features(used, (*found.ignored, *numbered))


def _numbers_rows(values: pd.Series[Any], survey: Survey) -> bool:
    """Whether a column seems to number the rows of the table that a sample was drawn from."""
    if len(values) == survey.n_rows or values.isna().any() or not values.is_unique:
        return False
    numbers = as_numbers(values)
    return not np.any(numbers % 1) and bool(np.ptp(numbers) < 2 * survey.n_rows)
