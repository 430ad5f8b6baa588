"""The marginal model where tasks have fewer rows than columns: systems of the smaller size.

Legend: `F_i` are m rows (columns, target) whose products are those of task i, and
`Z_i` = K_i^-½ F_i with K_i = I + X_i S X_iᵀ, so that W_i = Z_iᵀZ_i (Woodbury).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.lapack import dpstrf

from crosslearning.convex._marginal import AT_ONCE, MANY, Marginal, Sums, chunks

if TYPE_CHECKING:
    from crosslearning.convex._arrays import Array, Indices
    from crosslearning.convex._marginal import Center


def row_factors(products: Array, n_rows: int) -> Array:
    """At most `n_rows` rows with the given products, by a pivoted Cholesky factorisation.

    O(p m²) operations for each task, where a factorisation of all columns takes O(p³).
    """
    factors = np.zeros((len(products), n_rows, products.shape[1]))
    for factor, product in zip(factors, products, strict=True):
        unit = np.sqrt(np.diagonal(product))
        unit[unit == 0.0] = 1.0
        triangle, pivots, rank, _ = dpstrf(product / np.outer(unit, unit), lower=0)
        rank = min(rank, n_rows)
        factor[:rank, pivots - 1] = np.triu(triangle)[:rank]
        factor *= unit
    return factors


@dataclass(frozen=True, eq=False)
class ThinMarginal(Marginal):
    """As :class:`Marginal`, in O(N m p²) operations and with O(N m p) numbers kept."""

    factors: Array

    @cached_property
    def _rows(self) -> tuple[Array, Array]:
        """Z_i, and log det K_i."""
        X = self.factors[:, :, :-1]
        scaled = X * self.root if self.root.ndim == 1 else X @ self.root
        K = scaled @ scaled.swapaxes(1, 2) + np.eye(X.shape[1])
        triangle = np.linalg.cholesky(K)
        logs = 2.0 * np.log(np.einsum("nmm->nm", triangle)).sum(axis=1)
        return np.asarray(np.linalg.solve(triangle, self.factors)), logs

    @property
    def information(self) -> Array:
        """W_i, bordered by what the targets say."""
        Z = self._rows[0]
        return np.asarray(Z.swapaxes(1, 2) @ Z)

    @cached_property
    def log_det(self) -> float:
        """Σ_i log det(I + A_iS)."""
        return float(self.task_weights @ self._rows[1])

    @cached_property
    def total(self) -> Array:
        """Sum over tasks."""
        weighted = self._weighted(self._rows[0])
        return np.asarray(weighted.T @ weighted)

    def residuals(self, beta: Array) -> Array:
        """S⁻¹ times the posterior mean of each δ_i."""
        Z = self._rows[0]
        errors = Z @ np.append(-beta, 1.0)
        return np.asarray((errors[:, None] @ Z[:, :, :-1])[:, 0])

    def pulled(self, residuals: Array) -> tuple[Array, Array]:
        """Σ_i g_ij g_ik W_ijk and Σ_i g_ij W_ij."""
        X = self._rows[0][:, :, :-1]
        scaled = self._weighted(X * residuals[:, None])
        return scaled.T @ scaled, scaled.T @ self._weighted(X)

    def between(self, center: Center, group: Indices) -> Array:
        """Sum the squares of W_i C W_l over all pairs of tasks, by groups of parameters."""
        n_groups, p = int(group.max()) + 1, len(group)
        if len(self.products) > MANY or n_groups * p**2 > AT_ONCE:
            return np.zeros((n_groups, n_groups))
        X = self._rows[0][:, :, :-1]
        values, vectors = np.linalg.eigh(center.covariance)
        spread = X @ (vectors * np.sqrt(np.maximum(values, 0.0)))
        moments = np.empty((n_groups, p * p))
        for g in range(n_groups):
            own = X[:, :, group == g]
            inner = own @ (own.swapaxes(1, 2) @ spread)
            moments[g] = (self._weighted(spread).T @ self._weighted(inner)).ravel()
        return np.asarray(moments @ moments.T)

    def sums(self, center: Center) -> Sums:
        """Sum P_i and W_i C W_i over tasks, in several ways."""
        p = self.products.shape[1] - 1
        sums = Sums.zeros(p)
        for part in chunks(len(self.products), p):
            X = self._rows[0][part, :, :-1]
            shared = X @ center.covariance
            inner = shared @ X.swapaxes(1, 2)
            explained = X.swapaxes(1, 2) @ (inner @ X)
            P = X.swapaxes(1, 2) @ X - explained
            sums.add(self.task_weights[part], P, explained, X.swapaxes(1, 2) @ shared)
        return sums

    def _weighted(self, rows: Array) -> Array:
        """Rows of all tasks below one another, times the roots of the tasks' weights."""
        weighted = rows * np.sqrt(self.task_weights)[:, None, None]
        return weighted.reshape(-1, rows.shape[2])
