"""Distances in a metric, by a change of variables.

With θ_i = M u_i, the length of θ_i - c in the metric of Σ = M Mᵀ is the plain one of u_i - M⁻¹c.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.convex.solver.solution import ConvexSolution
from crosslearning.tether import Array

_LEAST = 1e-2  # standard deviation that stands for none, relative to the largest
_ZERO = 1e-13  # variances below this share of the largest are 0


@dataclass(frozen=True, eq=False)
class Metric:
    """Variables u = M⁻¹θ in which a covariance is the identity.

    The columns of `matrix` after the first `n_free` span the directions in which it is 0.
    """

    matrix: Array
    n_free: int

    @classmethod
    def of(cls, covariance: Array) -> Metric:
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
    def inverse(self) -> Array:
        """M⁻¹."""
        return np.asarray(np.linalg.inv(self.matrix))

    def distances(self, offsets: Array) -> Array:
        """Lengths of offsets, in the directions that have a length."""
        return np.asarray(np.linalg.norm((offsets @ self.inverse.T)[..., : self.n_free], axis=-1))

    def inside(self, iterate: ConvexSolution) -> ConvexSolution:
        """Tasks and centre in the variables u."""
        thetas, center = iterate.thetas @ self.inverse.T, self.inverse @ iterate.center
        return replace(iterate, thetas=thetas, center=center, forces=iterate.forces @ self.matrix)


def learned_root(covariance: Array, variance: float) -> Array:
    """Triangular root of a covariance, raised so that a tether leaves every direction free.

    If all variances are 0, `variance` is taken, a variance too small to be detected.
    """
    largest = float(np.diagonal(covariance).max())
    least = _LEAST**2 * largest if largest > 0.0 else variance
    return np.asarray(np.linalg.cholesky(covariance + least * np.eye(len(covariance))))


def root_of(metric: ArrayLike, n_columns: int, n_scores: int) -> Array:
    """Root of a metric that users give: deviations of the columns, or their covariance."""
    array = np.asarray(metric, dtype=np.float64)
    if array.shape not in ((n_columns,), (n_columns, n_columns)):
        raise ValueError(
            f"`metric` must hold a standard deviation for each of the {n_columns} parameters (the "
            f"intercept last), or their covariance; got shape {array.shape}."
        )
    covariance = array if array.ndim == 2 else np.diag(array**2)
    try:
        symmetric = np.allclose(covariance, covariance.T)
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        symmetric = False
    if not symmetric or not np.isfinite(covariance).all():
        raise ValueError(
            "`metric` must be positive standard deviations or a symmetric, positive definite "
            "covariance. Use a small standard deviation for a parameter that tasks share."
        )
    return np.asarray(np.kron(root, np.eye(n_scores)))
