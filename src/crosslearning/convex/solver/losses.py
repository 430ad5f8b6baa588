"""Convex losses f_1 ... f_N of parameter vectors, the rows of an array (N, P), all at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from crosslearning.convex.sums.passes import Expansion, Pass, Passed
from crosslearning.convex.sums.rows import GLMRows, Moments, times_each
from crosslearning.tether import Array


@dataclass(frozen=True, eq=False)
class Quadratic:
    """f_i(θ) = ½ θᵀA_iθ - b_iᵀθ + k_i: least squares, perhaps with a ridge term."""

    A: Array  # (N, P, P)
    b: Array  # (N, P)
    constant: Array  # (N,)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.b), self.b.shape[1]

    @cached_property
    def curvature(self) -> Array:
        """Typical second derivative of each task's loss, positive: the mean eigenvalue of A_i."""
        return _floored(_mean_eigenvalues(self.A))

    @cached_property
    def scale(self) -> float:
        """Size of a gradient far from 0, to which tolerances are relative: a bound of that at 0."""
        traces = np.einsum("njj->n", self.A)
        return float(np.sqrt(2.0 * traces * self.constant).max()) or 1.0

    def value(self, thetas: Array) -> Array:
        slopes = 0.5 * times_each(self.A, thetas) - self.b
        return np.asarray(self.constant + np.einsum("np,np->n", slopes, thetas))

    def gradient(self, thetas: Array) -> Array:
        return times_each(self.A, thetas) - self.b

    def hessian(self, thetas: Array) -> Array:  # noqa: ARG002
        return self.A

    def pooled(self) -> Quadratic:
        parts = self.A, self.b, self.constant
        return Quadratic(*(part.sum(axis=0, keepdims=True) for part in parts))

    def with_ridge(self, ridge: Array) -> Quadratic:
        """Add ½ Σ_j ridge_ij θ_j² to the loss of each task i."""
        return replace(self, A=_with_diagonal(self.A, ridge))

    def with_prior(self, precision: Array) -> Quadratic:
        """Add one more task with the loss ½ Σ_j precision_j θ_j²: a prior of what it is tied to."""
        A = np.concatenate([self.A, np.diag(precision)[None]])
        return Quadratic(A, _with_row(self.b, 0.0), np.append(self.constant, 0.0))

    def in_variables(self, matrix: Array) -> Quadratic:
        """Return the loss as a function of u, where θ = matrix u: the last of all changes."""
        return Quadratic(matrix.T @ self.A @ matrix, self.b @ matrix, self.constant)


@dataclass(frozen=True, eq=False)
class FamilyLoss:
    """f_i(u) = -Σ_rows weight · log density + ½ Σ_j ridge_ij θ_j² of θ = u, or matrix u."""

    rows: GLMRows
    dispersion: float = 1.0
    ridge: Array | float = 0.0  # (N, P)
    matrix: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.n_tasks, self.rows.n_parameters

    @cached_property
    def curvature(self) -> Array:
        """Mean second derivative at 0."""
        A = self.rows.at_zero[:, :-1, :-1] / self.dispersion
        return _floored(_mean_eigenvalues(self._changed(_with_diagonal(A, self.ridge))))

    @cached_property
    def scale(self) -> float:
        """Size of the data's gradients at 0, and of their change over a unit."""
        slopes, A = self._back(self.rows.at_zero[:, :-1, -1]), self.rows.at_zero[:, :-1, :-1]
        sizes = np.maximum(np.linalg.norm(slopes, axis=1), _mean_eigenvalues(self._changed(A)))
        return float(sizes.max()) / self.dispersion or 1.0

    def value(self, thetas: Array) -> Array:
        thetas = self._thetas(thetas)
        ridge = 0.5 * np.sum(self.ridge * thetas**2, axis=1)
        return np.asarray(ridge - self.rows.log_likelihood(thetas, self.dispersion))

    def gradient(self, thetas: Array) -> Array:
        thetas = self._thetas(thetas)
        return self._back(self.ridge * thetas - self.rows.slopes(thetas) / self.dispersion)

    def hessian(self, thetas: Array) -> Array:
        A = self.rows.derivatives(self._thetas(thetas))[1] / self.dispersion
        return self._changed(_with_diagonal(A, self.ridge))

    def pooled(self) -> FamilyLoss:
        rows = replace(self.rows, tasks=np.zeros_like(self.rows.tasks), n_tasks=1)
        return replace(self, rows=rows, ridge=self._ridges.sum(axis=0, keepdims=True))

    def with_ridge(self, ridge: Array) -> FamilyLoss:
        return replace(self, ridge=self.ridge + ridge)

    def with_prior(self, precision: Array) -> FamilyLoss:
        """Add one more task, which has no rows."""
        rows = replace(self.rows, n_tasks=self.rows.n_tasks + 1)
        return replace(self, rows=rows, ridge=_with_row(self._ridges, precision))

    def in_variables(self, matrix: Array) -> FamilyLoss:
        return replace(self, matrix=matrix)

    @property
    def _ridges(self) -> Array:
        return np.broadcast_to(self.ridge, self.shape)

    def _thetas(self, u: Array) -> Array:
        return u if self.matrix is None else u @ self.matrix.T

    def _back(self, gradient: Array) -> Array:
        return gradient if self.matrix is None else gradient @ self.matrix

    def _changed(self, H: Array) -> Array:
        return H if self.matrix is None else np.asarray(self.matrix.T @ H @ self.matrix)


Loss = Quadratic | FamilyLoss


def quadratic_loss(
    moments: Moments, noise_variance: float = 1.0, task_weights: Array | float = 1.0
) -> Quadratic:
    """Weighted squared errors over twice the variance of the noise, from moments."""
    factor = np.broadcast_to(task_weights, moments.n_tasks) / noise_variance
    products = moments.products * factor[:, None, None]
    return Quadratic(products[:, :-1, :-1], products[:, :-1, -1], 0.5 * products[:, -1, -1])


def loss_of_pass(passed: Passed, point: Pass) -> Quadratic:
    """Minus the log likelihoods, to second order around the parameters of a pass."""
    none = np.zeros(point.thetas.shape[1] // point.family.n_scores)
    around = Expansion(point.thetas, passed(point), point.family, point.intercept, none)
    return quadratic_loss(around.moments, point.dispersion)


def _floored(curvature: Array) -> Array:
    """Curvatures with those of tasks that carry no information raised to a small share."""
    return np.maximum(curvature, 1e-8 * curvature.mean() or 1.0)


def _mean_eigenvalues(A: Array) -> Array:
    return np.asarray(np.einsum("njj->n", A) / A.shape[1])


def _with_diagonal(A: Array, added: Array | float) -> Array:
    A = A.copy()
    diagonal = np.arange(A.shape[1])
    A[:, diagonal, diagonal] += added
    return A


def _with_row(rows: Array, row: Array | float) -> Array:
    return np.vstack([rows, np.broadcast_to(row, rows.shape[1])])
