"""The hierarchical Gaussian model with the parameters of tasks, groups and centre integrated out.

Tasks are units of the first level, their groups those of the next, and so on; above the last one is
the centre. A unit's parameters are θ_u = θ_parent + δ_u, with δ_u ~ N(0, σ²S) and an S of each
level. Integrating the offsets of a level out of products Z leaves the information W about the
parents; sums of W over the units of a parent are its Z.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpstrf
from scipy.sparse import csr_array

from crosslearning.convex.sums.rows import times_each
from crosslearning.tether import Array, Flags, Indices

AT_ONCE = 2**21  # numbers in temporary arrays
_CACHED = 2**16  # those that stay in the cache, with a few others of their size


def chunks(n_units: int, n_columns: int) -> Iterator[slice]:
    """Slices of units whose matrices are small beside memory."""
    size = max(_CACHED // (n_columns + 1) ** 2, 1)
    return (slice(start, start + size) for start in range(0, n_units, size))


def times(rows: Array, root: Array) -> Array:
    """L times each row; a vector stands for a diagonal matrix."""
    return np.asarray(rows * root if root.ndim == 1 else rows @ root.T)


def symmetric_root(covariance: Array) -> Array:
    """L with L Lᵀ = covariance."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def roots_of_levels(root: Array, n_parameters: int) -> list[Array]:
    """Root of each level: a full one, or diagonal ones that follow one another."""
    return [root] if root.ndim > 1 else list(root.reshape(-1, n_parameters))


def task_covariances(products: Array, root: Array, center: Array) -> tuple[Array, Array]:
    """V_i + (I - V_i A_i) C (I - V_i A_i)ᵀ, posterior covariances of the θ_i, and I - V_i A_i.

    V_i is L (I + LᵀA_iL)⁻¹ Lᵀ, and C the covariance of the centre, or of each unit's parent.
    """
    n, p = len(products), center.shape[-1]
    parents = np.broadcast_to(center, (n, p, p))
    L = np.diag(root)[:, root != 0.0] if root.ndim == 1 else root
    if not L.size:  # units are their parents
        return parents.copy(), np.tile(np.eye(p), (n, 1, 1))
    covariances, rests = np.empty((n, p, p)), np.empty((n, p, p))
    for part in chunks(n, p):
        A = products[part, :p, :p]
        V = L @ np.linalg.solve(L.T @ A @ L + np.eye(L.shape[1]), L.T)
        rests[part] = np.eye(p) - V @ A
        covariances[part] = V + rests[part] @ parents[part] @ rests[part].swapaxes(1, 2)
    return covariances, rests


@dataclass(frozen=True, eq=False)
class Center:
    """Posterior of the centre: mean, and covariance in units of the noise, where determined."""

    beta: Array
    covariance: Array
    log_det: float  # of the inverse
    n_flat: int  # directions that the rows alone determine

    @classmethod
    def of(cls, total: Array, precision: Array) -> "Center":
        """Combine tasks and prior; if precisions are infinite, all are, and the centre is 0."""
        p = len(precision)
        if np.isinf(precision).any():
            return cls(np.zeros(p), np.zeros((p, p)), 0.0, 0)
        information, flat = total[:p, :p] + np.diag(precision), precision == 0
        # Scaled, so that a narrow prior of one column does not make another look undetermined; flat
        # columns alike, so that their undetermined directions stay the same.
        unit = np.diagonal(information).copy()
        unit[flat] = flat_unit = unit[flat].max(initial=0.0) or 1.0
        values, vectors = np.linalg.eigh(information / np.sqrt(np.outer(unit, unit)))
        determined = values > p * np.finfo(np.float64).eps * values[-1]
        inverse = np.divide(1.0, values, out=np.zeros(p), where=determined)
        vectors /= np.sqrt(unit)[:, None]
        covariance = (vectors * inverse) @ vectors.T
        n_undetermined = int(np.count_nonzero(~determined))
        log_det = np.log(values[determined]).sum() + np.log(unit).sum()
        log_det = float(log_det - n_undetermined * np.log(flat_unit))
        n_flat = int(np.count_nonzero(flat)) - n_undetermined
        return cls(covariance @ total[:p, p], covariance, log_det, n_flat)


@dataclass(frozen=True, eq=False)
class Level:
    """Information of each unit about its parent: W = A - A (A + S⁻¹)⁻¹ A, bordered by targets."""

    products: Array
    root: Array

    @cached_property
    def information(self) -> Array:
        return self.solved[0]

    @cached_property
    def solved(self) -> tuple[Array, Array]:
        """Min over δ of (v - δ)ᵀ ZᵀZ (v - δ) + δᵀS⁻¹δ as a matrix, and log determinants."""
        n, p, root = len(self.products), self.products.shape[1] - 1, self.root
        information, logs = np.empty_like(self.products), np.empty(n)
        full = root.ndim > 1
        positions = np.arange(p) if full else np.flatnonzero(root)
        at = np.arange(len(positions))
        # A slice is a view; an index would be a copy whose order in memory is slow.
        free: Any = slice(p) if len(at) == p else positions
        for part in chunks(n, p):
            products = self.products[part]
            # H = (I + LᵀAL)⁻¹ Lᵀ(A, b), rows of `free` parameters; L H (-β, 1) is the mean of δ.
            # No S is inverted, so that variances of 0 are exact.
            scaled = root.T @ products[:, :p] if full else root[free, None] * products[:, free]
            system = scaled[:, :, :p] @ root if full else scaled[:, :, free] * root[free]
            system[:, at, at] += 1.0
            H = np.linalg.solve(system, scaled)
            triangle = np.linalg.cholesky(system)
            logs[part] = 2.0 * np.log(np.einsum("njj->nj", triangle)).sum(axis=1)
            rest = -root @ H if full else -root[free, None] * H
            rest[:, at, positions] += 1.0
            # Rows of I - LH that are those of I are not multiplied. A sum of squares, since
            # products minus what is explained would lose digits where S is large.
            quadratic = products.copy()
            quadratic[:, :, free] = 0.0
            quadratic += products[:, :, free] @ rest
            total = np.matmul(H.swapaxes(1, 2), H, out=information[part])
            total += rest.swapaxes(1, 2) @ quadratic[:, free]
            quadratic[:, free] = 0.0
            total += quadratic
        return information, logs

    def products_with(self, part: slice, K: Array) -> tuple[Array, Array, Array]:
        """W, W K and W K W of some units, where K is a covariance of their parents."""
        p = K.shape[-1]
        W = self.information[part, :p, :p]
        WK = W @ K
        return W, WK, WK @ W

    def between(self, root: Array, group: Indices) -> Array:
        """Σ RᵀW[g]ᵀW[g]R over units, by groups g of parameters, flattened; R is a root of K."""
        p = len(group)
        rows = self.information[:, :p, :p] @ root
        flat = (rows[:, group == g].reshape(-1, p) for g in range(int(group.max()) + 1))
        return np.array([(block.T @ block).ravel() for block in flat])


@dataclass(frozen=True, eq=False)
class ThinLevel(Level):
    """Tasks with m rows, fewer than columns, in O(N m p²) operations.

    W_i = Z_iᵀZ_i with Z_i = K_i^-½ F_i and K_i = I + X_i S X_iᵀ (Woodbury).
    """

    factors: Array  # F_i: m rows (columns X_i, target) whose products are those of task i

    @cached_property
    def solved(self) -> tuple[Array, Array]:
        """Z_i, and log det K_i."""
        X = self.factors[:, :, :-1]
        scaled = X * self.root if self.root.ndim == 1 else X @ self.root
        K = scaled @ scaled.swapaxes(1, 2) + np.eye(X.shape[1])
        triangle = np.linalg.cholesky(K)
        logs = 2.0 * np.log(np.einsum("nmm->nm", triangle)).sum(axis=1)
        return np.asarray(np.linalg.solve(triangle, self.factors)), logs

    @cached_property
    def information(self) -> Array:
        Z = self.solved[0]
        return np.asarray(Z.swapaxes(1, 2) @ Z)

    def products_with(self, part: slice, K: Array) -> tuple[Array, Array, Array]:
        X = self.solved[0][part, :, :-1]
        flipped, XK = X.swapaxes(1, 2), X @ K
        return flipped @ X, flipped @ XK, flipped @ (XK @ flipped @ X)

    def between(self, root: Array, group: Indices) -> Array:
        X = self.solved[0][:, :, :-1]
        scores, moments = X @ root, []
        flat = scores.reshape(-1, len(group))
        for g in range(int(group.max()) + 1):
            columns = X[:, :, group == g]
            inner = columns @ (columns.swapaxes(1, 2) @ scores)
            moments.append((flat.T @ inner.reshape(-1, len(group))).ravel())
        return np.array(moments)


def row_factors(products: Array, n_rows: int) -> Array:
    """At most `n_rows` rows with these products, by pivoted Cholesky: O(p m²) for each task."""
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
class Hierarchy:
    """Number of the parent of each unit, level by level from the tasks up; 0 is the centre's."""

    parents: tuple[Indices, ...]

    @classmethod
    def flat(cls, n_tasks: int) -> "Hierarchy":
        return cls((np.zeros(n_tasks, dtype=np.intp),))

    @property
    def sizes(self) -> list[int]:
        """Number of units of each level, tasks first, and of the centre."""
        return [*map(len, self.parents), 1]

    def sizes_with(self, used: Flags) -> Array:
        return np.array([np.count_nonzero(used), *self.sizes[1:-1]])

    def ancestors(self, level: int) -> Indices:
        """Return the number of each task's unit at a level."""
        unit = np.arange(self.sizes[0])
        for parent in self.parents[:level]:
            unit = parent[unit]
        return unit


@dataclass(eq=False)
class Marginal:
    """Posterior of centre and units, given a root of S of each level, tasks first.

    Everything is in units of the noise. The `information` W of the units of a level adds up to the
    products of the level above, and in the end to the `total`.
    """

    products: Array
    hierarchy: Hierarchy
    roots: Sequence[Array] | Array
    precision: Array  # of the centre's prior
    shares: tuple[Array, ...] | None = None  # of S that units may have
    factors: Array | None = None  # of tasks with few rows

    def __post_init__(self) -> None:
        self.levels: list[Level] = []
        self.information: list[Array] = []
        products, self.log_det = self.products, 0.0  # of I + A S, all units
        for number, root in enumerate(self.roots):
            if self.shares is None:
                level = Level(products, root)
                if number == 0 and self.factors is not None:
                    level = ThinLevel(products, root, self.factors)
                self.information.append(level.information)
            else:  # in units in which all have the same S
                scale = np.ones((len(products), products.shape[1]))
                scale[:, :-1] = np.sqrt(self.shares[number])[:, None]
                unit = scale[:, :, None] * scale[:, None]
                level = Level(products * unit, root)
                self.information.append(level.information / unit)
            self.levels.append(level)
            self.log_det += float(level.solved[1].sum())
            products = self.summed(number, self.information[-1])
        self.total = np.asarray(products[0])
        self.center = Center.of(self.total, self.precision)

    def summed(self, level: int, values: Array) -> Array:
        parents, n = self.hierarchy.parents[level], self.hierarchy.sizes[level + 1]
        if n == 1:
            return np.asarray(values.sum(axis=0, keepdims=True))
        ones = np.ones(len(parents))
        adding = csr_array((ones, (parents, np.arange(len(parents)))), (n, len(parents)))
        flat = np.asarray(adding @ values.reshape(len(values), -1))
        return flat.reshape(-1, *values.shape[1:])

    def _covaried(self, level: int, rows: Array) -> Array:
        root = self.roots[level]
        result = times(times(rows, root.T), root)
        return result if self.shares is None else self.shares[level][:, None] * result

    @cached_property
    def _down(self) -> tuple[list[Array], list[Array]]:
        residuals: list[Array] = []
        means = [self.center.beta[None]]
        for level in range(len(self.roots) - 1, -1, -1):
            parent = means[0][self.hierarchy.parents[level]]
            signed = np.column_stack([-parent, np.ones(len(parent))])
            residuals.insert(0, times_each(self.information[level], signed)[:, :-1])
            means.insert(0, parent + self._covaried(level, residuals[0]))
        return means, residuals

    @property
    def means(self) -> list[Array]:
        """Posterior means (units, parameters) of each level and, last, of the centre."""
        return self._down[0]

    @property
    def residuals(self) -> list[Array]:
        """S⁻¹ times the posterior mean of the offsets: gradients of the tasks' squared errors."""
        return self._down[1]

    @cached_property
    def group_posteriors(self) -> list[tuple[Array, Array]]:
        """Covariances, and I - V A, of the groups of each level and, last, of the centre."""
        center = self.center.covariance[None]
        posteriors = [(center, np.eye(center.shape[1])[None])]
        for level in range(len(self.roots) - 1, 0, -1):
            above = posteriors[0][0][self.hierarchy.parents[level]]
            products = self.levels[level].products
            posteriors.insert(0, task_covariances(products, self.roots[level], above))
        return posteriors

    @cached_property
    def task_posteriors(self) -> tuple[Array, Array]:
        """Posterior covariances of the tasks' parameters, and I - V A."""
        return task_covariances(self.products, self.roots[0], self.parent_covariances(0))

    def parent_covariances(self, level: int, part: slice = slice(None)) -> Array:
        """Posterior covariances of the parents of some units; one matrix if there is one parent."""
        covariances = self.group_posteriors[level][0]
        one = len(covariances) == 1
        return covariances[0] if one else covariances[self.hierarchy.parents[level][part]]

    def average_information(self, vectors: Callable[[slice], Array], n_vectors: int) -> Array:
        """uᵀXᵀPXu, where P is the inverse of the covariance of all targets; u: (tasks, p, n)."""
        p, parents, n = len(self.precision), self.hierarchy.parents[0], self.hierarchy.sizes[1]
        D, B = np.zeros((n, n_vectors, n_vectors)), np.zeros((n, p, n_vectors))
        for part in chunks(len(self.products), p):
            u = vectors(part)
            pull = self.information[0][part, :p, :p] @ u
            for total, added in ((D, u.swapaxes(1, 2) @ pull), (B, pull)):
                if n == 1:
                    total[0] += added.sum(axis=0)
                else:
                    np.add.at(total, parents[part], added)
        for level in range(1, len(self.roots)):
            R = self.group_posteriors[level - 1][1]
            V = R * self.roots[level] ** 2  # S - S W S
            D = self.summed(level, D - B.swapaxes(1, 2) @ V @ B)
            B = self.summed(level, R.swapaxes(1, 2) @ B)
        return np.asarray(D[0] - B[0].T @ self.center.covariance @ B[0])

    def response(self, push: Array) -> tuple[list[Array], Array]:
        """How residuals of each level and the centre move when the tasks' parameters are pushed."""
        pushes, posteriors = [], [self.task_posteriors, *self.group_posteriors]
        for level in range(len(self.roots)):
            pushes.append(np.einsum("njk,nj->nk", posteriors[level][1], push))
            push = self.summed(level, pushes[-1])
        beta = self.center.covariance @ push[0]
        parent, p = beta[None], len(beta)
        moved: list[Array] = []
        for level in range(len(self.roots) - 1, -1, -1):
            parent = parent[self.hierarchy.parents[level]]
            W = self.information[level][:, :p, :p]
            moved.insert(0, pushes[level] - times_each(W, parent))
            parent = parent + self._covaried(level, moved[0])
        return moved, beta
