"""Convex losses, one per task, evaluated for all tasks at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from crosslearning.linear.rows import buckets

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

    def pooled(self) -> Loss:
        """Return the sum of the losses as the loss of a single task."""


@dataclass(frozen=True, eq=False)
class Quadratic:
    """f_i(θ) = ½ θᵀA_iθ - b_iᵀθ + k_i: least squares with a ridge term.

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
        ridge: NDArray[np.float64],
    ) -> Quadratic:
        """½ Σ_rows weight (y - xᵀθ)² + ½ Σ_j ridge_ij θ_j²; arguments as in :class:`Logistic`."""
        n_tasks, n_parameters = ridge.shape
        A, b = np.zeros((n_tasks, n_parameters, n_parameters)), np.zeros(ridge.shape)
        weighted = weights * y
        for bucket in buckets(tasks, n_tasks):
            rows = X[bucket.rows]
            transposed = rows.transpose(0, 2, 1)
            A[bucket.tasks] = transposed @ (
                rows * (weights[bucket.rows] * bucket.inside)[:, :, None]
            )
            right = (weighted[bucket.rows] * bucket.inside)[:, :, None]
            b[bucket.tasks] = (transposed @ right)[:, :, 0]
        diagonal = np.arange(n_parameters)
        A[:, diagonal, diagonal] += ridge
        return cls(A, b, np.bincount(tasks, 0.5 * weighted * y, n_tasks).astype(np.float64))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of tasks and number of parameters."""
        n_tasks, n_parameters = self.b.shape
        return n_tasks, n_parameters

    @property
    def curvature(self) -> NDArray[np.float64]:
        """Mean eigenvalue of A_i."""
        return floored(np.trace(self.A, axis1=1, axis2=2) / self.b.shape[1])

    @property
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
