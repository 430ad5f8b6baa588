"""Rows of many tasks as a few dense arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Bucket", "buckets"]


@dataclass(frozen=True, eq=False)
class Bucket:
    """Tasks of similar size, their rows padded to one length.

    Attributes
    ----------
    tasks : array of shape (n,)
        The tasks.
    rows : array of shape (n, length)
        Positions of their rows; padding repeats some row.
    inside : array of bool of shape (n, length)
        Which of them are no padding.
    """

    tasks: NDArray[np.intp]
    rows: NDArray[np.intp]
    inside: NDArray[np.bool_]


def buckets(tasks: NDArray[np.intp], n_tasks: int) -> list[Bucket]:
    """Group tasks by size, rounded up to powers of 2, so that at most half is padding."""
    order = np.argsort(tasks, kind="stable")
    sizes = np.bincount(tasks, minlength=n_tasks)
    first = np.cumsum(sizes) - sizes
    magnitude = np.ceil(np.log2(np.maximum(sizes, 1)))
    result = []
    for level in np.unique(magnitude[sizes > 0]):
        members = np.flatnonzero((magnitude == level) & (sizes > 0))
        position = np.arange(sizes[members].max())
        inside = position < sizes[members, None]
        rows = order[np.where(inside, first[members, None] + position, 0)]
        result.append(Bucket(members, rows, inside))
    return result
