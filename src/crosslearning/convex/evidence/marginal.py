"""The hierarchical Gaussian model with the tasks' parameters and their centre integrated out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpstrf

from crosslearning.tether import Array, Indices

AT_ONCE = 2**21  # numbers in temporary arrays
_CACHED = 2**18  # those that stay in the cache
_DETERMINED = 1e-10  # ratio of pivots from which a Cholesky factorisation is as good as eigenvalues


def chunks(n_tasks: int, n_columns: int) -> Iterator[slice]:
    """Slices of tasks whose matrices are small beside memory."""
    size = max(_CACHED // (n_columns + 1) ** 2, 1)
    return (slice(start, start + size) for start in range(0, n_tasks, size))


def responses(products: Array, root: Array) -> tuple[Array, Array]:
    """H_i = (I + LᵀA_iL)⁻¹ Lᵀ(A_i, b_i), and log det(I + LᵀA_iL).

    L H_i (-β, 1) is the posterior mean of δ_i given β. No S is inverted, so that variances of 0
    are exact; a root of shape (n_columns,) stands for a diagonal matrix, of which H_i has the rows
    that are not 0.
    """
    p = products.shape[1] - 1
    if root.ndim == 1:
        free = np.flatnonzero(root)
        scaled = root[free, None] * products[:, free]
        system = scaled[:, :, free] * root[free]
    else:
        scaled = root.T @ products[:, :p]
        system = scaled[:, :, :p] @ root
    diagonal = np.arange(system.shape[1])
    system[:, diagonal, diagonal] += 1.0
    logs = np.log(np.einsum("njj->nj", np.linalg.cholesky(system))).sum(axis=1)
    return np.asarray(np.linalg.solve(system, scaled), dtype=np.float64), 2.0 * logs


def times(rows: Array, root: Array) -> Array:
    """L times each row."""
    return np.asarray(rows * root if root.ndim == 1 else rows @ root.T)


@dataclass(frozen=True, eq=False)
class Center:
    """Posterior of the centre: mean, and covariance in units of the noise, where determined.

    `log_det` is that of its inverse; `n_flat` directions are determined by the rows alone.
    """

    beta: Array
    covariance: Array
    log_det: float
    n_flat: int

    @classmethod
    def of(cls, total: Array, precision: Array) -> Center:
        """Combine the summed information of the tasks with that of the prior.

        Precisions are all infinite (the centre is known, and 0) or all finite.
        """
        p = len(precision)
        if np.isinf(precision).any():
            return cls(np.zeros(p), np.zeros((p, p)), 0.0, 0)
        information = total[:p, :p] + np.diag(precision)
        factor, failed = dpotrf(information, lower=1)
        diagonal = np.diagonal(factor)
        if not failed and diagonal.min() ** 2 > _DETERMINED * diagonal.max() ** 2:
            lower = np.tril(dpotri(factor, lower=1)[0])
            covariance = lower + np.tril(lower, -1).T
            log_det, n_flat = 2.0 * float(np.log(diagonal).sum()), int(np.sum(precision == 0))
            return cls(covariance @ total[:p, p], covariance, log_det, n_flat)
        values, vectors = np.linalg.eigh(information)
        determined = values > p * np.finfo(np.float64).eps * values[-1]
        inverse = np.divide(1.0, values, out=np.zeros(p), where=determined)
        covariance = (vectors * inverse) @ vectors.T
        n_flat = int(np.count_nonzero(precision == 0) - np.count_nonzero(~determined))
        log_det = float(np.log(values[determined]).sum())
        return cls(covariance @ total[:p, p], covariance, log_det, n_flat)


@dataclass(frozen=True, eq=False)
class Marginal:
    """Information of each task about its centre: W_i = A_i - A_i (A_i + S⁻¹)⁻¹ A_i, and more.

    One batched solve with p × p matrices per task: O(N p³) operations, and as much memory as the
    products Z_iᵀZ_i. A root of shape (p,) is diagonal. :class:`ThinMarginal` is for few rows.
    """

    products: Array
    root: Array
    task_weights: Array

    @cached_property
    def _solved(self) -> tuple[Array, Array]:
        """Min over δ of (v - δ)ᵀ Z_iᵀZ_i (v - δ) + δᵀS⁻¹δ as a matrix, and the determinants."""
        n_tasks, width, _ = self.products.shape
        information, logs = np.empty_like(self.products), np.empty(n_tasks)
        for part in chunks(n_tasks, width - 1):
            products = self.products[part]
            H, logs[part] = responses(products, self.root)
            full = self.root.ndim > 1
            free = np.arange(width - 1) if full else np.flatnonzero(self.root)
            rest = np.negative(self.root @ H if full else self.root[free, None] * H)
            rest[:, np.arange(len(free)), free] += 1.0
            # Rows of I - LH that are those of I are not multiplied. And a sum of squares: products
            # minus what is explained would lose digits where S is large.
            quadratic = products.copy()
            quadratic[:, :, free] = 0.0
            quadratic += products[:, :, free] @ rest
            outer = rest.swapaxes(1, 2) @ quadratic[:, free]
            quadratic[:, free] = 0.0
            information[part] = quadratic + outer + H.swapaxes(1, 2) @ H
        return information, logs

    @property
    def information(self) -> Array:
        """W_i, bordered by what the targets say."""
        return self._solved[0]

    @cached_property
    def log_det(self) -> float:
        """Σ_i log det(I + A_iS)."""
        return float(self.task_weights @ self._solved[1])

    @cached_property
    def total(self) -> Array:
        """Sum over tasks."""
        return np.asarray(np.tensordot(self.task_weights, self.information, 1))

    def residuals(self, beta: Array) -> Array:
        """S⁻¹ times the posterior mean of each δ_i: the gradient of the task's squared error."""
        return np.asarray((self.information @ np.append(-beta, 1.0))[:, :-1])

    def solved(self, precision: Array) -> tuple[Center, Array]:
        """Return the posterior of the centre, and u_i where the tasks' means are β + L u_i."""
        center = Center.of(self.total, precision)
        return center, times(self.residuals(center.beta), self.root.T)

    def pulled(self, residuals: Array) -> tuple[Array, Array]:
        """Σ_i g_ij g_ik W_ijk and Σ_i g_ij W_ij, the parts of the observed curvature."""
        p = self.products.shape[1] - 1
        W = self.information[:, :p, :p]
        by_row = np.einsum("n,nj,njk->jk", self.task_weights, residuals, W)
        both = np.empty((p, p))
        for j in range(p):
            both[j] = (self.task_weights * residuals[:, j]) @ (residuals * W[:, j])
        return both, by_row

    def between(self, root: Array, group: Indices) -> Array:
        """Σ_i RᵀW_i[g]ᵀW_i[g]R by groups g of parameters, flattened; R is a root of C."""
        p = len(group)
        rows = self.information[:, :p, :p] @ root
        rows *= np.sqrt(self.task_weights)[:, None, None]
        flat = (rows[:, group == g].reshape(-1, p) for g in range(int(group.max()) + 1))
        return np.array([(block.T @ block).ravel() for block in flat])

    def parts(self, C: Array) -> Iterator[tuple[Array, Array, Array, Array]]:
        """Weights, W_i, W_i C and W_i C W_i, some tasks at a time."""
        for part in chunks(len(self.products), len(C)):
            W = self.information[part, :-1, :-1]
            shared = W @ C
            yield self.task_weights[part], W, shared, shared @ W


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
    """Tasks with fewer rows than columns, in O(N m p²) operations and with O(N m p) numbers kept.

    `factors` F_i are m rows (columns, target) whose products are those of task i, and
    Z_i = K_i^-½ F_i with K_i = I + X_i S X_iᵀ, so that W_i = Z_iᵀZ_i (Woodbury).
    """

    factors: Array

    @cached_property
    def _solved(self) -> tuple[Array, Array]:
        """Z_i, and log det K_i."""
        X = self.factors[:, :, :-1]
        scaled = X * self.root if self.root.ndim == 1 else X @ self.root
        K = scaled @ scaled.swapaxes(1, 2) + np.eye(X.shape[1])
        triangle = np.linalg.cholesky(K)
        logs = 2.0 * np.log(np.einsum("nmm->nm", triangle)).sum(axis=1)
        return np.asarray(np.linalg.solve(triangle, self.factors)), logs

    @property
    def information(self) -> Array:
        Z = self._solved[0]
        return np.asarray(Z.swapaxes(1, 2) @ Z)

    @cached_property
    def total(self) -> Array:
        weighted = self._weighted(self._solved[0])
        return np.asarray(weighted.T @ weighted)

    def residuals(self, beta: Array) -> Array:
        Z = self._solved[0]
        errors = Z @ np.append(-beta, 1.0)
        return np.asarray((errors[:, None] @ Z[:, :, :-1])[:, 0])

    def pulled(self, residuals: Array) -> tuple[Array, Array]:
        X = self._solved[0][:, :, :-1]
        scaled = self._weighted(X * residuals[:, None])
        return scaled.T @ scaled, scaled.T @ self._weighted(X)

    def between(self, root: Array, group: Indices) -> Array:
        X = self._solved[0][:, :, :-1]
        scores, moments = X @ root, []
        for g in range(int(group.max()) + 1):
            columns = X[:, :, group == g]
            inner = columns @ (columns.swapaxes(1, 2) @ scores)
            moments.append((self._weighted(scores).T @ self._weighted(inner)).ravel())
        return np.array(moments)

    def parts(self, C: Array) -> Iterator[tuple[Array, Array, Array, Array]]:
        for part in chunks(len(self.products), len(C)):
            X = self._solved[0][part, :, :-1]
            flipped, shared = X.swapaxes(1, 2), X @ C
            explained = flipped @ (shared @ flipped @ X)
            yield self.task_weights[part], flipped @ X, flipped @ shared, explained

    def _weighted(self, rows: Array) -> Array:
        """Rows of all tasks below one another, times the roots of the tasks' weights."""
        weighted = rows * np.sqrt(self.task_weights)[:, None, None]
        return weighted.reshape(-1, rows.shape[2])
