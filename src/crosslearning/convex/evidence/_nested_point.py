"""The evidence of groups within groups as a function of variances: value, slope and curvatures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from crosslearning.convex.evidence.hierarchy import Hierarchy, NestedMarginal
from crosslearning.convex.evidence.marginal import chunks
from crosslearning.tether import Array, Flags, Indices


@dataclass(eq=False, kw_only=True)
class NestedData(ABC):
    """Products of the tasks, and where they belong.

    The centre of `flat` parameters has no variance to learn, but this precision.
    """

    products: Array
    task_weights: Array
    hierarchy: Hierarchy
    flat: Flags
    flat_precision: float = 0.0

    @abstractmethod
    def value(self, marginal: NestedMarginal) -> tuple[float, float, float]:
        """Log evidence, variance of the noise, and its degrees of freedom if it is at its best."""

    def marginal(self, variances: Array, ratio: Array) -> NestedMarginal:
        """Evaluate at S of each level (levels, parameters) and t of the centre."""
        precision = np.where(self.flat, self.flat_precision, np.divide(1.0, ratio))
        return NestedMarginal(
            self.products, self.task_weights, self.hierarchy, variances, precision
        )


@dataclass(frozen=True, eq=False)
class NestedPoint:
    """As `Structured`, with variances of every level and then of the centre.

    `group` holds the number of each parameter's variance, level by level, then that of its t.
    """

    variances: Array
    fixed: Flags
    group: Indices
    data: NestedData

    @cached_property
    def marginal(self) -> NestedMarginal:
        p = len(self.data.flat)
        each = self.variances[self.group]
        return self.data.marginal(each[:-p].reshape(-1, p), each[-p:])

    @cached_property
    def _value(self) -> tuple[float, float, float]:
        return self.data.value(self.marginal)

    @property
    def value(self) -> float:
        return self._value[0]

    @property
    def noise(self) -> float:
        return self._value[1]

    @property
    def n_noise(self) -> float:
        return self._value[2]

    @cached_property
    def slope(self) -> Array:
        """Derivatives by the variances; a second target is a push, whose work is subtracted."""
        slopes = []
        pairs = zip(
            self.marginal.residuals, self.marginal.weights, self._unit_information, strict=True
        )
        for residuals, weights, (information, _) in pairs:
            g, *pushed = np.moveaxis(residuals, -1, 0)
            slope = 0.5 * (weights @ g**2 / self.noise - np.diagonal(information))
            slopes.append(slope + sum(weights @ (g * push) for push in pushed))
        beta, *moved = self.marginal.means[-1][0].T
        h, C = self._prior, np.diagonal(self.marginal.center.covariance)
        by_ratio = 0.5 * ((beta**2 / self.noise + C) * h - 1.0) * h
        slopes.append(by_ratio + sum(h**2 * beta * push for push in moved))
        slope = np.bincount(self.group, np.concatenate(slopes), len(self.variances))
        return np.where(self.fixed, 0.0, slope)

    @cached_property
    def unit(self) -> Array:
        """Inverse of the distance by which a variance has to move to matter."""
        units = np.concatenate([np.diagonal(squares) for _, squares in self._unit_information])
        prior = np.diagonal(self._prior_information) ** 2
        grouped = np.bincount(self.group, 0.5 * np.append(units, prior), len(self.variances))
        unit = np.sqrt(np.maximum(grouped, np.finfo(np.float64).tiny))
        return np.where(self.fixed, 1.0, unit)

    @cached_property
    def expected(self) -> Array:
        """Expected curvature: of each unit for itself and with its parent."""
        p, n_levels = len(self.data.flat), len(self.marginal.variances)
        K = np.zeros(((n_levels + 1) * p, (n_levels + 1) * p))
        for level, (_, squares) in enumerate(self._unit_information):
            at, above = (slice(k * p, (k + 1) * p) for k in (level, level + 1))
            K[at, at] = squares
            K[at, above] = self._with_parent(level)
            K[above, at] = K[at, above].T
        K[-p:, -p:] = self._prior_information**2
        k = np.append(
            np.concatenate([np.diagonal(linear) for linear, _ in self._unit_information]),
            np.diagonal(self._prior_information),
        )
        members = np.eye(len(self.variances))[self.group]
        return self._curvature(members.T @ K @ members, k @ members)

    @cached_property
    def observed(self) -> Array:
        """Average of observed and expected curvature (AI-REML)."""
        p, marginal = len(self.data.flat), self.marginal
        numbers = self.group.reshape(-1, p)
        vectors = np.zeros((len(marginal.products), p, len(self.variances)))
        j, squares = np.arange(p), np.zeros(len(self.variances))
        for level, residuals in enumerate(marginal.residuals):
            g = residuals[:, :, 0]
            vectors[:, j, numbers[level]] = g[marginal.hierarchy.ancestors(level)]
            squares += np.bincount(numbers[level], marginal.weights[level] @ g**2, len(squares))
        pull = marginal.center.beta * self._prior
        vectors[:, j, numbers[-1]] = pull
        squares += np.bincount(numbers[-1], pull**2, len(squares))
        information = marginal.average_information(vectors)
        return self._curvature(information / self.noise, squares / self.noise)

    def informed(self, level: int) -> Array:
        """Share of what tasks say about each parameter that is about the units of a level."""
        p = len(self.data.flat)
        about, in_all = (
            np.diagonal(self._unit_information[level][0]),
            np.diagonal(self.marginal.total)[:p],
        )
        return np.divide(about, in_all, out=np.zeros(p), where=in_all > 0)

    @cached_property
    def _unit_information(self) -> list[tuple[Array, Array]]:
        """Σ P and Σ P∘P over the units of each level, P = W - W K W with K of the parent."""
        p, sums = len(self.data.flat), []
        for level, parents in enumerate(self.data.hierarchy.parents):
            linear, squared = np.zeros((p, p)), np.zeros((p, p))
            for part in chunks(len(parents), p):
                W = self.marginal.information[level][part, :p, :p]
                P = W - W @ self.marginal.covariances[level + 1][parents[part]] @ W
                weights = self.marginal.weights[level][part]
                linear += np.tensordot(weights, P, 1)
                squared += np.einsum("n,njk,njk->jk", weights, P, P)
            sums.append((linear, squared))
        return sums

    def _with_parent(self, level: int) -> Array:
        """Σ (W (I - K Z))∘² over units, with K and Z of the parent: what both levels share."""
        p, marginal = len(self.data.flat), self.marginal
        K = marginal.covariances[level + 1]
        if level + 1 < len(marginal.variances):
            rest = np.eye(p) - K @ marginal.level_products(level + 1)[:, :p, :p]
        else:
            rest = K * self._prior
        shared = np.zeros((p, p))
        for part in chunks(len(self.data.hierarchy.parents[level]), p):
            parents = self.data.hierarchy.parents[level][part]
            both = marginal.information[level][part, :p, :p] @ rest[parents]
            shared += np.einsum("n,njk,njk->jk", marginal.weights[level][part], both, both)
        return shared

    @property
    def _prior(self) -> Array:
        return np.where(self.data.flat, 0.0, self.marginal.precision)

    @property
    def _prior_information(self) -> Array:
        h = self._prior
        return np.asarray(np.diag(h) - self.marginal.center.covariance * np.outer(h, h))

    def _curvature(self, K: Array, k: Array) -> Array:
        """Curvature with the noise at its best; 1 where nothing may move."""
        curvature = 0.5 * (K - np.outer(k, k) / self.n_noise)
        fixed = self.fixed[:, None] | self.fixed
        return np.where(fixed, np.diag(self.fixed.astype(np.float64)), curvature)
