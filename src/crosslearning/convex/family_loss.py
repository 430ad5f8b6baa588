"""Minus log-likelihoods of a family's rows, as losses that the exact solver takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from crosslearning.convex.losses import floored

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crosslearning.convex._working import GLMRows

__all__ = ["FamilyLoss"]


@dataclass(frozen=True, eq=False)
class FamilyLoss:
    """f_i(θ) = -Σ_rows weight · log density + ½ Σ_j ridge_ij θ_j².

    Parameters
    ----------
    rows : GLMRows
        The rows.
    dispersion : float
        Of the family, if it has one.
    ridge : array of shape (n_tasks, n_parameters) or float
        Ridge penalties.
    """

    rows: GLMRows
    dispersion: float
    ridge: NDArray[np.float64] | float = 0.0

    @property
    def shape(self) -> tuple[int, int]:
        """Number of tasks and number of parameters."""
        return self.rows.n_tasks, self.rows.n_parameters

    @cached_property
    def _at_zero(self) -> NDArray[np.float64]:
        return self.rows.products(np.zeros(self.shape), self.dispersion)

    @cached_property
    def curvature(self) -> NDArray[np.float64]:
        """Mean second derivative at 0."""
        P = self.shape[1]
        return floored(np.trace(self._at_zero[:, :P, :P], axis1=1, axis2=2) / P)

    @cached_property
    def scale(self) -> float:
        """Size of the gradients at 0, and of the change of gradients over a unit."""
        P = self.shape[1]
        slopes = np.linalg.norm(self._at_zero[:, :P, P], axis=1)
        return float(np.maximum(slopes, self.curvature).max()) or 1.0

    def value(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        """f_i(θ_i)."""
        ridge = 0.5 * np.sum(self.ridge * thetas**2, axis=1)
        return np.asarray(ridge - self.rows.log_likelihood(thetas, self.dispersion))

    def gradient(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        """∇f_i(θ_i)."""
        return self.ridge * thetas - self.rows.slopes(thetas, self.dispersion)

    def hessian(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        """∇²f_i(θ_i)."""
        P = self.shape[1]
        H = self.rows.products(thetas, self.dispersion)[:, :P, :P].copy()
        H[:, np.arange(P), np.arange(P)] += self.ridge
        return H

    def with_ridge(self, ridge: NDArray[np.float64]) -> FamilyLoss:
        """Add a ridge term."""
        return replace(self, ridge=self.ridge + ridge)

    def pooled(self) -> FamilyLoss:
        """Return the loss of all rows as one task."""
        rows = replace(self.rows, tasks=np.zeros_like(self.rows.tasks), n_tasks=1)
        ridge = np.sum(self.ridge, axis=0, keepdims=True) if np.ndim(self.ridge) else self.ridge
        return FamilyLoss(rows, self.dispersion, ridge)
