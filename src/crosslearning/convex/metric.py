"""Distances in a metric: a change of variables, of which no solver has to know.

With θ_i = M u_i, the length of θ_i - c in the metric of Σ = M Mᵀ is the plain one of u_i - M⁻¹c.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from crosslearning.convex.losses import Quadratic, floored

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from crosslearning.convex._solver import ConvexSolution
    from crosslearning.convex.losses import Loss

__all__ = ["Metric", "in_variables", "learned_root", "root_of", "with_prior"]

_LEAST = 1e-2  # standard deviation that stands for none, relative to the largest
_ZERO = 1e-13  # variances below this share of the largest are 0


@dataclass(frozen=True, eq=False)
class Metric:
    """Variables in which a covariance is the identity.

    Parameters
    ----------
    matrix : array of shape (n_parameters, n_parameters)
        M, invertible. Its last columns span the directions in which the covariance is 0.
    n_free : int
        Number of the other columns.
    """

    matrix: NDArray[np.float64]
    n_free: int

    @classmethod
    def of(cls, covariance: NDArray[np.float64]) -> Metric:
        """Eigenvectors, times standard deviations where those are not 0."""
        variances = np.diagonal(covariance)
        if np.array_equal(covariance, np.diag(variances)):
            values, vectors = variances, np.eye(len(variances))
        else:
            values, vectors = np.linalg.eigh(covariance)
        order = np.argsort(-values, kind="stable")
        values, vectors = values[order], vectors[:, order]
        free = values > _ZERO * values[0]
        return cls(vectors * np.sqrt(np.where(free, values, 1.0)), int(np.count_nonzero(free)))

    @cached_property
    def inverse(self) -> NDArray[np.float64]:
        """M⁻¹."""
        return np.asarray(np.linalg.inv(self.matrix))

    def distances(self, offsets: NDArray[np.float64]) -> NDArray[np.float64]:
        """Lengths of offsets, in the directions that have a length."""
        return np.asarray(np.linalg.norm((offsets @ self.inverse.T)[..., : self.n_free], axis=-1))

    def inside(self, iterate: ConvexSolution) -> ConvexSolution:
        """Tasks and centre in the variables u."""
        onto, back = self.inverse.T, self.matrix
        return replace(
            iterate,
            thetas=iterate.thetas @ onto,
            center=iterate.center @ onto,
            forces=iterate.forces @ back,
        )

    def loss(self, loss: Loss) -> Loss:
        """Return the loss as a function of u."""
        return in_variables(loss, self.matrix)


def in_variables(loss: Loss, matrix: NDArray[np.float64]) -> Loss:
    """Return the loss as a function of u, where θ = matrix u."""
    if isinstance(loss, Quadratic):
        return Quadratic(matrix.T @ loss.A @ matrix, loss.b @ matrix, loss.constant)
    return _Changed(loss, matrix)


def learned_root(covariance: NDArray[np.float64], spread: float) -> NDArray[np.float64]:
    """Triangular root of a covariance without zeros, for tethers that are to leave every way free.

    Parameters
    ----------
    covariance : array of shape (n_parameters, n_parameters)
        Of the tasks; its variances may be 0.
    spread : float
        A variance that is too small to be seen, which is taken if all are 0.
    """
    largest = float(np.diagonal(covariance).max())
    least = _LEAST**2 * largest if largest > 0.0 else spread
    return np.asarray(np.linalg.cholesky(covariance + least * np.eye(len(covariance))))


def root_of(metric: ArrayLike, n_columns: int, n_scores: int) -> NDArray[np.float64]:
    """Root of a metric that users give: deviations of the columns, or their covariance."""
    given = np.asarray(metric, dtype=np.float64)
    if given.shape not in ((n_columns,), (n_columns, n_columns)):
        raise ValueError(
            f"`metric` must hold a standard deviation for each of the {n_columns} parameters (the "
            f"intercept last), or their covariance; got shape {given.shape}."
        )
    covariance = given if given.ndim == 2 else np.diag(given**2)
    try:
        symmetric = np.allclose(covariance, covariance.T)
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        symmetric = False
    if not symmetric or not np.isfinite(covariance).all():
        raise ValueError(
            "`metric` must be positive: deviations more than 0, or a symmetric, positive definite "
            "covariance. Use a small deviation for a parameter that tasks share."
        )
    return np.asarray(np.kron(root, np.eye(n_scores)))


@dataclass(frozen=True, eq=False)
class _Changed:
    """f_i(M u)."""

    inner: Loss
    matrix: NDArray[np.float64]

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    @cached_property
    def _traces(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums of second derivatives at 0, in new and old variables."""
        H, M = self.inner.hessian(np.zeros(self.shape)), self.matrix
        return np.einsum("npq,pk,qk->n", H, M, M, optimize=True), np.trace(H, axis1=1, axis2=2)

    @cached_property
    def curvature(self) -> NDArray[np.float64]:
        new, old = self._traces
        share = np.divide(new, old, out=np.ones_like(new), where=old > 0)
        return floored(self.inner.curvature * share)

    @cached_property
    def scale(self) -> float:
        new, old = self._traces
        share = np.divide(new, old, out=np.zeros_like(new), where=old > 0)
        return self.inner.scale * (float(np.sqrt(share.max())) or 1.0)

    def value(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.inner.value(thetas @ self.matrix.T)

    def gradient(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.inner.gradient(thetas @ self.matrix.T) @ self.matrix

    def hessian(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.matrix.T @ self.inner.hessian(thetas @ self.matrix.T) @ self.matrix)

    def with_ridge(self, ridge: NDArray[np.float64]) -> Loss:
        raise NotImplementedError("Add the ridge term before the change of variables.")

    def pooled(self) -> Loss:
        return replace(self, inner=self.inner.pooled())


def with_prior(loss: Loss, precision: NDArray[np.float64]) -> Loss:
    """Add one more task, whose loss ½ Σ_j precision_j θ_j² is a prior of what it is tied to."""
    none = np.zeros((1, loss.shape[1]))
    if isinstance(loss, Quadratic):
        return Quadratic(
            np.concatenate([loss.A, np.diag(precision)[np.newaxis]]),
            np.concatenate([loss.b, none]),
            np.append(loss.constant, 0.0),
        )
    return _WithPrior(loss, precision)


@dataclass(frozen=True, eq=False)
class _WithPrior:
    """Losses f_1 ... f_N, and a quadratic one."""

    inner: Loss
    precision: NDArray[np.float64]

    @property
    def shape(self) -> tuple[int, int]:
        n_tasks, n_parameters = self.inner.shape
        return n_tasks + 1, n_parameters

    @cached_property
    def curvature(self) -> NDArray[np.float64]:
        return floored(np.append(self.inner.curvature, self.precision.mean()))

    @property
    def scale(self) -> float:
        return self.inner.scale

    def value(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        own = 0.5 * np.sum(self.precision * thetas[-1] ** 2)
        return np.append(self.inner.value(thetas[:-1]), own)

    def gradient(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.vstack([self.inner.gradient(thetas[:-1]), self.precision * thetas[-1]])

    def hessian(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        H = self.inner.hessian(thetas[:-1])
        return np.concatenate([H, np.diag(self.precision)[np.newaxis]])

    def with_ridge(self, ridge: NDArray[np.float64]) -> Loss:
        return replace(self, inner=self.inner.with_ridge(ridge[:-1]))

    def pooled(self) -> Loss:
        pooled = self.inner.pooled()
        return pooled.with_ridge(self.precision[np.newaxis])
