"""Checked rows with their tasks."""

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
