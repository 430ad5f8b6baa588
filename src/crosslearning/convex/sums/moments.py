"""Sums of products of columns and target by task, for least squares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.tether import Array, Flags, Indices

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


@dataclass(frozen=True, eq=False)
class Moments:
    """Z_iᵀZ_i of the weighted rows Z_i = (columns, target) of each task i.

    `counts` are numbers of rows, `log_weights` sums of the logarithms of their weights;
    `intercept` tells whether the last column is the intercept, and `target_mean` is what was
    subtracted from the targets.
    """

    products: Array
    counts: NDArray[Any]
    log_weights: Array
    intercept: bool
    target_mean: float = 0.0

    @classmethod
    def of_rows(
        cls,
        columns: Array,
        y: Array,
        weights: Array,
        tasks: Indices,
        n_tasks: int,
        *,
        intercept: bool,
    ) -> Moments:
        """Sum products of rows; a column of ones for the intercept is last among the columns."""
        width = columns.shape[1] + 1
        products = np.zeros((n_tasks, width, width))
        for bucket in buckets(tasks, n_tasks):
            rows = np.concatenate([columns[bucket.rows], y[bucket.rows][:, :, None]], axis=2)
            weighted = rows * (weights[bucket.rows] * bucket.inside)[:, :, None]
            products[bucket.tasks] = weighted.swapaxes(1, 2) @ rows
        used = weights > 0
        counts = np.bincount(tasks[used], minlength=n_tasks)
        logs = np.bincount(tasks[used], np.log(weights[used]), n_tasks)
        return cls(products, counts, logs.astype(np.float64), intercept)

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self.products)

    @property
    def n_columns(self) -> int:
        """Number of columns, the intercept's among them."""
        return int(self.products.shape[1] - 1)

    def take(self, tasks: Indices | slice) -> Moments:
        """Return some of the tasks."""
        parts = {name: getattr(self, name)[tasks] for name in ("products", "counts", "log_weights")}
        return replace(self, **parts)
