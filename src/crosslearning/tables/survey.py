"""A first look at all rows of a table: labels, levels, gaps, and a sample of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype

from crosslearning.tables.columns.encoder import PARTS, TableEncoder, counted
from crosslearning.tables.columns.labels import TaskLevels, tidy
from crosslearning.tables.columns.recognition import (
    as_numbers,
    check_names,
    has_days_first,
    is_date,
    listed_rows,
    named_like_codes,
    require_columns,
)
from crosslearning.tables.rows import SAMPLE, uniform
from crosslearning.tables.settings import FitSettings
from crosslearning.tasks.labels import as_objects

_SAMPLE = 50_000  # rows
_MOST_LEVELS = 100_000  # distinct values to count; what has more is no category
_MOST_CLASSES = 100  # distinct targets to keep
_WHOLE = r"0|-?[1-9]\d{0,14}"


def columns_to_read(columns: Sequence[str], settings: FitSettings) -> list[str]:
    """Check the settings against the names of the columns; and which of these to read."""
    header = pd.DataFrame(columns=list(columns))
    check_names(header)
    roles = ("target", "weights", "time", "group")
    used = [("the task", name) for name in settings.task]
    used += [(f"the {role}", getattr(settings, role)) for role in roles if getattr(settings, role)]
    for role, name in used:
        require_columns(header, [name], role)
    require_columns(header, settings.features or (), "the features")
    require_columns(header, list(settings.column_types), "numbers and categories")
    features = columns if settings.features is None else settings.features
    return list(dict.fromkeys([*(name for _, name in used), *features]))


@dataclass(eq=False)
class Survey:
    """What is known of the rows seen so far; surveys of parts of a table can be added."""

    settings: FitSettings
    room: float = 0  # rows that may be kept in memory
    text_as_categories: bool = False  # whether columns of categories hold text, read as such
    n_rows: int = 0  # to learn from
    dropped: int = 0  # other rows,
    unlabelled: int = 0  # of which these have a target
    labels: NDArray[Any] = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # distinct
    counts: NDArray[np.int64] = field(
        default_factory=lambda: np.empty(0, dtype=np.int64)
    )  # of them
    targets: NDArray[Any] | None = field(default_factory=lambda: np.empty(0))  # None if many
    missing: dict[str, int] = field(default_factory=dict)  # gaps by column
    levels: dict[str, pd.Series[Any] | None] = field(default_factory=dict)  # counts; None if many
    ranges: dict[str, list[float]] = field(default_factory=dict)  # of columns of numbers
    day_first: set[str] = field(default_factory=set)  # columns of dates that begin with a day
    sample: pd.DataFrame = field(default_factory=pd.DataFrame)  # rows in order, drawn at random
    keys: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))  # that they are drawn by

    @property
    def size(self) -> int | float:
        """Largest number of rows in the sample."""
        return max(self.room, _SAMPLE)

    @property
    def complete(self) -> bool:
        """Whether the sample has all rows."""
        return len(self.sample) == self.n_rows

    def look(self, frame: pd.DataFrame, part: int) -> None:
        """Take rows of some part of the table into account."""
        target, types = self.settings.target, self.settings.column_types
        rows, codes, labels = usable(frame, self.settings)
        keys = uniform(part, rows.index.to_numpy(), self.settings.seed, SAMPLE)
        full = len(self.keys) == self.size
        few = keys < self.keys.max() if full else np.ones(len(keys), dtype=bool)
        features = [name for name in frame.columns if name not in (*self.settings.task, target)]
        chunk = replace(
            self,
            n_rows=len(rows),
            dropped=len(frame) - len(rows),
            unlabelled=int(frame[target].notna().sum()) - len(rows),
            labels=labels,
            counts=np.bincount(codes, minlength=len(labels)),
            targets=_few(np.asarray(rows[target].unique())),
            missing={name: int(rows[name].isna().sum()) for name in features},
            levels={
                name: _capped(counted(rows[name]))
                for name in features
                if _may_be_category(rows[name], types.get(name))
            },
            ranges={
                name: _range(rows[name])
                for name in (target, *features)
                if is_numeric_dtype(rows[name].dtype) and types.get(name) != "category"
            },
            day_first={name for name in features if _has_days_first(rows[name])},
            sample=_decoded(rows[few]) if self.text_as_categories else rows[few],
            keys=keys[few],
        )
        self.add(chunk)

    def add(self, other: Survey) -> None:
        """Take rows of another survey into account."""
        self.n_rows += other.n_rows
        self.dropped += other.dropped
        self.unlabelled += other.unlabelled
        codes, self.labels = pd.factorize(_joined(self.labels, other.labels))
        self.counts = np.bincount(codes, np.append(self.counts, other.counts)).astype(np.int64)
        if self.targets is not None:
            both = other.targets
            self.targets = None if both is None else _few(pd.unique(_joined(self.targets, both)))
        self.day_first |= other.day_first
        for name, gaps in other.missing.items():
            self.missing[name] = self.missing.get(name, 0) + gaps
        for name, counts in other.levels.items():
            self.levels[name] = _sum(self.levels[name], counts) if name in self.levels else counts
        for name, (low, high) in other.ranges.items():
            lowest, highest = self.ranges.get(name, (low, high))
            self.ranges[name] = [min(low, lowest), max(high, highest)]
        keys = np.append(self.keys, other.keys)
        samples = [part for part in (self.sample, other.sample) if len(part)]
        sample = pd.concat(samples) if samples else self.sample
        if len(keys) > self.size:
            smallest = np.sort(np.argsort(keys, kind="stable")[: int(self.size)])
            sample, keys = sample.iloc[smallest], keys[smallest]
        self.sample, self.keys = sample, keys

    def tasks(self, *, text_labels: bool) -> tuple[pd.Index[Any], NDArray[Any], TaskLevels | None]:
        """Labels as they are written, and as what they are, in order; those of several columns.

        If all of a column were read as text, whole numbers are numbers.
        """
        written = pd.Index(self.labels, tupleize_cols=False)
        if len(self.settings.task) == 1:
            labels, ranks = _ranked(written, text_labels=text_labels)
            return written[np.argsort(ranks)], labels, None
        columns = [pd.Index(column) for column in zip(*self.labels, strict=True)]
        each, codes = zip(*(_ranked(c, text_labels=text_labels) for c in columns), strict=True)
        order = np.lexsort(codes[::-1])
        positions = np.column_stack(codes)[order]
        levels = TaskLevels(list(self.settings.task), list(each), positions)
        return written[order], as_objects(levels.names), levels

    def encoder(self, numbers: list[str], categories: list[str], dates: list[str]) -> TableEncoder:
        """Levels, gaps and ranges of all rows, medians and ranges of dates of the sample."""
        encoder = TableEncoder.of(self.sample, numbers, categories, dates, self.levels)
        gaps = {name for name, count in self.missing.items() if count} | set(encoder.flagged)
        gaps |= {f"{name} {part}" for name in gaps.intersection(dates) for part in PARTS}
        return replace(
            encoder,
            flagged=[name for name in encoder.numbers if name in gaps],
            ranges={name: self.ranges.get(name, ends) for name, ends in encoder.ranges.items()},
            day_first=[name for name in dates if name in self.day_first],
        )


def _ranked(written: pd.Index[Any], *, text_labels: bool) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Distinct labels in order, and the position of each label among them."""
    if text_labels and written.astype(str).str.fullmatch(_WHOLE).all():
        written = written.astype(np.int64)
    codes, distinct = pd.factorize(written)
    try:
        order = distinct.argsort()
    except TypeError:  # labels that cannot be compared stay in order of appearance
        order = np.arange(len(distinct))
    return as_objects(list(distinct[order])), np.argsort(order)[codes]


def _decoded(rows: pd.DataFrame) -> pd.DataFrame:
    """Turn text that was read as categories into strings."""
    texts = [name for name in rows.columns if isinstance(rows[name].dtype, pd.CategoricalDtype)]
    return rows.astype(dict.fromkeys(texts, object))


def usable(
    frame: pd.DataFrame, settings: FitSettings
) -> tuple[pd.DataFrame, NDArray[np.intp], NDArray[Any]]:
    """Rows with a target, the code of each one's task, and the label of each code."""
    columns = [_factorized(frame[name]) for name in settings.task]
    codes, labels = columns[0] if len(columns) == 1 else _combined(columns)
    keep = frame[settings.target].notna().to_numpy()
    if settings.drop_unlabelled:
        keep = keep & (codes >= 0)
    for name, (numbers, _) in zip(settings.task, columns, strict=True):
        if (numbers[keep] < 0).any():
            raise ValueError(
                f"The task column {name!r} must have a label in every row; it has none in "
                f"{listed_rows(frame.index[keep & (numbers < 0)])}. Fill in the labels, or drop "
                "these rows with option drop_unlabelled."
            )
    if not keep.all():
        frame = frame[keep]
        used, codes = np.unique(codes[keep], return_inverse=True)
        labels = labels[used]
    return frame, codes, labels


def _factorized(column: pd.Series[Any]) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the code of each row's label, -1 if it has none, and the label of each code."""
    codes, uniques = pd.factorize(column)
    labels = tidy(pd.Series(np.asarray(uniques)))
    empty = labels.isna().to_numpy()
    if empty.any():
        codes = np.where(empty[codes], -1, codes)
    return codes, labels.to_numpy()


def _combined(
    columns: list[tuple[NDArray[np.intp], NDArray[Any]]],
) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the same for several columns: labels are tuples."""
    numbers = np.column_stack([codes for codes, _ in columns])
    full = (numbers >= 0).all(axis=1)
    distinct, positions = np.unique(numbers[full], axis=0, return_inverse=True)
    codes = np.full(len(numbers), -1)
    codes[full] = positions.ravel()
    each = (labels[at].tolist() for (_, labels), at in zip(columns, distinct.T, strict=True))
    return codes, as_objects(list(zip(*each, strict=True)))


def _may_be_category(values: pd.Series[Any], type_: str | None) -> bool:
    """Whether to count levels: of all that may turn out to be categories."""
    if type_ is not None:
        return type_ == "category"
    if is_numeric_dtype(values.dtype):
        return named_like_codes(str(values.name))
    return not is_datetime64_any_dtype(values.dtype)


def _has_days_first(values: pd.Series[Any]) -> bool:
    if is_numeric_dtype(values.dtype) or is_datetime64_any_dtype(values.dtype):
        return False
    written = pd.Series(values.dropna().unique()).astype(object)
    return is_date(written) and has_days_first(written)


def _range(values: pd.Series[Any]) -> list[float]:
    """Smallest and largest; of no values what any other range contains. Infinities are refused."""
    if not isinstance(values.dtype, np.dtype):
        values = values.dropna()
    numbers = values.to_numpy()
    ends = (np.fmin.reduce(numbers), np.fmax.reduce(numbers)) if len(numbers) else (np.nan, np.nan)
    if np.isinf(ends).any():
        as_numbers(values)
    return [np.inf, -np.inf] if np.isnan(ends[0]) else [float(end) for end in ends]


def _few(values: NDArray[Any]) -> NDArray[Any] | None:
    return values if len(values) <= _MOST_CLASSES else None


def _capped(counts: pd.Series[Any]) -> pd.Series[Any] | None:
    return counts if len(counts) <= _MOST_LEVELS else None


def _sum(a: pd.Series[Any] | None, b: pd.Series[Any] | None) -> pd.Series[Any] | None:
    if a is None or b is None:
        return None
    return _capped(a.add(b, fill_value=0).astype(np.int64))


def _joined(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Labels of both, of the type of the second if there are none before."""
    return np.concatenate([a, b]) if len(a) else b
