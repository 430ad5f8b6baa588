"""A model evaluated at variances: log evidence, slopes and curvatures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from crosslearning.convex.evidence.marginal import AT_ONCE, Center, Marginal, times
from crosslearning.convex.evidence.posterior import symmetric_root
from crosslearning.tether import Array, Flags, Indices

NO_INFORMATION = 1e-10  # share that rounding may leave
_MANY = 1000  # tasks whose common uncertainty about the centre is of no account


class Sums(NamedTuple):
    """Sums over tasks: of P_i, its entries squared, those of W_i C W_i, and more.

    The last two are products of the diagonal of P_i, and squares of the entries of W_i C.
    """

    linear: Array
    squared: Array
    explained: Array
    paired: Array
    cross: Array


@dataclass(frozen=True, eq=False, kw_only=True)
class EvidencePoint(ABC):
    """Log evidence and its derivatives by S of each level, tasks first, and by t of the centre.

    `precision` is that of the prior of each parameter of the centre, 1 / t where `coef`; `noise`
    is σ², and `n_noise` its degrees of freedom if it is at its best for S and t, else infinite.
    Curvatures are summed over groups of variances: `group` holds the number of each parameter's
    variance of every level, and in the last row that of its t.
    """

    precision: Array
    coef: Flags
    center: Center
    noise: float
    n_noise: float
    value: float

    @property
    @abstractmethod
    def slope_of_variances(self) -> Array:
        """Derivative by the diagonals of S, level by level."""

    @cached_property
    def slope_of_ratio(self) -> Array:
        """Derivative by each t; 0 for parameters that have none."""
        h = self._prior
        squares = self.center.beta**2 / self.noise + np.diagonal(self.center.covariance)
        return np.asarray(0.5 * (squares * h - 1.0) * h)

    @property
    @abstractmethod
    def informed(self) -> Flags:
        """Parameters of which units say more than that their parents explain it, by level."""

    @property
    @abstractmethod
    def expected_parts(self) -> tuple[Array, Array]:
        """Twice the expected curvature with the noise as it is, and what it shares with log σ²."""

    def expected(self, group: Indices) -> Array:
        """Return the expected curvature of each unit for itself, with the noise at its best."""
        K, k = self.expected_parts
        return self._with_best_noise(grouped(K, group), k @ members(group))

    @abstractmethod
    def observed(self, group: Indices) -> Array:
        """Return a curvature near the observed one, which need not be positive; as `expected`."""

    def between(self, group: Indices) -> Array:
        """Return the expected curvature that comes from the centre which units share."""
        n = int(group.max()) + 1
        return np.zeros((n, n))

    @property
    def _prior(self) -> Array:
        """1 / t of coefficients, else 0."""
        return np.where(self.coef, self.precision, 0.0)

    @property
    def _prior_information(self) -> Array:
        h = self._prior
        return np.asarray(np.diag(h) - self.center.covariance * np.outer(h, h))

    def _with_best_noise(self, K: Array, k: Array) -> Array:
        return np.asarray(0.5 * (K - np.outer(k, k) / self.n_noise))


def members(group: Indices) -> Array:
    """Matrix of ones where a parameter (row) belongs to a group (column)."""
    return np.eye(int(group.max()) + 1)[group.ravel()]


def grouped(K: Array, group: Indices) -> Array:
    """Sum rows and columns by the numbers of their groups."""
    return np.asarray(members(group).T @ K @ members(group))


@dataclass(frozen=True, eq=False, kw_only=True)
class VariancePoint(EvidencePoint):
    """Tasks of one level, whose covariance may be full.

    `dispersion` is σ² too, unless the products are in units of it.
    """

    marginal: Marginal
    dispersion: float

    @property
    def beta(self) -> Array:
        return self.center.beta

    @property
    def thetas(self) -> Array:
        root = self.marginal.root
        return self.center.beta + times(times(self.residuals, root.T), root)

    @cached_property
    def residuals(self) -> Array:
        """Gradients of the tasks' squared errors."""
        return self.marginal.residuals(self.center.beta)

    @cached_property
    def sums(self) -> Sums:
        """Sum P_i = W_i - W_i C W_i over tasks, its squares, and what they share with t.

        P_i is what task i says about its own δ_i when the centre is not known.
        """
        p = len(self.coef)
        sums = Sums(*np.zeros((5, p, p)))
        for weights, W, shared, explained in self.marginal.parts(self.center.covariance):
            P = W - explained
            diagonals = np.einsum("njj->nj", P)
            sums.linear[:] += np.tensordot(weights, P, 1)
            sums.paired[:] += (weights[:, None] * diagonals).T @ diagonals
            pairs = (sums.squared, P), (sums.explained, explained), (sums.cross, shared)
            for total, each in pairs:
                total[:] += np.einsum("n,njk,njk->jk", weights, each, each)
        return sums

    @property
    def informed(self) -> Flags:
        about_tasks, in_all = np.diagonal(self.sums.linear), np.diagonal(self.marginal.total)
        return np.asarray(about_tasks > NO_INFORMATION * in_all[: len(about_tasks)])

    @cached_property
    def slope_of_covariance(self) -> Array:
        """Derivative by the entries of S: finite where S is 0."""
        g = self.residuals
        outer = (self.marginal.task_weights[:, None] * g).T @ g
        return np.asarray(0.5 * (outer / self.noise - self.sums.linear))

    @property
    def slope_of_variances(self) -> Array:
        return np.diagonal(self.slope_of_covariance)

    @cached_property
    def expected_parts(self) -> tuple[Array, Array]:
        prior = self._prior_information
        cross = self.sums.cross * self._prior**2
        K = np.block([[self.sums.squared, cross], [cross.T, prior**2]])
        return K, np.append(np.diagonal(self.sums.linear), np.diagonal(prior))

    def observed(self, group: Indices) -> Array:
        average, pulls = self._average
        K = grouped(2.0 * average - self.expected_parts[0], group)
        return self._with_best_noise(K, pulls @ members(group))

    def between(self, group: Indices) -> Array:
        # Of no account where tasks are many, and costly where groups are.
        n, p, between = int(group[0].max()) + 1, group.shape[1], super().between(group)
        if len(self.marginal.products) <= _MANY and n * p**2 <= AT_ONCE:
            moments = self.marginal.between(symmetric_root(self.center.covariance), group[0])
            explained = grouped(self.sums.explained, group[0])
            between[:n, :n] = 0.5 * (moments @ moments.T - explained)
        return between

    @cached_property
    def _average(self) -> tuple[Array, Array]:
        """Average information, and what the observed curvature shares with log σ²."""
        pull = self.center.beta * self._prior
        both, by_row = self.marginal.pulled(self.residuals)
        shared = by_row @ self.center.covariance
        cross = shared * (pull * self._prior)
        by_prior = self._prior_information * np.outer(pull, pull)
        K = np.block([[both - shared @ by_row.T, cross], [cross.T, by_prior]])
        k = np.append(self.marginal.task_weights @ self.residuals**2, pull**2)
        return K / self.noise, k / self.noise

    def promise_of_full(self, free: Indices) -> float:
        """Score test of the covariances between some parameters: gain in log evidence."""
        pairs = np.ix_(free, free)
        curvature = np.maximum(self.sums.paired + self.sums.squared, np.finfo(np.float64).tiny)
        gains = self.slope_of_covariance[pairs] ** 2 / curvature[pairs]
        return float(2.0 * np.triu(gains, 1).sum())
