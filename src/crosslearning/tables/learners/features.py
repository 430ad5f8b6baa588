"""Features derived from the columns of a table, for stored models.

Principal axes of many columns, splines, and means of tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosslearning.convex.sums.columns import Curves

Array = NDArray[np.float64]
BLOCKS = {
    "means": ("linear", "means"),
    "splines": ("linear", "curved"),
    "splines-means": ("linear", "curved", "means"),
    "trees": ("trees",),  # of no linear model
}
_MOST_AXES = 300
_ROUNDING = 1e-10  # of the largest singular value


@dataclass(frozen=True, eq=False)
class Rotation:
    """Standardised features to their principal axes.

    If tasks differ in all coefficients by one variance, nothing is lost with all axes: the prior is
    the same in every direction, and the rows carry no information about the others.
    """

    mean: Array
    scale: Array
    axes: Array

    @classmethod
    def of(cls, X: Array) -> Rotation | None:
        """Return the axes if features are many, or more than rows; else None."""
        n_rows, n_features = X.shape
        if n_features <= min(_MOST_AXES, n_rows):
            return None
        mean, scale = X.mean(axis=0), X.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        _, sizes, axes = np.linalg.svd((X - mean) / scale, full_matrices=False)
        kept = min(_MOST_AXES, int(np.count_nonzero(sizes > _ROUNDING * sizes[0])))
        return cls(mean, scale, axes[:kept].T.copy())

    def apply(self, X: Array) -> Array:
        """Return the features in the axes."""
        return np.asarray((X - self.mean) / self.scale @ self.axes)


@dataclass(frozen=True, eq=False)
class TaskMeans:
    """Means of some columns in each task.

    Their coefficients tell how tasks with a higher mean differ (Mundlak, 1978), while those of the
    columns tell what happens within a task. A row of a new task lets expect the mean
    `center` + `shares` (row - `center`), by regression of means on rows; `spread` is the covariance
    of the rest.
    """

    columns: NDArray[np.int64]
    values: Array
    center: Array
    shares: Array
    spread: Array

    @classmethod
    def of(cls, Z: Array, codes: NDArray[np.int64], weights: Array, n_tasks: int) -> TaskMeans:
        """Take the means of all columns; those of a task without weight are NaN."""
        used = weights > 0
        Z, codes, weights = Z[used], codes[used], weights[used]
        counts = np.bincount(codes, weights, n_tasks)
        totals = np.transpose([np.bincount(codes, weights * z, n_tasks) for z in Z.T])
        means = np.full_like(totals, np.nan)
        means[counts > 0] = totals[counts > 0] / counts[counts > 0, None]
        weights = weights / weights.sum()
        center = weights @ Z
        apart, of_tasks = Z - center, means[codes] - center
        between, total = weights @ of_tasks**2, weights @ apart**2
        shares = np.divide(between, total, out=0.0 * total, where=total > 0)
        rest = of_tasks - shares * apart
        return cls(np.arange(Z.shape[1]), means, center, shares, (rest.T * weights) @ rest)

    def take(self, columns: NDArray[np.int64]) -> TaskMeans:
        """Return the means of some columns."""
        each = self.values[:, columns], self.center[columns], self.shares[columns]
        return TaskMeans(self.columns[columns], *each, self.spread[np.ix_(columns, columns)])

    def apply(self, Z: Array, codes: NDArray[np.int64]) -> Array:
        """Means of the task of each row; the code -1 is a new task."""
        means = np.where(codes[:, None] < 0, np.nan, self.values[codes])
        expected = self.center + self.shares * (Z[:, self.columns] - self.center)
        return np.where(np.isnan(means), expected, means)


@dataclass(frozen=True, eq=False)
class Basis:
    """Standardised columns, then curves of them, and means of tasks.

    Stored by the order of the fields, so that new ones come last.
    """

    mean: Array
    scale: Array
    curves: list[Curves]
    means: TaskMeans | None = None

    def apply(self, X: Array, codes: NDArray[np.int64]) -> Array:
        """Columns for linear models, in the order of `blocks`."""
        Z = (X - self.mean) / self.scale
        parts = [Z, *(curves(Z[:, curves.column]) for curves in self.curves)]
        parts += [] if self.means is None else [self.means.apply(Z, codes)]
        return np.hstack(parts)

    @property
    def blocks(self) -> NDArray[np.str_]:
        """What each column is."""
        curved = sum(curves.coef.shape[2] for curves in self.curves)
        means = 0 if self.means is None else len(self.means.columns)
        return np.repeat(["linear", "curved", "means"], [len(self.mean), curved, means])

    def seen(self, name: str) -> NDArray[np.intp]:
        """Positions of the columns of a base."""
        return np.flatnonzero(np.isin(self.blocks, BLOCKS[name]))

    def guessed(self, columns: NDArray[np.intp]) -> Array:
        """Covariance of what some columns of a new task leave open: its means."""
        at = np.flatnonzero(self.blocks == "means")
        covariance = np.zeros((len(self.blocks), len(self.blocks)))
        if self.means is not None:
            covariance[np.ix_(at, at)] = self.means.spread
        return covariance[np.ix_(columns, columns)]
