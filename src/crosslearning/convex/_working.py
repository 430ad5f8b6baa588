"""Rows of a generalised linear model, and their quadratic approximation at some parameters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crosslearning.convex._padding import buckets
from crosslearning.convex.moments import Moments
from crosslearning.convex.posterior import quadratic_forms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from crosslearning.convex.families import Family

__all__ = ["GLMRows", "SearchOptions"]


class SearchOptions(NamedTuple):
    """Structure of the covariance, blocks, tolerance and limit, as in `evidence_fit`."""

    covariance: str
    blocks: NDArray[np.intp] | None
    tol: float
    max_iter: int


class _Padded(NamedTuple):
    """Rows of tasks of similar size, padded with rows of weight 0."""

    tasks: NDArray[np.intp]
    X: NDArray[np.float64]  # (tasks, rows, columns)
    y: NDArray[np.float64]  # (tasks, rows)
    weights: NDArray[np.float64]
    offset: NDArray[np.float64]  # (tasks, rows, scores)


@dataclass(frozen=True, eq=False)
class GLMRows:
    """Rows of all tasks; a task's parameters are a matrix (columns, scores), flattened.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        Columns, ones for the intercept last.
    y, weights : array of shape (n_rows,)
        Targets and weights.
    tasks : array of int of shape (n_rows,)
        Task of each row.
    n_tasks : int
        Number of tasks.
    offset : array of shape (n_rows, n_scores)
        Added to the scores.
    family : Family
        Distribution of the targets.
    intercept : bool
        Whether the last column is the intercept.
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    weights: NDArray[np.float64]
    tasks: NDArray[np.intp]
    n_tasks: int
    offset: NDArray[np.float64]
    family: Family
    intercept: bool

    @property
    def n_parameters(self) -> int:
        """Parameters of a task."""
        return int(self.X.shape[1] * self.family.n_scores)

    @cached_property
    def padded(self) -> list[_Padded]:
        """Return the rows task by task."""
        return [
            _Padded(
                b.tasks,
                self.X[b.rows],
                self.y[b.rows],
                self.weights[b.rows] * b.inside,
                self.offset[b.rows],
            )
            for b in buckets(self.tasks, self.n_tasks)
        ]

    def moments(self, precisions: NDArray[np.float64] | float = 1.0) -> Moments:
        """Sum products of columns and of what the offset leaves of real targets."""
        return Moments.of_rows(
            self.X,
            self.y - self.offset[:, 0],
            self.weights * precisions,
            self.tasks,
            self.n_tasks,
            intercept=self.intercept,
        )

    def expected_squares(
        self, thetas: NDArray[np.float64], covariances: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Weighted posterior mean of the squared error of each row with a real target."""
        means = np.einsum("rp,rp->r", self.X, thetas[self.tasks]) + self.offset[:, 0]
        spread = quadratic_forms(self.X, self.tasks, covariances)
        return np.asarray(self.weights * ((self.y - means) ** 2 + spread))

    def log_likelihood(self, thetas: NDArray[np.float64], dispersion: float) -> NDArray[np.float64]:
        """Weighted log density of each task."""
        result = np.zeros(self.n_tasks)
        for rows, scores in self._scores(thetas):
            logs = self.family.log_density(rows.y, scores, dispersion)
            result[rows.tasks] = np.einsum("nr,nr->n", rows.weights, logs)
        return result

    def products(self, thetas: NDArray[np.float64], dispersion: float) -> NDArray[np.float64]:
        """Products of columns and working targets: curvature A_i, and b_i = A_iθ_i + gradient."""
        p, q, width = self.X.shape[1], self.family.n_scores, self.n_parameters
        products = np.zeros((self.n_tasks, width + 1, width + 1))
        for rows, scores in self._scores(thetas):
            weights = rows.weights / dispersion
            curvature = self.family.curvature(rows.y, scores) * weights[:, :, None, None]
            A = np.empty((len(rows.tasks), p, q, p, q))
            flipped = rows.X.swapaxes(1, 2)
            for k in range(q):
                for m in range(k + 1):
                    A[:, :, k, :, m] = flipped @ (curvature[:, :, k, m, None] * rows.X)
                    A[:, :, m, :, k] = A[:, :, k, :, m]
            slope = flipped @ (self.family.slope(rows.y, scores) * weights[:, :, None])
            flat = A.reshape(-1, width, width)
            b = slope.reshape(-1, width) + (flat @ thetas[rows.tasks][:, :, None])[:, :, 0]
            products[rows.tasks, :width, :width] = flat
            products[rows.tasks, :width, width] = products[rows.tasks, width, :width] = b
        return products

    def slopes(self, thetas: NDArray[np.float64], dispersion: float) -> NDArray[np.float64]:
        """Gradient of the weighted log density of each task."""
        result = np.zeros((self.n_tasks, self.n_parameters))
        for rows, scores in self._scores(thetas):
            slope = self.family.slope(rows.y, scores) * rows.weights[:, :, None] / dispersion
            own = rows.X.swapaxes(1, 2) @ slope
            result[rows.tasks] = own.reshape(-1, self.n_parameters)
        return result

    def tilt(
        self,
        thetas: NDArray[np.float64],
        covariances: NDArray[np.float64],
        dispersion: float,
    ) -> NDArray[np.float64]:
        """Gradient by θ_i of ½ tr(A_i(θ_i) K_i) for given covariances K_i."""
        p, q = self.X.shape[1], self.family.n_scores
        result = np.zeros((self.n_tasks, self.n_parameters))
        for rows, scores in self._scores(thetas):
            K = covariances[rows.tasks].reshape(-1, p, q, p, q)
            spread = np.empty((*rows.y.shape, q, q))
            for k in range(q):
                for m in range(q):
                    spread[:, :, k, m] = np.sum((rows.X @ K[:, :, k, :, m]) * rows.X, axis=2)
            slope = self.family.curvature_slope(rows.y, scores, spread)
            slope *= 0.5 * rows.weights[:, :, None] / dispersion
            result[rows.tasks] = (rows.X.swapaxes(1, 2) @ slope).reshape(-1, p * q)
        return result

    def pearson_errors(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weighted squared errors of each task over the variances at dispersion 1."""
        result = np.zeros(self.n_tasks)
        for rows, scores in self._scores(thetas):
            errors = self.family.squared_error(rows.y, scores)
            result[rows.tasks] = np.einsum("nr,nr->n", rows.weights, errors)
        return result

    def _scores(self, thetas: NDArray[np.float64]) -> Iterator[tuple[_Padded, NDArray[np.float64]]]:
        for rows in self.padded:
            matrices = thetas[rows.tasks].reshape(len(rows.tasks), self.X.shape[1], -1)
            yield rows, rows.offset + rows.X @ matrices
