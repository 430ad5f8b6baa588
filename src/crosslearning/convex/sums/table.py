"""Checked rows with their tasks, and squared errors of many models on the same rows."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.convex.families import Family
from crosslearning.convex.sums.cells import Cells
from crosslearning.convex.sums.rows import GLMRows, times_each
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

    def take(self, rows: Indices) -> "TaskTable":
        X, y, weights, tasks = self.X, self.y, self.weights, self.tasks
        return TaskTable(X[rows], y[rows], weights[rows], tasks[rows], self.n_tasks)

    @property
    def counts(self) -> Indices:
        return np.bincount(self.tasks, minlength=self.n_tasks)

    @property
    def task_weights(self) -> Array:
        return np.bincount(self.tasks, self.weights, self.n_tasks).astype(np.float64)

    @cached_property
    def sums(self) -> Statistics:
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
    """Negative mean squared errors by task, of many models on the same rows."""

    cells: Cells  # of the tasks
    models: Indices  # which model speaks for each task

    @classmethod
    def of(cls, data: Data, models: Indices) -> "SquaredError":
        sums = data if isinstance(data, Statistics) else data.sums
        return cls(sums.total().cells[:, 0], models)

    def __call__(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Score of each task, NaN if it has no rows, and its weight."""
        v = np.hstack([-coef[:, 0], np.ones_like(intercept)])[self.models]
        within = np.einsum("np,np->n", times_each(self.cells.scatters, v), v)
        gaps = np.einsum("np,np->n", self.cells.means, v) - intercept[self.models, 0]
        weights, none = self.cells.weights, np.full(len(v), np.nan)
        squares = np.maximum(within, 0.0) + weights * gaps**2
        return np.divide(-squares, weights, out=none, where=weights > 0), weights
