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
from crosslearning.tables.findings import Horizon
from crosslearning.tasks import within_task_folds

Rows = NDArray[np.intp]
_DAY = 864e11  # nanoseconds
_FEWEST = 2  # values of a column of times, or of groups


@dataclass(frozen=True, eq=False)
class Splits:
    """Rows to train on and rows to test on, and the fold of each row if there are folds."""

    parts: list[tuple[Rows, Rows]]
    folds: NDArray[np.intp] | None = None

    def notes(self, n_folds: int) -> list[str]:
        """Say if rows could not be divided as often as they should."""
        tests = len(self.parts)
        why = f"held-out rows come from {tests} folds, not {n_folds}: there is no more to divide"
        return [why] if tests < n_folds else []

    @classmethod
    def of(cls, folds: NDArray[np.intp], *, in_time: bool = False) -> Splits:
        """Test on each fold after training on the others, or `in_time` on the earlier ones."""
        numbers, codes = np.unique(folds, return_inverse=True)
        sides = ((folds < k if in_time else folds != k, folds == k) for k in numbers)
        parts = [(np.flatnonzero(train), np.flatnonzero(test)) for train, test in sides]
        return cls([part for part in parts if len(part[0])], None if in_time else codes)


def splits_of(
    codes: NDArray[np.int64],
    n_splits: int,
    seed: int,
    *,
    classes: NDArray[Any] | None = None,
    groups: NDArray[Any] | None = None,
) -> Splits:
    """Divide rows within tasks, or by groups that stay together."""
    if groups is None:
        return Splits.of(within_task_folds(codes, min(n_splits, len(codes)), seed, classes))
    group_codes, names = pd.factorize(groups)
    if len(names) < _FEWEST:
        raise ValueError(
            f"A column of groups must have at least 2 values to hold some out; got "
            f"{len(names)}. Choose another column."
        )
    dealt = np.random.default_rng(seed).permutation(len(names)) % min(n_splits, len(names))
    return Splits.of(dealt[group_codes])


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
    before = np.cumsum(counts) / len(values)
    shares = 0.5 + 0.5 * np.arange(n_splits) / n_splits
    starts = np.unique(np.clip(np.searchsorted(before, shares), 1, len(moments) - 1))
    return np.asarray(moments[starts])


def horizon_of(
    time: pd.Series[Any], values: NDArray[Any], starts: NDArray[Any], *, day_first: bool
) -> Horizon:
    """Say how far ahead the parts from these moments on were tested, and until when."""
    before = [values[values < start].max() for start in starts]
    reach = float(np.max(np.append(before[1:], values.max()) - before))
    days = is_date(time)
    return Horizon(
        column=str(time.name),
        date=days,
        reach=f"{reach / _DAY:,.3g} days" if days else f"{reach:.4g}",
        until=float(values.max()) + reach,
        day_first=day_first,
    )
