"""From rows to a problem: weights of tasks, ridge terms, scaled columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.convex._working import GLMRows
from crosslearning.convex.families import Gaussian
from crosslearning.convex.laplace import laplace_fit
from crosslearning.convex.losses import FamilyLoss, quadratic_loss
from crosslearning.convex.metric import learned_root
from crosslearning.convex.problem import ConvexProblem
from crosslearning.convex.scaling import Scaling

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crosslearning.convex._arrays import Array, Indices
    from crosslearning.convex.families import Family

__all__ = ["Design", "TaskTable"]

_ENOUGH = 1e-3  # gain in log evidence that does not matter to a metric


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

    def glm(
        self, columns: Array, family: Family, *, intercept: bool, offset: Array | None = None
    ) -> GLMRows:
        """Return scaled columns with the targets of a family; an offset is added to each score."""
        given = np.zeros(len(columns)) if offset is None else offset
        offsets, y = np.repeat(given[:, None], family.n_scores, axis=1), self.y.astype(np.float64)
        return GLMRows(
            columns, y, self.weights, self.tasks, self.n_tasks, offsets, family, intercept
        )


@dataclass(frozen=True, eq=False)
class Design:
    """The settings that turn rows into a problem: targets' family, and the estimators' own."""

    family: Family
    fit_intercept: bool
    standardize: bool
    task_weights: str
    tol: float
    max_iter: int

    @property
    def n_scores(self) -> int:
        """Number of linear scores of a row."""
        return self.family.n_scores

    def scaling(self, rows: TaskTable) -> Scaling:
        """Pooled statistics of the features."""
        return Scaling.of(
            rows.X,
            rows.weights,
            center=self.standardize and self.fit_intercept,
            scale=self.standardize,
        )

    def problem(self, rows: TaskTable, scaling: Scaling) -> ConvexProblem:
        """Losses of scaled columns; what a ridge term is divided by among the tasks."""
        columns = scaling.columns(rows.X, intercept=self.fit_intercept)
        own = np.bincount(rows.tasks, rows.weights, rows.n_tasks).astype(np.float64)
        weights = rows.weights
        share = own / own.sum()
        if self.task_weights == "equal":
            share = np.where(own > 0, 1.0 / np.count_nonzero(own), 0.0)
            each = own.sum() * np.divide(share, own, out=np.zeros_like(own), where=own > 0)
            weights = weights * each[rows.tasks]
        n_parameters = columns.shape[1] * self.n_scores
        intercept = slice(rows.X.shape[1] * self.n_scores, n_parameters)
        weighted = replace(rows, weights=weights)
        glm = weighted.glm(columns, self.family, intercept=self.fit_intercept)
        exact = isinstance(self.family, Gaussian)
        loss = quadratic_loss(glm.moments()) if exact else FamilyLoss(glm)
        return ConvexProblem(loss, own, share, intercept, self.tol, self.max_iter)

    def learned(self, rows: TaskTable, scaling: Scaling) -> tuple[Array, float]:
        """Root of the covariance of tasks, and a ridge strength, by evidence."""
        columns = scaling.columns(rows.X, intercept=self.fit_intercept)
        glm = rows.glm(columns, self.family, intercept=self.fit_intercept)
        fit = laplace_fit(glm, tol=_ENOUGH).posterior
        weight = rows.weights.sum() / max(np.count_nonzero(np.bincount(rows.tasks)), 1)
        root = learned_root(fit.task_covariance, fit.noise_variance / float(weight))
        return root, float(fit.noise_variance / fit.center_variances[0])

    def matrices(self, thetas: Array) -> Array:
        """Parameter vectors as matrices of shape (..., columns, scores)."""
        return thetas.reshape(*thetas.shape[:-1], -1, self.n_scores)
