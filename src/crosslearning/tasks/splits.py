"""Parts of a table to train on and to test on: within tasks, by group, or in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.tasks.folds import within_task_folds

_PURPOSES = ("sample", "fold", "row", "task", "group")  # a seed gives each its random numbers
_ROOM = 8  # for purposes
_MIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of SplitMix64


@dataclass(frozen=True, eq=False)
class Splits:
    """Rows to train on and rows to test on, and the fold of each row if there are folds."""

    parts: list[tuple[NDArray[np.intp], NDArray[np.intp]]]
    folds: NDArray[np.intp] | None = None

    @classmethod
    def of(cls, folds: NDArray[np.intp], *, in_time: bool = False) -> Splits:
        """Test on each fold after training on the others, or `in_time` on the earlier ones."""
        numbers, codes = np.unique(folds, return_inverse=True)
        sides = ((folds < k if in_time else folds != k, folds == k) for k in numbers)
        parts = [(np.flatnonzero(train), np.flatnonzero(test)) for train, test in sides]
        return cls([part for part in parts if len(part[0])], None if in_time else codes)


def divide(
    codes: NDArray[np.int64],
    n_splits: int,
    seed: int,
    classes: NDArray[Any] | None = None,
    groups: NDArray[Any] | None = None,
) -> Splits:
    """Divide rows within tasks, or by groups that stay together."""
    if groups is None:
        return Splits.of(within_task_folds(codes, min(n_splits, len(codes)), seed, classes))
    group_codes, names = pd.factorize(groups)
    if len(names) < 2:
        raise ValueError(
            "A column of groups must have at least 2 values to hold some out; got one. "
            "Choose another column."
        )
    dealt = np.random.default_rng(seed).permutation(len(names)) % min(n_splits, len(names))
    return Splits.of(dealt[group_codes])


def time_starts(values: NDArray[Any], name: str, n_splits: int) -> NDArray[Any]:
    """First moments of equal parts of the later half of the rows; a moment is never divided."""
    moments, counts = np.unique(values, return_counts=True)
    if len(moments) < 2:
        raise ValueError(
            f"The column {name!r} must have at least 2 values to test on later rows; got one. "
            "Choose another column."
        )
    before = np.cumsum(counts) / len(values)
    shares = 0.5 + 0.5 * np.arange(n_splits) / n_splits
    starts = np.unique(np.clip(np.searchsorted(before, shares), 1, len(moments) - 1))
    return np.asarray(moments[starts])


def uniform(a: Any, b: Any, seed: int, purpose: str) -> NDArray[np.float64]:
    """Numbers from 0 to 1 by two whole numbers, a seed and a purpose alone (SplitMix64)."""
    x, y, z = map(np.uint64, _MIX)
    mixed = np.asarray(a, dtype=np.uint64) * x + np.asarray(b, dtype=np.uint64) * y
    mixed = mixed + np.array([_ROOM * seed + _PURPOSES.index(purpose)], dtype=np.uint64) * z
    return np.asarray(pd.util.hash_array(mixed) / 2.0**64)


def deal(
    codes: NDArray[np.intp], seen: NDArray[np.int64], n_folds: int, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Deal rows to folds whose sizes differ by at most one within a task; and draw a key for each.

    `seen` counts the rows of each task so far, and is brought up to date: chunks do not matter. Of
    `n_folds` consecutive rows of a task, one is in each fold, beginning anywhere. Keys are uniform.
    """
    number = seen[codes] + pd.Series(codes).groupby(codes, sort=False).cumcount().to_numpy()
    seen += np.bincount(codes, minlength=len(seen))
    group, place = np.divmod(number, n_folds)
    start = np.asarray(n_folds * uniform(codes, group, seed, "fold"), dtype=np.intp)
    return (place + start) % n_folds, uniform(codes, number, seed, "row")
