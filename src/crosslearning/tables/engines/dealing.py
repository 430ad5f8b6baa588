"""Random numbers and folds of rows that do not depend on how a table is divided into chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# What random numbers are for: the same seed gives independent ones.
SAMPLE, FOLD, ROW, TASK, GROUP = range(5)
_PURPOSES = 8
_MIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of SplitMix64


def uniform(a: Any, b: Any, seed: int, purpose: int) -> NDArray[np.float64]:
    """Numbers from 0 to 1 by two whole numbers, a seed and a purpose alone (SplitMix64)."""
    x, y, z = map(np.uint64, _MIX)
    mixed = np.asarray(a, dtype=np.uint64) * x + np.asarray(b, dtype=np.uint64) * y
    mixed = mixed + np.array([_PURPOSES * seed + purpose], dtype=np.uint64) * z
    mixed = (mixed ^ (mixed >> np.uint64(30))) * y
    mixed = (mixed ^ (mixed >> np.uint64(27))) * z
    return np.asarray((mixed ^ (mixed >> np.uint64(31))) / 2.0**64)


def deal(
    codes: NDArray[np.intp], seen: NDArray[np.int64], n_folds: int, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Deal rows to folds so that those of a task differ in size by one at most; and a key each.

    `seen` counts the rows of each task so far, and is brought up to date: however a table is
    divided into chunks, its rows are dealt alike. Of each `n_folds` consecutive rows of a task, one
    is in each fold, beginning anywhere. Keys are uniform numbers to draw rows by.
    """
    # Radix sort takes a quarter of the time, and is for short integers.
    order = np.argsort(codes.astype(np.min_scalar_type(len(seen))), kind="stable")
    sizes = np.bincount(codes, minlength=len(seen))
    number = np.empty(len(codes), dtype=np.int64)
    number[order] = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    number += seen[codes]
    seen += sizes
    group, place = np.divmod(number, n_folds)
    start = np.asarray(n_folds * uniform(codes, group, seed, FOLD), dtype=np.intp)
    return (place + start) % n_folds, uniform(codes, number, seed, ROW)
