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
from crosslearning.tables.settings import FitSettings
from crosslearning.tasks import within_task_folds

Rows = NDArray[np.intp]
_DAY = 864e11  # nanoseconds
_FEWEST = 2  # values of a column of times, or of groups


@dataclass(frozen=True, eq=False)
class Splits:
    """Rows to train on and rows to test on, and the fold of each row if there are folds."""

    parts: list[tuple[Rows, Rows]]
    folds: NDArray[np.int64] | None = None


def hold_out_words(settings: FitSettings, horizon: dict[str, Any] | None) -> str:
    """Say which rows models are tested on."""
    if horizon is not None:
        column, reach = horizon["column"], horizon["reach"]
        return f"on rows with a later {column} than the training rows, by at most {reach}"
    return f"on rows with a held-out {settings.group}" if settings.group else "on held-out rows"


def splits_of(
    codes: NDArray[np.int64],
    n_splits: int,
    seed: int,
    *,
    classes: NDArray[Any] | None = None,
    parts: NDArray[np.intp] | None = None,
    groups: NDArray[Any] | None = None,
) -> Splits:
    """Divide rows within tasks, by consecutive parts in time, or by groups that stay together."""
    if parts is not None:
        sides = [
            (np.flatnonzero(parts < k), np.flatnonzero(parts == k))
            for k in range(1, int(parts.max()) + 1)
        ]
        return Splits(sides)
    if groups is None:
        folds = within_task_folds(codes, min(n_splits, len(codes)), seed, classes)
    else:
        of_group, names = pd.factorize(groups)
        if len(names) < _FEWEST:
            raise ValueError(
                f"A column of groups must have at least 2 values to hold some out; got "
                f"{len(names)}. Choose another column."
            )
        dealt = np.random.default_rng(seed).permutation(len(names)) % min(n_splits, len(names))
        folds = dealt[of_group].astype(np.int64)
    tests = [folds == k for k in range(int(folds.max()) + 1)]
    sides = [(np.flatnonzero(~test), np.flatnonzero(test)) for test in tests]
    return Splits(sides, folds)


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


def horizon(
    time: pd.Series[Any], values: NDArray[Any], starts: NDArray[Any], *, day_first: bool
) -> dict[str, Any]:
    """Say how far ahead the parts from these moments on were tested, and until when."""
    before = [values[values < start].max() for start in starts]
    reach = float(np.max(np.append(before[1:], values.max()) - before))
    days = is_date(time)
    return {
        "column": str(time.name),
        "date": days,
        "reach": f"{reach / _DAY:,.3g} days" if days else f"{reach:.4g}",
        "until": float(values.max()) + reach,
        "day_first": day_first,
    }
