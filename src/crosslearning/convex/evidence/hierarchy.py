"""Groups within groups: the posterior at given variances, by one operation per level.

Tasks are units of the first level, their groups those of the next, and so on; above the last one
is the centre. A unit's parameters are its parent's plus an offset: θ_u = θ_parent + δ_u, with
δ_u ~ N(0, σ²S) and a diagonal S of each level. Integrating the offsets of a level out of products Z
leaves the information W about the parents, and sums of W over the units of a parent are its Z.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from crosslearning.convex.evidence.marginal import Center, Marginal
from crosslearning.tether import Array, Indices


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """Number of the parent of each unit, level by level from the tasks up; 0 is the centre's."""

    parents: tuple[Indices, ...]

    @property
    def sizes(self) -> list[int]:
        """Number of units of each level, tasks first."""
        return [len(parent) for parent in self.parents]

    @cached_property
    def _adding(self) -> list[csr_array]:
        sizes = [*self.sizes[1:], 1]
        return [
            csr_array((np.ones(len(parent)), (parent, np.arange(len(parent)))), (n, len(parent)))
            for parent, n in zip(self.parents, sizes, strict=True)
        ]

    def summed(self, level: int, values: Array) -> Array:
        """Sum over the units of each parent."""
        flat = self._adding[level] @ values.reshape(len(values), -1)
        return np.asarray(flat.reshape(-1, *values.shape[1:]))

    def ancestors(self, level: int) -> Indices:
        """Return the number of each task's unit at a level."""
        unit = np.arange(self.sizes[0])
        for parent in self.parents[:level]:
            unit = parent[unit]
        return unit


@dataclass(frozen=True, eq=False)
class NestedMarginal:
    """Posterior of centre and units, given the variances S of each level, tasks first.

    `products` have the parameters first, then one or more targets; sums over tasks count each by
    its weight. Everything is in units of the noise; `precision` is that of the centre's prior.
    """

    products: Array
    task_weights: Array
    hierarchy: Hierarchy
    variances: Array  # (levels, parameters)
    precision: Array
    shares: tuple[Array, ...] | None = None  # of these that units have, all by default

    def _of_units(self, level: int) -> Array:
        """Variances of the units of a level, (units or 1, parameters)."""
        if self.shares is None:
            return np.asarray(self.variances[level][None])
        return np.asarray(self.shares[level][:, None] * self.variances[level])

    @cached_property
    def weights(self) -> list[Array]:
        """Weights of the units of each level."""
        return [self.task_weights, *(np.ones(n) for n in self.hierarchy.sizes[1:])]

    @cached_property
    def _up(self) -> tuple[list[Array], list[Array], float]:
        """Products and information of each level, and the sum of the log determinants."""
        products, levels, information, log_det = self.products, [], [], 0.0
        for level, (weights, variances) in enumerate(
            zip(self.weights, self.variances, strict=True)
        ):
            unit = self._units_of_products(level)
            marginal = Marginal(products * unit, np.sqrt(variances), weights)
            levels.append(products)
            information.append(marginal.information / unit)
            log_det += marginal.log_det
            products = self.hierarchy.summed(level, weights[:, None, None] * information[-1])
        return [*levels, products], information, log_det

    def _units_of_products(self, level: int) -> Array | float:
        """Scale of products in which the units of a level have the same variances."""
        if self.shares is None:
            return 1.0
        scale = np.ones((len(self.shares[level]), self.products.shape[1]))
        scale[:, : len(self.precision)] = np.sqrt(self.shares[level])[:, None]
        return np.asarray(scale[:, :, None] * scale[:, None])

    def level_products(self, level: int) -> Array:
        """Products of the units of a level: sums of the information of the level below."""
        return self._up[0][level]

    @property
    def information(self) -> list[Array]:
        """W of the units of each level, bordered by what the targets say."""
        return self._up[1]

    @property
    def log_det(self) -> float:
        """Sum of log det(I + Z S) over all units."""
        return self._up[2]

    @property
    def total(self) -> Array:
        """Sum of the information of the last level."""
        return np.asarray(self._up[0][-1][0])

    @cached_property
    def center(self) -> Center:
        """Posterior of the centre, from the first target."""
        p = len(self.precision)
        return Center.of(self.total[: p + 1, : p + 1], self.precision)

    @cached_property
    def _down(self) -> tuple[list[Array], list[Array]]:
        p = len(self.precision)
        residuals: list[Array] = []
        means = [(self.center.covariance @ self.total[:p, p:])[None]]
        for level in range(len(self.variances) - 1, -1, -1):
            parent, W = means[0][self.hierarchy.parents[level]], self.information[level][:, :p]
            residuals.insert(0, W[:, :, p:] - W[:, :, :p] @ parent)
            means.insert(0, parent + self._of_units(level)[:, :, None] * residuals[0])
        return means, residuals

    @property
    def means(self) -> list[Array]:
        """Posterior means (units, parameters, targets) of each level and, last, of the centre."""
        return self._down[0]

    @property
    def residuals(self) -> list[Array]:
        """S⁻¹ times the posterior mean of the offsets, (units, parameters, targets)."""
        return self._down[1]

    @cached_property
    def gains(self) -> list[Array]:
        """I - S W of each unit: how much it follows its parent."""
        p = len(self.precision)
        return [
            np.eye(p) - self._of_units(level)[:, :, None] * W[:, :p, :p]
            for level, W in enumerate(self.information)
        ]

    @cached_property
    def covariances(self) -> list[Array]:
        """Posterior covariances of the units of each level and, last, of the centre."""
        covariances = [self.center.covariance[None]]
        for level in range(len(self.variances) - 1, -1, -1):
            R, parent = self.gains[level], covariances[0][self.hierarchy.parents[level]]
            apart = R * self._of_units(level)[:, None]  # V = S - S W S
            covariances.insert(0, apart + R @ parent @ R.swapaxes(1, 2))
        return covariances

    def average_information(self, vectors: Array) -> Array:
        """Return uᵀXᵀPXu for vectors u of each task, (tasks, parameters, vectors).

        P is the inverse of the covariance of all targets, centre and its prior included.
        """
        p = len(self.precision)
        W = self.information[0][:, :p, :p]
        weights = self.task_weights[:, None, None]
        B = W @ vectors
        D = self.hierarchy.summed(0, weights * (vectors.swapaxes(1, 2) @ B))
        B = self.hierarchy.summed(0, weights * B)
        for level in range(1, len(self.variances)):
            R = self.gains[level]
            D = self.hierarchy.summed(level, D - B.swapaxes(1, 2) @ (R * self.variances[level]) @ B)
            B = self.hierarchy.summed(level, R.swapaxes(1, 2) @ B)
        return np.asarray(D[0] - B[0].T @ self.center.covariance @ B[0])
