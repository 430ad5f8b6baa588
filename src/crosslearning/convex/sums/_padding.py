"""Rows of many tasks as a few dense arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from crosslearning.tether import Flags, Indices

_LARGEST = 2**13  # rows, so that what is made of a bucket stays in the cache


@dataclass(frozen=True, eq=False)
class Bucket:
    """Tasks of similar size, the positions of their rows (tasks, length), and which are no padding.

    Padding repeats some row.
    """

    tasks: Indices
    rows: Indices
    inside: Flags


def buckets(tasks: Indices, n_tasks: int) -> Iterator[Bucket]:
    """Group tasks by size, rounded up to powers of 2, so that at most half is padding."""
    order = np.argsort(tasks, kind="stable")
    sizes = np.bincount(tasks, minlength=n_tasks)
    first = np.cumsum(sizes) - sizes
    magnitude = np.ceil(np.log2(np.maximum(sizes, 1)))
    for level in np.unique(magnitude[sizes > 0]):
        alike = np.flatnonzero((magnitude == level) & (sizes > 0))
        position = np.arange(sizes[alike].max())
        at_once = max(_LARGEST // len(position), 1)
        for start in range(0, len(alike), at_once):
            members = alike[start : start + at_once]
            inside = position < sizes[members, None]
            rows = order[np.where(inside, first[members, None] + position, 0)]
            yield Bucket(members, rows, inside)
