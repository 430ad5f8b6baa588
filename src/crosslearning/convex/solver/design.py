"""From rows, or sums over them, to a problem: weights of tasks, ridge terms, scaled columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crosslearning.convex.evidence.gaussian import evidence_fit
from crosslearning.convex.evidence.laplace import laplace_fit
from crosslearning.convex.families import Family, Gaussian
from crosslearning.convex.solver.losses import FamilyLoss, Loss, quadratic_loss
from crosslearning.convex.solver.metric import learned_root
from crosslearning.convex.solver.problem import ConvexProblem
from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.rows import GLMRows
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.convex.sums.table import Data, TaskTable
from crosslearning.tether import Array

_ENOUGH = 1e-3  # gain in log evidence that does not matter to a metric


@dataclass(frozen=True, eq=False, kw_only=True)
class Design:
    """The settings that turn data into a problem: targets' family, and the estimators' own."""

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

    def scaling(self, data: Data) -> Scaling:
        """Pooled statistics of the features."""
        data = self._reduced(data)
        center, scale = self.standardize and self.fit_intercept, self.standardize
        if isinstance(data, Statistics):
            return data.scaling(center=center, scale=scale)
        return Scaling.of(data.X, data.weights, center=center, scale=scale)

    def problem(self, data: Data, scaling: Scaling) -> ConvexProblem:
        """Losses of scaled columns; what a ridge term is divided by among the tasks."""
        data = self._reduced(data)
        weights, factor = data.task_weights, np.ones(data.n_tasks)
        share, used = weights / weights.sum(), weights > 0
        if self.task_weights == "equal":
            share = np.where(used, 1.0 / np.count_nonzero(used), 0.0)
            none = np.zeros_like(weights)
            factor = weights.sum() * np.divide(share, weights, out=none, where=used)
        loss: Loss
        if isinstance(data, Statistics):
            moments = data.moments(scaling, intercept=self.fit_intercept, target_mean=0.0)
            loss = quadratic_loss(moments, task_weights=factor)
        else:
            weighted = replace(data, weights=data.weights * factor[data.tasks])
            loss = FamilyLoss(self._glm(weighted, scaling))
        p = len(scaling.mean)
        intercept = slice(p * self.n_scores, (p + self.fit_intercept) * self.n_scores)
        return ConvexProblem(
            loss=loss,
            weights=weights,
            shares=share,
            intercept=intercept,
            tol=self.tol,
            max_iter=self.max_iter,
        )

    def learned(self, data: Data, scaling: Scaling) -> tuple[Array, float]:
        """Root of the covariance of tasks, and a ridge strength, by evidence."""
        data = self._reduced(data)
        if isinstance(data, Statistics):
            moments = data.moments(scaling, intercept=self.fit_intercept)
            fit = evidence_fit(moments, tol=_ENOUGH)
        else:
            fit = laplace_fit(self._glm(data, scaling), tol=_ENOUGH).posterior
        weight = data.task_weights.sum() / max(np.count_nonzero(data.counts), 1)
        root = learned_root(fit.task_covariance, fit.noise_variance / float(weight))
        return root, float(fit.noise_variance / fit.center_variances[0])

    def _reduced(self, data: Data) -> Data:
        """Take sums in place of rows if the loss needs no more."""
        if isinstance(data, TaskTable) and isinstance(self.family, Gaussian):
            return data.sums
        return data

    def _glm(self, rows: TaskTable, scaling: Scaling) -> GLMRows:
        columns = scaling.columns(rows.X, intercept=self.fit_intercept)
        return rows.glm(columns, self.family, intercept=self.fit_intercept)

    def matrices(self, thetas: Array) -> Array:
        """Parameter vectors as matrices of shape (..., columns, scores)."""
        return thetas.reshape(*thetas.shape[:-1], -1, self.n_scores)
