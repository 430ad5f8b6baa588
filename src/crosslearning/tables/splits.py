"""Which rows models are trained on and which they are scored on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.tables.columns.recognition import (
    as_dates,
    as_numbers,
    has_days_first,
    is_date,
    listed_rows,
)
from crosslearning.tasks import within_task_folds

Rows = NDArray[np.intp]
LATER = "on rows with a later {} than the training rows, by at most {}"
HELD_OUT = "on rows with a held-out {}"
_DAY = 864e11  # nanoseconds
_FEWEST = 2  # values of a column of times, or of groups


@dataclass(frozen=True, eq=False)
class Splits:
    """Splits of the rows of a table."""

    parts: list[tuple[Rows, Rows]]
    words: str
    folds: NDArray[np.int64] | None = None
    horizon: dict[str, Any] | None = None


def splits_of(
    codes: NDArray[np.int64],
    n_splits: int,
    seed: int,
    *,
    classes: NDArray[Any] | None = None,
    time: pd.Series[Any] | None = None,
    group: pd.Series[Any] | None = None,
) -> Splits:
    """Divide rows within tasks, by time, or by groups that stay together."""
    if time is not None and group is not None:
        raise ValueError(
            f"Rows can be held out by time or by group; got {time.name!r} and {group.name!r}. "
            "Choose one of the two."
        )
    if time is not None:
        return _later(time, n_splits)
    if group is not None:
        return _groups(group, n_splits, seed)
    folds = within_task_folds(codes, min(n_splits, len(codes)), seed, classes)
    return _of_folds(folds, "on held-out rows")


def _of_folds(folds: NDArray[np.int64], words: str) -> Splits:
    tests = [folds == k for k in range(int(folds.max()) + 1)]
    return Splits([(np.flatnonzero(~test), np.flatnonzero(test)) for test in tests], words, folds)


def _groups(group: pd.Series[Any], n_splits: int, seed: int) -> Splits:
    codes, labels = pd.factorize(group.astype(object).where(group.notna(), "(missing)"))
    if len(labels) < _FEWEST:
        raise ValueError(
            f"The column {group.name!r} must have at least 2 values to hold groups out; got "
            f"{len(labels)}. Choose another column."
        )
    dealt = np.random.default_rng(seed).permutation(len(labels)) % min(n_splits, len(labels))
    return _of_folds(dealt[codes].astype(np.int64), HELD_OUT.format(group.name))


def time_values(time: pd.Series[Any], *, day_first: bool | None = None) -> NDArray[Any]:
    """Return times as numbers; by default the dates tell whether their days come first."""
    numbers = None if is_date(time) else as_numbers(time)
    gaps = time.isna().to_numpy() if numbers is None else np.isnan(numbers)
    if gaps.any():
        raise ValueError(
            f"The column {time.name!r} must have a time in every row; it has none in "
            f"{listed_rows(time.index[gaps])}. Fill in the times or drop the rows."
        )
    if numbers is not None:
        return numbers
    first = has_days_first(time) if day_first is None else day_first
    return np.asarray(as_dates(time, day_first=first).astype("datetime64[ns]")).astype("i8")


def time_starts(values: NDArray[Any], name: str, n_splits: int) -> NDArray[Any]:
    """First moments of equal parts of the later half of the rows; a moment is never divided."""
    moments, counts = np.unique(values, return_counts=True)
    if len(moments) < _FEWEST:
        raise ValueError(
            f"The column {name!r} must have at least 2 values to test on later rows; got one. "
            "Choose another column."
        )
    share = np.cumsum(counts) / len(values)
    wanted = 0.5 + 0.5 * np.arange(n_splits) / n_splits
    starts = np.unique(np.clip(np.searchsorted(share, wanted), 1, len(moments) - 1))
    return np.asarray(moments[starts])


def horizon(time: pd.Series[Any], values: NDArray[Any], starts: NDArray[Any]) -> dict[str, Any]:
    """Say how far ahead the parts from these moments on were tested, and until when."""
    before = [values[values < start].max() for start in starts]
    reach = float(np.max(np.append(before[1:], values.max()) - before))
    days = is_date(time)
    return {
        "column": str(time.name),
        "date": days,
        "reach": f"{reach / _DAY:,.3g} days" if days else f"{reach:.4g}",
        "until": float(values.max()) + reach,
    }


def _later(time: pd.Series[Any], n_splits: int) -> Splits:
    """Predict equal parts of the later half of the rows, each from everything before it."""
    values = time_values(time)
    starts = time_starts(values, str(time.name), n_splits)
    part = np.searchsorted(starts, values, side="right")
    parts = [
        (np.flatnonzero(part < k), np.flatnonzero(part == k)) for k in range(1, len(starts) + 1)
    ]
    found = horizon(time, values, starts)
    return Splits(parts, LATER.format(time.name, found["reach"]), horizon=found)
