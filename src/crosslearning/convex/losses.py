"""Convex losses, one per task, evaluated for all tasks at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from crosslearning.convex._padding import buckets

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Loss", "Quadratic"]


class Loss(Protocol):
    """Losses f_1 ... f_N of parameter vectors, the rows of an array of shape (N, P)."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of tasks and number of parameters."""

    @property
    def curvature(self) -> NDArray[np.float64]:
        """Typical second derivative of each task's loss; positive."""

    @property
    def scale(self) -> float:
        """Size of a gradient that is far from 0; tolerances are relative to it."""

    def value(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        """f_i(θ_i), shape (N,)."""

    def gradient(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        """∇f_i(θ_i), shape (N, P)."""

    def hessian(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        """∇²f_i(θ_i), shape (N, P, P)."""

    def with_ridge(self, ridge: NDArray[np.float64]) -> Loss:
        """Add ½ Σ_j ridge_ij θ_j² to the loss of each task i."""

    def pooled(self) -> Loss:
        """Return the sum of the losses as the loss of a single task."""


@dataclass(frozen=True, eq=False)
class Quadratic:
    """f_i(θ) = ½ θᵀA_iθ - b_iᵀθ + k_i: least squares, perhaps with a ridge term.

    Parameters
    ----------
    A : array of shape (n_tasks, n_parameters, n_parameters)
        Symmetric and positive semidefinite.
    b : array of shape (n_tasks, n_parameters)
        Linear terms.
    constant : array of shape (n_tasks,)
        k_i: half the weighted sum of the squared targets.
    """

    A: NDArray[np.float64]
    b: NDArray[np.float64]
    constant: NDArray[np.float64]

    @classmethod
    def of_rows(
        cls,
        X: NDArray[np.float64],
        y: NDArray[np.float64],
        weights: NDArray[np.float64],
        tasks: NDArray[np.intp],
        n_tasks: int,
    ) -> Quadratic:
        """½ Σ_rows weight (y - xᵀθ)²; arguments as in :class:`ClassRows`."""
        n_columns = X.shape[1]
        A, b = np.zeros((n_tasks, n_columns, n_columns)), np.zeros((n_tasks, n_columns))
        for bucket in buckets(tasks, n_tasks):
            rows = X[bucket.rows]
            weighted = (rows * (weights[bucket.rows] * bucket.inside)[:, :, None]).swapaxes(1, 2)
            A[bucket.tasks] = weighted @ rows
            b[bucket.tasks] = (weighted @ y[bucket.rows][:, :, None])[:, :, 0]
        constant = np.bincount(tasks, 0.5 * weights * y**2, n_tasks)
        return cls(A, b, constant.astype(np.float64))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of tasks and number of parameters."""
        n_tasks, n_parameters = self.b.shape
        return n_tasks, n_parameters

    @cached_property
    def curvature(self) -> NDArray[np.float64]:
        """Mean eigenvalue of A_i."""
        return floored(np.trace(self.A, axis1=1, axis2=2) / self.b.shape[1])

    @cached_property
    def scale(self) -> float:
        """Bound of the gradient at 0."""
        trace = np.trace(self.A, axis1=1, axis2=2)
        return float(np.sqrt(2.0 * trace * self.constant).max()) or 1.0

    def value(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        """f_i(θ_i)."""
        value: NDArray[np.float64] = self.constant + np.einsum(
            "np,np->n", 0.5 * self._product(thetas) - self.b, thetas
        )
        return value

    def gradient(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        """∇f_i(θ_i)."""
        return self._product(thetas) - self.b

    def hessian(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:  # noqa: ARG002
        """∇²f_i, the same everywhere."""
        return self.A

    def with_ridge(self, ridge: NDArray[np.float64]) -> Quadratic:
        """Add a ridge term."""
        A = self.A.copy()
        diagonal = np.arange(A.shape[1])
        A[:, diagonal, diagonal] += ridge
        return replace(self, A=A)

    def pooled(self) -> Quadratic:
        """Sum of the losses."""
        return Quadratic(
            self.A.sum(axis=0, keepdims=True),
            self.b.sum(axis=0, keepdims=True),
            self.constant.sum(keepdims=True),
        )

    def _product(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        product: NDArray[np.float64] = np.matmul(self.A, thetas[:, :, None])[:, :, 0]
        return product


def floored(curvature: NDArray[np.float64]) -> NDArray[np.float64]:
    """Curvatures with those of tasks that carry no information raised to a small share."""
    return np.maximum(curvature, 1e-8 * curvature.mean() or 1.0)
