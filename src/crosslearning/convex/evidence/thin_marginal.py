"""The marginal model where tasks have fewer rows than columns: systems of the smaller size.

Legend: `F_i` are m rows (columns, target) whose products are those of task i, and
`Z_i` = K_i^-½ F_i with K_i = I + X_i S X_iᵀ, so that W_i = Z_iᵀZ_i (Woodbury).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dpstrf

from crosslearning.convex.evidence.marginal import Marginal, chunks
from crosslearning.tether import Array, Indices


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
        Z = self._rows[0]
        return np.asarray(Z.swapaxes(1, 2) @ Z)

    @cached_property
    def log_det(self) -> float:
        return float(self.task_weights @ self._rows[1])

    @cached_property
    def total(self) -> Array:
        weighted = self._weighted(self._rows[0])
        return np.asarray(weighted.T @ weighted)

    def residuals(self, beta: Array) -> Array:
        Z = self._rows[0]
        errors = Z @ np.append(-beta, 1.0)
        return np.asarray((errors[:, None] @ Z[:, :, :-1])[:, 0])

    def pulled(self, residuals: Array) -> tuple[Array, Array]:
        X = self._rows[0][:, :, :-1]
        scaled = self._weighted(X * residuals[:, None])
        return scaled.T @ scaled, scaled.T @ self._weighted(X)

    def between(self, root: Array, group: Indices) -> Array:
        X = self._rows[0][:, :, :-1]
        scores, moments = X @ root, []
        for g in range(int(group.max()) + 1):
            columns = X[:, :, group == g]
            inner = columns @ (columns.swapaxes(1, 2) @ scores)
            moments.append((self._weighted(scores).T @ self._weighted(inner)).ravel())
        return np.array(moments)

    def parts(self, C: Array) -> Iterator[tuple[Array, Array, Array, Array]]:
        for part in chunks(len(self.products), len(C)):
            X = self._rows[0][part, :, :-1]
            flipped, shared = X.swapaxes(1, 2), X @ C
            explained = flipped @ (shared @ flipped @ X)
            yield self.task_weights[part], flipped @ X, flipped @ shared, explained

    def _weighted(self, rows: Array) -> Array:
        """Rows of all tasks below one another, times the roots of the tasks' weights."""
        weighted = rows * np.sqrt(self.task_weights)[:, None, None]
        return weighted.reshape(-1, rows.shape[2])
