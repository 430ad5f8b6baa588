"""Squared errors of many models on the same rows, from a few numbers per task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslearning.convex.sums.moments import buckets
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.convex.sums.table import Data, TaskTable
from crosslearning.tether import Array, Indices


@dataclass(frozen=True, eq=False)
class SquaredError:
    """Negative mean squared errors by task.

    `factors` are matrices R with the products RᵀR of the tasks' weighted rows (x, 1, y), so that
    ‖R (coef, intercept, -1)‖² is the sum of squared errors; a QR factorisation of rows costs no
    digits.
    `weights` are sums over a task's rows, and `models` tells which model speaks for each task.
    """

    factors: Array
    weights: Array
    models: Indices

    @classmethod
    def of(cls, data: Data, models: Indices) -> SquaredError:
        """Compress rows or sums."""
        factors = _of_sums(data) if isinstance(data, Statistics) else _of_rows(data)
        return cls(factors, data.task_weights, models)

    def __call__(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Score of each task, NaN if it has no rows, and its weight."""
        vectors = np.hstack([coef[:, 0], intercept, np.full_like(intercept, -1.0)])[self.models]
        errors = np.matmul(self.factors, vectors[:, :, None])[:, :, 0]
        squares, none = np.einsum("np,np->n", errors, errors), np.full(len(errors), np.nan)
        return np.divide(-squares, self.weights, out=none, where=self.weights > 0), self.weights


def _of_rows(rows: TaskTable) -> Array:
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
    return triangles


def _of_sums(sums: Statistics) -> Array:
    """Deviations from the means, and the means as one heavy row."""
    cells, p = sums.total().cells[:, 0], sums.n_features
    unit = np.sqrt(np.einsum("njj->nj", cells.scatters))
    unit[unit == 0.0] = 1.0
    values, vectors = np.linalg.eigh(cells.scatters / (unit[:, :, None] * unit[:, None]))
    roots = np.sqrt(np.maximum(values, 0.0))[:, :, None] * vectors.swapaxes(1, 2)
    rows = np.concatenate([roots * unit[:, None], cells.means[:, None]], axis=1)
    rows = np.insert(rows, p, 0.0, axis=2)
    rows[:, -1, p] = 1.0
    rows[:, -1] *= np.sqrt(cells.weights)[:, None]
    return rows
