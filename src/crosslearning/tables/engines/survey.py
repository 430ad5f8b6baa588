"""A first look at all rows of a table: labels, levels, gaps, and a sample of rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype

from crosslearning.tables.columns.encoder import PARTS, TableEncoder, counted, levels_of
from crosslearning.tables.columns.features import unlabelled
from crosslearning.tables.columns.labels import tidy
from crosslearning.tables.columns.recognition import column_of, has_days_first, is_date
from crosslearning.tables.engines.dealing import SAMPLE, uniform
from crosslearning.tables.settings import FitSettings
from crosslearning.tasks.estimators import as_objects

_SAMPLE = 50_000  # rows
_MOST_LEVELS = 100_000  # distinct values to count; what has more is no category
_MOST_CLASSES = 100  # distinct targets to keep
_WHOLE = r"0|-?[1-9]\d{0,14}"


@dataclass(eq=False)
class Survey:
    """What is known of the rows seen so far; surveys of parts of a table can be added.

    Attributes
    ----------
    task, target, drop
        Columns of tasks and targets, and whether to leave out rows without a label.
    size : float
        Largest number of rows in the sample.
    decode : bool
        Whether categorical columns are text that was read as such.
    n_rows, dropped, unlabelled : int
        Rows to learn from, and others; of these the unlabelled have a target.
    labels, targets : array
        Distinct labels, and distinct targets, None if they are many.
    missing, levels, ranges : dict
        By column: number of gaps, counts by level (None if these are too many), and ranges of
        numbers.
    day_first : set of str
        Columns of dates that begin with a day.
    sample, keys : DataFrame, array
        Rows in the order of the table, drawn at random by their keys.
    """

    task: str
    target: str
    drop: bool = False
    size: float = _SAMPLE
    decode: bool = False
    n_rows: int = 0
    dropped: int = 0
    unlabelled: int = 0
    labels: NDArray[Any] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    targets: NDArray[Any] | None = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    missing: dict[str, int] = field(default_factory=dict)
    levels: dict[str, pd.Series[Any] | None] = field(default_factory=dict)
    ranges: dict[str, list[float]] = field(default_factory=dict)
    day_first: set[str] = field(default_factory=set)
    sample: pd.DataFrame = field(default_factory=pd.DataFrame)
    keys: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    @classmethod
    def start(cls, settings: FitSettings, *, room: float, decode: bool = False) -> Survey:
        """Begin a survey for an engine that may keep so many rows."""
        size = max(room, _SAMPLE)
        return cls(settings.task, settings.target, settings.drop_unlabelled, size, decode)

    @property
    def complete(self) -> bool:
        """Whether the sample has all rows."""
        return len(self.sample) == self.n_rows

    def look(self, frame: pd.DataFrame, part: int, types: dict[str, str], seed: int) -> None:
        """Take rows of some part into account; `types` are those of columns that are known."""
        rows, _, labels = usable(frame, self.task, self.target, drop=self.drop)
        keys = uniform(part, rows.index.to_numpy(), seed, SAMPLE)
        few = np.flatnonzero(keys < (self.keys.max() if len(self.keys) == self.size else 1.0))
        few = few[self._smallest(keys[few])]
        features = [name for name in frame.columns if name not in (self.task, self.target)]
        categories = [name for name in features if _is_category(rows[name], types.get(name))]
        numbers = [name for name in frame.columns if is_numeric_dtype(rows[name].dtype)]
        seen = replace(
            self,
            n_rows=len(rows),
            dropped=len(frame) - len(rows),
            unlabelled=int(frame[self.target].notna().sum()) - len(rows),
            labels=labels,
            targets=_few(np.asarray(rows[self.target].unique())),
            missing={name: int(rows[name].isna().sum()) for name in features},
            levels={name: _capped(counted(rows[name])) for name in categories},
            ranges={name: _range(rows[name]) for name in numbers},
            day_first={name for name in features if _has_days_first(rows[name])},
            sample=_decoded(rows.iloc[few]) if self.decode else rows.iloc[few],
            keys=keys[few],
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
        best = self._smallest(keys)
        both = [part for part in (self.sample, other.sample) if len(part)]
        if both:
            self.sample = pd.concat(both).iloc[best]
        self.keys = keys[best]

    def tasks(self, *, text_labels: bool) -> tuple[pd.Index[Any], NDArray[Any]]:
        """Labels as they are written, and as what they are, in order.

        If all were read as text, whole numbers are numbers.
        """
        written = _index(self.labels)
        labels = written
        if text_labels and written.astype(str).str.fullmatch(_WHOLE).all():
            labels = written.astype(np.int64)
        try:
            order = labels.argsort()
        except TypeError:  # labels that cannot be compared stay in order of appearance
            order = np.arange(len(labels))
        return written[order], as_objects(list(labels[order]))

    def encoder(self, numbers: list[str], categories: list[str], dates: list[str]) -> TableEncoder:
        """Levels, gaps and ranges of all rows, medians and ranges of dates of the sample."""
        own = TableEncoder.of(self.sample, numbers, categories, dates)
        if self.complete:
            return own
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

    def _smallest(self, keys: NDArray[np.float64]) -> NDArray[np.intp]:
        """Positions of the smallest keys, as many as a sample has, in order."""
        if len(keys) <= self.size:
            return np.arange(len(keys))
        return np.sort(np.argsort(keys, kind="stable")[: int(self.size)])


_MAPS = ("missing", "levels", "ranges", "day_first")


def _index(labels: NDArray[Any]) -> pd.Index[Any]:
    return pd.Index(labels, tupleize_cols=False)


def _decoded(rows: pd.DataFrame) -> pd.DataFrame:
    """Turn text that was read as categories into strings."""
    texts = [name for name in rows.columns if isinstance(rows[name].dtype, pd.CategoricalDtype)]
    return rows.astype(dict.fromkeys(texts, object))


def usable(
    frame: pd.DataFrame, task: str, target: str, *, drop: bool
) -> tuple[pd.DataFrame, NDArray[np.intp], NDArray[Any]]:
    """Rows with a target, the code of each one's task, and the label of each code."""
    codes, uniques = pd.factorize(frame[task])
    labels = tidy(pd.Series(np.asarray(uniques)))
    empty = labels.isna().to_numpy()
    if empty.any():
        codes = np.where(empty[codes], -1, codes)
    keep = frame[target].notna().to_numpy()
    if drop:
        keep = keep & (codes >= 0)
    if (codes[keep] < 0).any():
        raise unlabelled(task, frame.index[keep & (codes < 0)])
    if not keep.all():
        frame = frame[keep]
        used, codes = np.unique(codes[keep], return_inverse=True)
        labels = labels.iloc[used]
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
