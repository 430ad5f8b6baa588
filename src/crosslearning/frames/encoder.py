"""From columns of a table to numbers: features of an estimator, and labels of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from crosslearning.frames.columns import (
    as_dates,
    as_numbers,
    as_text,
    class_codes,
    first_of,
    has_days_first,
    mark_of,
)
from crosslearning.tasks import TaskIndex

_RARE = 10  # rows; levels with fewer are grouped,
_RARE_SHARE = 0.02  # or with less than this share of the rows if that is less
_MOST_LEVELS = 30  # of a column, including the group of rare ones
_GRID, _GRID_LEVELS = 21, 12  # values of a column that effects are drawn at,
_CENTRAL = (0.025, 0.975)  # between these quantiles
_MISSING = "(missing)"
_OTHER = "(other)"
_ROUNDING = 1e-9  # of a range: tolerance at its ends
Codes = NDArray[np.int64]
BETWEEN = " / "  # labels of a task
PARTS = ("year", "month", "days")  # of a date


@dataclass(frozen=True)
class TableEncoder:
    """Columns to numbers, which the estimators standardise.

    Missing numbers become the median, with a column that flags them. Categories become one
    indicator per level (a single one for two levels); levels with fewer than 10 rows (or 2 % of a
    small table), those beyond the 30 most frequent, and new ones share one. Missing is a level. A
    date becomes year, month, and days since 1970. Numbers written as text have decimal `marks`.
    """

    numbers: dict[str, float]
    flagged: list[str]
    levels: dict[str, list[str | None]]
    dates: list[str]
    rare: dict[str, list[str]]
    ranges: dict[str, list[float]]
    day_first: list[str]
    marks: dict[str, str]

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        numbers: Sequence[str],
        categories: Sequence[str],
        dates: Sequence[str] = (),
        marked: Sequence[str] = (),
    ) -> TableEncoder:
        """Learn medians, ranges and levels from rows, and decimal marks of `marked` columns too."""
        written = [n for n in (*numbers, *marked) if not is_numeric_dtype(frame[n].dtype)]
        marks = {name: mark_of(frame[name]) for name in written}
        day_first = [name for name in dates if has_days_first(frame[name])]
        columns = {name: as_numbers(frame[name], marks.get(name)) for name in numbers}
        columns |= _days(frame, dates, day_first)
        of_dates = {f"{name} {part}" for name in dates for part in PARTS[:-1]}
        counts = {name: counted(frame[name]) for name in categories}
        levels = {name: _levels(of) for name, of in counts.items()}
        return cls(
            numbers={name: float(np.nanmedian(values)) for name, values in columns.items()},
            flagged=[name for name, values in columns.items() if np.isnan(values).any()],
            levels=levels,
            dates=list(dates),
            rare={name: sorted(set(of.index) - set(levels[name])) for name, of in counts.items()},
            ranges={
                name: [float(np.nanmin(values)), float(np.nanmax(values))]
                for name, values in columns.items()
                if name not in of_dates
            },
            day_first=day_first,
            marks=marks,
        )

    def labelled(
        self, frame: pd.DataFrame, target: str, classes: NDArray[Any] | None, weights: str | None
    ) -> tuple[pd.DataFrame, NDArray[Any], NDArray[np.float64]]:
        """Rows with a target, the numbers or classes that it is, and their weights."""
        rows, mark = frame[frame[target].notna()], self.marks.get(target)
        if classes is None:
            y = as_numbers(rows[target], mark)
            rows, y = rows[~np.isnan(y)], y[~np.isnan(y)]
        else:
            y = classes[class_codes(rows[target], classes, mark)]
        return rows, y, self.weights(rows, weights)

    def weights(self, frame: pd.DataFrame, name: str | None) -> NDArray[np.float64]:
        """Weights in a column of this name, or 1 for each row where there is none."""
        if name is None or name not in frame:
            return np.ones(len(frame))
        values = as_numbers(frame[name], self.marks.get(name))
        wrong = frame[name][~(values >= 0)]
        if len(wrong):
            raise ValueError(
                f"The weights in {name!r} must be at least 0 in every row; got {first_of(wrong)}. "
                "Correct them, or delete these rows."
            )
        return values

    def read(self, frame: pd.DataFrame, name: str) -> NDArray[np.float64]:
        """Numbers in a column, NaN where there is none."""
        return as_numbers(frame[name], self.marks.get(name), strict=False)

    @property
    def columns(self) -> list[str]:
        """Names of the columns to encode."""
        return [*self.plain, *self.dates, *self.levels]

    @property
    def plain(self) -> list[str]:
        """Columns that hold numbers."""
        parts = {f"{name} {part}" for name in self.dates for part in PARTS}
        return [name for name in self.numbers if name not in parts]

    def unknown(self, frame: pd.DataFrame) -> dict[str, dict[str, int]]:
        """Count new values of categories, by column."""
        unknown = {}
        for name, levels in self.levels.items():
            counts = counted(frame[name]).sort_values(ascending=False, kind="stable")
            new = counts[~counts.index.isin([*levels, *self.rare[name], _MISSING])]
            if len(new):
                unknown[name] = {str(k): int(n) for k, n in new.items()}
        return unknown

    def unread(self, frame: pd.DataFrame) -> dict[str, int]:
        """Count values that are not numbers, by column of numbers."""
        gaps = {name: np.isnan(self.read(frame, name)) & frame[name].notna() for name in self.plain}
        return {name: int(wrong.sum()) for name, wrong in gaps.items() if wrong.any()}

    def outside(self, frame: pd.DataFrame) -> tuple[int, dict[str, int]]:
        """Count the rows with a value outside the range of the fit, in all and by column."""
        anywhere, by_column = np.zeros(len(frame), dtype=bool), {}
        columns = self._numbers(frame)
        for name, (low, high) in self.ranges.items():
            slack, values = _ROUNDING * (high - low), columns[name]
            outside = (values < low - slack) | (values > high + slack)
            if outside.any():
                column = name.removesuffix(f" {PARTS[-1]}") if name not in self.plain else name
                by_column[column] = int(outside.sum())
                anywhere |= outside
        return int(anywhere.sum()), by_column

    def _numbers(self, frame: pd.DataFrame) -> dict[str, NDArray[np.float64]]:
        """Plain numbers, then the parts of dates."""
        plain = {name: self.read(frame, name) for name in self.plain}
        return plain | _days(frame, self.dates, self.day_first)

    @property
    def feature_names(self) -> list[str]:
        """Names of the encoded features, such as ``ses``, ``ses missing`` and ``sex=female``."""
        flags = [f"{name} missing" for name in self.flagged]
        levels = [feature for name in self.levels for feature in self.features_of(name)]
        return [*self.numbers, *flags, *levels]

    def features_of(self, column: str) -> list[str]:
        """Names of the features of a column of numbers or categories."""
        if column not in self.levels:
            return [column]
        levels = _encoded_levels(self.levels[column])
        return [f"{column}={_OTHER if level is None else level}" for level in levels]

    def grids(self, frame: pd.DataFrame) -> dict[str, NDArray[Any]]:
        """Values that vary: few numbers as they are, others evenly spaced; frequent levels."""
        grids: dict[str, NDArray[Any]] = {}
        for name in self.plain:
            values = self.read(frame, name)
            values = values[np.isfinite(values)]
            low, high = np.quantile(values, _CENTRAL)
            distinct = np.unique(values[(values >= low) & (values <= high)])
            grids[name] = np.linspace(low, high, _GRID) if len(distinct) > _GRID else distinct
        for name, levels in self.levels.items():
            counts = counted(frame[name]).sort_values(ascending=False, kind="stable")
            frequent = counts.index[counts.index.isin(levels)][:_GRID_LEVELS]
            grids[name] = frequent.to_numpy(dtype=object)
        return {name: grid for name, grid in grids.items() if len(grid) > 1}

    def encode(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """Encode the rows of a table as finite numbers; what is no number counts as missing."""
        columns: list[NDArray[Any]] = []
        numbers = self._numbers(frame)
        for name, values in numbers.items():
            gaps = np.isnan(values) if np.isnan(values.sum()) else None
            columns.append(values if gaps is None else np.where(gaps, self.numbers[name], values))
        columns += [np.isnan(numbers[name]) for name in self.flagged]
        for name, levels in self.levels.items():
            listed = [level for level in levels if level is not None]
            rows, texts = _factorized(frame[name])
            codes = pd.Index(listed, dtype=object).get_indexer(pd.Index(texts))[rows]
            codes = np.where(codes < 0, len(listed) if None in levels else -1, codes)
            columns += [codes == levels.index(level) for level in _encoded_levels(levels)]
        return np.stack(columns, axis=1, dtype=np.float64)


def _days(
    frame: pd.DataFrame, dates: Sequence[str], day_first: Sequence[str]
) -> dict[str, NDArray[np.float64]]:
    """Parts of dates."""
    columns = {}
    for name in dates:
        when = as_dates(frame[name], day_first=name in day_first)
        days = (when - pd.Timestamp(1970, 1, 1)) / pd.Timedelta(days=1)
        for part, values in zip(PARTS, (when.dt.year, when.dt.month, days), strict=True):
            columns[f"{name} {part}"] = values.to_numpy(dtype=np.float64, na_value=np.nan)
    return columns


def _factorized(column: pd.Series[Any]) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Code of each row, and the value of each code as a string."""
    codes, uniques = pd.factorize(column, use_na_sentinel=False)
    texts = pd.Series(uniques).astype(object).map(as_text, na_action="ignore")
    return codes, texts.where(texts.notna(), _MISSING).to_numpy(dtype=object)


def counted(column: pd.Series[Any]) -> pd.Series[Any]:
    """Count the values as strings, in their order."""
    codes, values = _factorized(column)
    counts = pd.Series(np.bincount(codes, minlength=len(values)), index=values, dtype=np.int64)
    return counts.groupby(level=0).sum()


def _levels(counts: pd.Series[Any]) -> list[str | None]:
    """Levels to distinguish, in order; None, last, for the rare ones if there are any."""
    frequent = counts[counts >= max(1, min(_RARE, int(_RARE_SHARE * counts.sum())))]
    room = _MOST_LEVELS - (len(frequent) < len(counts) or len(counts) > _MOST_LEVELS)
    kept = sorted(frequent.sort_values(kind="stable").index[-room:])
    return [*kept, None] if len(kept) < len(counts) else list(kept)


def _encoded_levels(levels: list[str | None]) -> list[str | None]:
    """Levels with a feature each; of two levels, the second alone."""
    return levels[1:] if len(levels) == 2 else levels


def tidy(labels: pd.Series[Any]) -> pd.Series[Any]:
    """Strip white space around labels: "g0 " is "g0"."""
    if not isinstance(labels.dtype, pd.CategoricalDtype) and labels.dtype != object:
        return labels.str.strip() if pd.api.types.is_string_dtype(labels.dtype) else labels
    stripped = labels.astype(object).map(
        lambda label: label.strip() if isinstance(label, str) else label, na_action="ignore"
    )
    return stripped.where(stripped != "", None)


def recognised(labels: pd.Series[Any], index: TaskIndex) -> NDArray[np.int64]:
    """Position of the task that each label equals, as it is, as text or as a number; else -1.

    >>> from crosslearning.tasks import TaskIndex
    >>> recognised(pd.Series(["1", "2.0", "03", "new", None]), TaskIndex((1, 2, 3))).tolist()
    [0, 1, 2, -1, -1]
    >>> recognised(pd.Series([1.0, None, 4.0]), TaskIndex(("1", "2", "3"))).tolist()
    [0, -1, -1]
    """
    rows, uniques = pd.factorize(tidy(labels))
    distinct = pd.Series(np.asarray(uniques), dtype=object)
    positions = index.encode(distinct)
    for k in np.flatnonzero(positions < 0):
        number = _number(distinct[k])
        places = [index.texts.get(str(distinct[k]), -1), index.position(number)]
        if isinstance(number, float) and number.is_integer():
            places.append(index.texts.get(str(int(number)), -1))
        positions[k] = next((place for place in places if place >= 0), -1)
    return np.append(positions, -1)[rows]


def _number(label: Any) -> Any:
    """Convert a label to a number; integers of any length exactly, None if it is no number."""
    if isinstance(label, Real):
        return label
    for convert in (int, float):
        with suppress(TypeError, ValueError):
            return convert(label)
    return None


@dataclass(frozen=True, eq=False)
class TaskLevels:
    """The tasks of a fit by the labels of their columns, which are those of groups and of tasks."""

    columns: list[str]  # names, outermost first
    labels: list[NDArray[Any]]  # distinct ones of each column
    positions: Codes  # which of these a task has: distinct rows of columns, in order

    @property
    def paths(self) -> list[tuple[Any, ...]]:
        """Labels of each task, outermost first."""
        columns = zip(self.labels, self.positions.T, strict=True)
        return list(zip(*(labels[at].tolist() for labels, at in columns), strict=True))

    @cached_property
    def names(self) -> list[str]:
        """Distinct texts for the tasks, such as "north / 12"."""
        names = [BETWEEN.join(map(str, path)) for path in self.paths]
        return names if len(set(names)) == len(names) else [repr(path) for path in self.paths]

    @cached_property
    def groups(self) -> list[Codes]:
        """Positions of the groups of each level but the innermost, outermost first."""
        depths = range(1, len(self.columns))
        return [np.unique(self.positions[:, :depth], axis=0) for depth in depths]

    def check(self) -> None:
        """Refuse groups that no task or every task is in, as those of columns in another order."""
        for name, groups in zip(self.columns, self.groups, strict=False):
            if len(groups) in (1, len(self.positions)):
                what = "there is only one" if len(groups) == 1 else "each holds one"
                raise ValueError(
                    f"Groups by {name!r} must be several, and hold several tasks; {what}. Name the "
                    "outermost task column first, and leave out columns that divide nothing."
                )

    @property
    def group_codes(self) -> Codes:
        """Number of the group of each task at every level but the innermost."""
        codes = [_places(groups, self.positions[:, : groups.shape[1]]) for groups in self.groups]
        return np.column_stack(codes)

    @property
    def numbers(self) -> pd.DataFrame:
        """Numbers of the groups of each task, in the columns of their labels, and its own."""
        numbers = np.column_stack([self.group_codes, np.arange(len(self.positions))])
        return pd.DataFrame(numbers, columns=self.columns)

    def codes(self, frame: pd.DataFrame) -> Codes:
        """Return the number of each row's task, or of the group that `task_or_group` finds."""
        columns = zip(self.columns, self.labels, strict=True)
        each = [recognised(frame[name], TaskIndex(tuple(labels))) for name, labels in columns]
        units, at = [*self.groups, self.positions], np.column_stack(each)
        places = [_places(unit, at[:, : unit.shape[1]]) for unit in units]
        return task_or_group(places, [len(unit) for unit in units])


def task_or_group(places: Sequence[Codes], sizes: Sequence[int]) -> Codes:
    """Return the number of each row's task, else that of its smallest known group, else -1.

    `places` are those among the groups of each level, outermost first, and among the tasks, or -1;
    `sizes` are the numbers of these. Groups are numbered after the tasks.
    """
    codes, start = np.full(len(places[-1]), -1), sizes[-1]
    for at, size in zip(places[:-1], sizes, strict=False):
        codes, start = np.where(at < 0, codes, start + at), start + size
    return np.where(places[-1] < 0, codes, places[-1])


def _places(units: Codes, rows: Codes) -> Codes:
    """Find rows of numbers among others; -1 if there is none that is equal."""
    index, lookups = (pd.MultiIndex.from_arrays(list(part.T)) for part in (units, rows))
    return np.asarray(index.get_indexer(lookups), dtype=np.int64)
