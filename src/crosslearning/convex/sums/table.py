"""Checked rows with their tasks, and squared errors of many models on the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.convex.families import Family
from crosslearning.convex.sums.rows import GLMRows
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.tether import Array, Indices


@dataclass(frozen=True, eq=False)
class TaskTable:
    """Checked data: features, encoded targets, weights and task numbers."""

    X: Array
    y: NDArray[Any]
    weights: Array
    tasks: NDArray[np.int64]
    n_tasks: int

    def take(self, rows: Indices) -> TaskTable:
        """Return some of the rows; tasks keep their numbers."""
        return TaskTable(
            self.X[rows], self.y[rows], self.weights[rows], self.tasks[rows], self.n_tasks
        )

    @property
    def counts(self) -> Indices:
        """Number of rows of each task."""
        return np.bincount(self.tasks, minlength=self.n_tasks)

    @property
    def task_weights(self) -> Array:
        """Sum of the weights of each task."""
        return np.bincount(self.tasks, self.weights, self.n_tasks).astype(np.float64)

    @cached_property
    def sums(self) -> Statistics:
        """Sums that least squares needs."""
        labels = np.arange(self.n_tasks)
        return Statistics.of(self.X, self.y, self.tasks, labels=labels, sample_weight=self.weights)

    def glm(
        self, columns: Array, family: Family, *, intercept: bool, offset: Array | None = None
    ) -> GLMRows:
        """Return scaled columns with the targets of a family; an offset is added to each score."""
        offset = np.zeros(len(columns)) if offset is None else offset
        return GLMRows(
            X=columns,
            y=self.y.astype(np.float64),
            weights=self.weights,
            tasks=self.tasks,
            n_tasks=self.n_tasks,
            offset=np.repeat(offset[:, None], family.n_scores, axis=1),
            family=family,
            intercept=intercept,
        )


Data = TaskTable | Statistics  # of encoded targets; sums are for the Gaussian family alone


@dataclass(frozen=True, eq=False)
class SquaredError:
    """Negative mean squared errors by task, of many models on the same rows.

    `factors` are matrices R with the products RᵀR of the tasks' weighted rows (x, 1, y), so that
    ‖R (coef, intercept, -1)‖² is the sum of squared errors. `weights` are sums over a task's rows,
    and `models` tells which model speaks for each task.
    """

    factors: Array
    weights: Array
    models: Indices

    @classmethod
    def of(cls, data: Data, models: Indices) -> SquaredError:
        """Take deviations from the means, and the means as one heavy row."""
        sums = data if isinstance(data, Statistics) else data.sums
        cells, p = sums.total().cells[:, 0], sums.n_features
        unit = np.sqrt(np.einsum("njj->nj", cells.scatters))
        unit[unit == 0.0] = 1.0
        values, vectors = np.linalg.eigh(cells.scatters / (unit[:, :, None] * unit[:, None]))
        roots = np.sqrt(np.maximum(values, 0.0))[:, :, None] * vectors.swapaxes(1, 2)
        rows = np.concatenate([roots * unit[:, None], cells.means[:, None]], axis=1)
        rows = np.insert(rows, p, 0.0, axis=2)
        rows[:, -1, p] = 1.0
        rows[:, -1] *= np.sqrt(cells.weights)[:, None]
        return cls(rows, data.task_weights, models)

    def __call__(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Score of each task, NaN if it has no rows, and its weight."""
        vectors = np.hstack([coef[:, 0], intercept, np.full_like(intercept, -1.0)])[self.models]
        errors = np.matmul(self.factors, vectors[:, :, None])[:, :, 0]
        squares, none = np.einsum("np,np->n", errors, errors), np.full(len(errors), np.nan)
        return np.divide(-squares, self.weights, out=none, where=self.weights > 0), self.weights
