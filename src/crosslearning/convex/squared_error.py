"""Squared errors of many models on the same rows, from a few numbers per task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crosslearning.convex._padding import buckets

if TYPE_CHECKING:
    from crosslearning.convex._arrays import Array, Indices
    from crosslearning.convex.design import TaskTable

__all__ = ["SquaredError"]


@dataclass(frozen=True, eq=False)
class SquaredError:
    """Negative mean squared errors by task.

    `triangles` are the R of the QR factorisations of the tasks' weighted rows (x, 1, y):
    ‖R (coef, intercept, -1)‖² is the sum of squared errors, as accurate as from the rows.
    `weights` are sums over a task's rows, and `models` tells which model speaks for each task.
    """

    triangles: Array
    weights: Array
    models: Indices

    @classmethod
    def of(cls, rows: TaskTable, models: Indices) -> SquaredError:
        """Compress rows."""
        width = rows.X.shape[1] + 2
        triangles = np.zeros((rows.n_tasks, width, width))
        roots = np.sqrt(rows.weights)
        for bucket in buckets(rows.tasks, rows.n_tasks):
            block = np.empty((*bucket.rows.shape, width))
            block[:, :, :-2] = rows.X[bucket.rows]
            block[:, :, -2] = 1.0
            block[:, :, -1] = rows.y[bucket.rows]
            block *= (roots[bucket.rows] * bucket.inside)[:, :, None]
            triangle = np.asarray(np.linalg.qr(block, mode="r"))
            triangles[bucket.tasks, : triangle.shape[1]] = triangle
        total = np.bincount(rows.tasks, rows.weights, rows.n_tasks)
        return cls(triangles, total.astype(np.float64), models)

    def __call__(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Score of each task, NaN if it has no rows, and its weight."""
        vectors = np.hstack([coef[:, 0], intercept, np.full_like(intercept, -1.0)])[self.models]
        errors = np.matmul(self.triangles, vectors[:, :, None])[:, :, 0]
        squares, none = np.einsum("np,np->n", errors, errors), np.full(len(errors), np.nan)
        return np.divide(-squares, self.weights, out=none, where=self.weights > 0), self.weights
