"""From columns of a table to numbers for an estimator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from crosslearning.tables.columns.recognition import (
    as_categories,
    as_dates,
    as_numbers,
    has_days_first,
)
from crosslearning.tables.columns.target import Target
from crosslearning.tables.reading.numerals import mark_of

_RARE = 10  # rows; levels with fewer are grouped,
_RARE_SHARE = 0.02  # or with less than this share of the rows if that is less
_MOST_LEVELS = 30  # of a column, including the group of rare ones
_MISSING = "(missing)"
_OTHER = "(other)"
_MOST_SLIPS = 100  # texts in a column of numbers to remember
_ROUNDING = 1e-9  # of a range: tolerance at its ends
PARTS = ("year", "month", "days")  # of a date


@dataclass(frozen=True)
class TableEncoder:
    """Columns to numbers, which the estimators standardise.

    Missing numbers become the median, with a column that flags them. Categories become one
    indicator per level (a single one for two levels); levels with fewer than 10 rows (or 2 % of a
    small table), those beyond the 30 most frequent, and new ones share one. Missing is a level of
    its own. A date becomes three numbers: year, month, and days since 1970. Numbers written as text
    have decimal `marks`, also those of target and weights; `slips` are texts among them that are
    missing values.
    """

    numbers: dict[str, float]
    flagged: list[str]
    levels: dict[str, list[str | None]]
    dates: list[str]
    rare: dict[str, list[str]]
    ranges: dict[str, list[float]] = field(default_factory=dict)
    day_first: list[str] = field(default_factory=list)
    marks: dict[str, str] = field(default_factory=dict)
    slips: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        numbers: Sequence[str],
        categories: Sequence[str],
        dates: Sequence[str] = (),
    ) -> TableEncoder:
        """Learn medians, ranges and levels from the rows of a table."""
        medians, ranges, flagged, slips = {}, {}, [], {}
        marks = _marks(frame, numbers)
        plain = ((name, as_numbers(frame[name], marks.get(name))) for name in numbers)
        day_first = [name for name in dates if has_days_first(frame[name])]
        of_dates = {f"{name} {part}" for name in dates for part in PARTS[:-1]}
        for name, column in chain(plain, _days(frame, dates, day_first)):
            medians[name] = float(np.nanmedian(column))
            if name not in of_dates:
                ranges[name] = [float(np.nanmin(column)), float(np.nanmax(column))]
            if np.isnan(column).any():
                flagged.append(name)
            if name in marks and len(odd := frame[name][np.isnan(column)].dropna()):
                slips[name] = [str(text) for text in odd.unique()[:_MOST_SLIPS]]
        counts = {name: counted(frame[name]) for name in categories}
        levels = {name: levels_of(found) for name, found in counts.items()}
        rare = {
            name: sorted(set(found.index) - set(levels[name])) for name, found in counts.items()
        }
        return cls(medians, flagged, levels, list(dates), rare, ranges, day_first, marks, slips)

    def knowing(self, frame: pd.DataFrame, goal: Target, weights: str | None) -> TableEncoder:
        """Add the decimal marks of a target that is a number, and of weights."""
        names = [goal.name] if goal.y.dtype.kind in "fi" else []
        names += [weights] if weights else []
        return replace(self, marks=self.marks | _marks(frame, names))

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
        found = {}
        for name, levels in self.levels.items():
            counts = counted(frame[name])
            new = counts[~counts.index.isin([*levels, *self.rare[name], _MISSING])]
            if len(new):
                new = new.sort_values(ascending=False, kind="stable")
                found[name] = {str(k): int(n) for k, n in new.items()}
        return found

    def _numbers(
        self, frame: pd.DataFrame, names: Iterable[str], *, strict: bool = False
    ) -> Iterator[tuple[str, NDArray[np.float64]]]:
        for name in names:
            known = self.slips.get(name, ()) if strict else None
            yield name, as_numbers(frame[name], self.marks.get(name), known)

    def unread(self, frame: pd.DataFrame) -> dict[str, int]:
        """Count values that are not numbers, by column of numbers."""
        found = {}
        for name, values in self._numbers(frame, self.plain):
            if count := int((np.isnan(values) & frame[name].notna().to_numpy()).sum()):
                found[name] = count
        return found

    def outside(self, frame: pd.DataFrame) -> tuple[int, dict[str, int]]:
        """Count the rows with a value outside the range of the fit, in all and by column."""
        any_of, found = np.zeros(len(frame), dtype=bool), {}
        days = _days(frame, self.dates, self.day_first)
        columns = {f"{name} {PARTS[-1]}": name for name in self.dates}
        for name, values in chain(self._numbers(frame, self.plain), days):
            if name not in self.ranges:
                continue
            low, high = self.ranges[name]
            slack = _ROUNDING * (high - low)
            beyond = (values < low - slack) | (values > high + slack)
            if beyond.any():
                found[columns.get(name, name)] = int(beyond.sum())
                any_of |= beyond
        return int(any_of.sum()), found

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
        levels = _shown(self.levels[column])
        return [f"{column}={_OTHER if level is None else level}" for level in levels]

    def encode(self, frame: pd.DataFrame, *, strict: bool = True) -> NDArray[np.float64]:
        """Encode the rows of a table as finite numbers.

        If `strict`, no more than a few values of a column may be other than numbers, apart from
        those that were among the numbers of the fit.
        """
        names = self.feature_names
        array = np.empty((len(frame), len(names)))
        gaps = {}
        plain = self._numbers(frame, self.plain, strict=strict)
        numeric = plain, _days(frame, self.dates, self.day_first)
        for k, (name, values) in enumerate(chain(*numeric)):
            array[:, k] = values
            if name in self.flagged or np.isnan(values.sum()):
                gaps[name] = np.isnan(values)
                array[gaps[name], k] = self.numbers[name]
        column = len(self.numbers)
        for name in self.flagged:
            array[:, column] = gaps[name]
            column += 1
        for name, levels in self.levels.items():
            listed = [level for level in levels if level is not None]
            rows, values = _factorized(frame[name])
            codes = pd.Index(listed, dtype=object).get_indexer(pd.Index(values))[rows]
            other = len(listed) if None in levels else -1
            codes = np.where(codes < 0, other, codes)
            for level in _shown(levels):
                array[:, column] = codes == levels.index(level)
                column += 1
        return array


def _marks(frame: pd.DataFrame, names: Iterable[str]) -> dict[str, str]:
    """Decimal marks of numbers that are written as text."""
    return {name: mark_of(frame[name]) for name in names if not is_numeric_dtype(frame[name].dtype)}


def _days(
    frame: pd.DataFrame, dates: Sequence[str], day_first: Sequence[str]
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Dates as numbers."""
    for name in dates:
        when = as_dates(frame[name], day_first=name in day_first)
        days = (when - pd.Timestamp(1970, 1, 1)) / pd.Timedelta(days=1)
        for part, values in zip(PARTS, (when.dt.year, when.dt.month, days), strict=True):
            yield f"{name} {part}", values.to_numpy(dtype=np.float64, na_value=np.nan)


def _factorized(column: pd.Series[Any]) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Code of each row, and the value of each code as a string."""
    codes, found = pd.factorize(column, use_na_sentinel=False)
    values = as_categories(pd.Series(found))
    return codes, np.where(pd.isna(values), _MISSING, values)


def counted(column: pd.Series[Any]) -> pd.Series[Any]:
    """Count the values as strings, in their order."""
    codes, values = _factorized(column)
    counts = pd.Series(np.bincount(codes, minlength=len(values)), index=values, dtype=np.int64)
    return counts.groupby(level=0).sum()


def levels_of(counts: pd.Series[Any]) -> list[str | None]:
    """Levels to distinguish, in order; None, last, for the rare ones if there are any."""
    frequent = counts[counts >= max(1, min(_RARE, int(_RARE_SHARE * counts.sum())))]
    room = _MOST_LEVELS - (len(frequent) < len(counts) or len(counts) > _MOST_LEVELS)
    kept = sorted(frequent.sort_values(kind="stable").index[-room:])
    return [*kept, None] if len(kept) < len(counts) else list(kept)


def _shown(levels: list[str | None]) -> list[str | None]:
    """Levels with a feature each; of two, the second says all."""
    return levels[1:] if len(levels) == 2 else levels
