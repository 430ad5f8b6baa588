"""Which rows models are trained on and which they are scored on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.tables.columns import as_dates, as_numbers, is_date
from crosslearning.tasks import within_task_folds

Rows = NDArray[np.intp]
_FEWEST = 2  # values of a column of times, or of groups


@dataclass(frozen=True, eq=False)
class Splits:
    """Splits of the rows of a table."""

    parts: list[tuple[Rows, Rows]]
    words: str
    folds: NDArray[np.int64] | None = None


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
    return _of_folds(dealt[codes].astype(np.int64), f"on rows with a held-out {group.name}")


def _later(time: pd.Series[Any], n_splits: int) -> Splits:
    """Equal parts of the later half of the rows, each predicted from everything before it."""
    values = as_dates(time).to_numpy().astype("i8") if is_date(time) else as_numbers(time)
    if time.isna().any():
        raise ValueError(
            f"The column {time.name!r} must have a time in every row; it is empty in "
            f"{int(time.isna().sum()):,} rows. Fill in the times or drop the rows."
        )
    moments, counts = np.unique(values, return_counts=True)
    if len(moments) < _FEWEST:
        raise ValueError(
            f"The column {time.name!r} must have at least 2 values to test on later rows; got one. "
            "Choose another column."
        )
    # The first moment of every part; a moment is never divided.
    share = np.cumsum(counts) / len(values)
    wanted = 0.5 + 0.5 * np.arange(n_splits) / n_splits
    starts = np.unique(np.clip(np.searchsorted(share, wanted), 1, len(moments) - 1))
    ends = np.append(moments[starts[1:]], np.inf)
    parts = [
        (np.flatnonzero(values < start), np.flatnonzero((values >= start) & (values < end)))
        for start, end in zip(moments[starts], ends, strict=True)
    ]
    return Splits(parts, f"on rows with a later {time.name} than the training rows")
