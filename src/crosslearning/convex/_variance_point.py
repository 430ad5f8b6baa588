"""What models share that are evaluated at a covariance of the tasks: slopes and curvatures.

Legend: S is the covariance of the tasks and t the variances of the centre's coefficients, both in
units of the noise; g_i are gradients of the tasks' losses at the posterior means, W_i and P_i what
each task says about the centre and about itself (see `_marginal`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crosslearning.convex._arrays import Array, Flags, Indices
    from crosslearning.convex._marginal import Center, Marginal, Sums

_NO_INFORMATION = 1e-10  # share that rounding may leave


class VariancePoint(ABC):
    """Derivatives of the log evidence by S and t.

    Attributes
    ----------
    marginal : Marginal
        The tasks with their own parameters integrated out.
    precision : array of shape (p,)
        Prior precision of each parameter of the centre: 1 / t for coefficients.
    """

    marginal: Marginal
    precision: Array

    @property
    @abstractmethod
    def coef(self) -> Flags:
        """Parameters whose centre has a variance t."""

    @property
    @abstractmethod
    def center(self) -> Center:
        """Posterior of the centre."""

    @property
    @abstractmethod
    def noise(self) -> float:
        """σ²."""

    @property
    @abstractmethod
    def n_noise(self) -> float:
        """Degrees of freedom of the noise if it is at its best for S and t, infinite if given."""

    @cached_property
    def residuals(self) -> Array:
        """Gradients of the tasks' squared errors."""
        return self.marginal.residuals(self.center.beta)

    @cached_property
    def sums(self) -> Sums:
        """Sums over tasks of what each says about itself."""
        return self.marginal.sums(self.center)

    @property
    def informed(self) -> Flags:
        """Parameters of which tasks say more than that the centre explains it."""
        p = len(self.coef)
        own, all_of_it = np.diagonal(self.sums.linear), np.diagonal(self.marginal.total)[:p]
        return np.asarray(own > _NO_INFORMATION * all_of_it)

    @cached_property
    def slope_of_covariance(self) -> Array:
        """Derivative by the entries of S: finite where S is 0."""
        g = self.residuals
        outer = (self.marginal.task_weights[:, None] * g).T @ g
        return np.asarray(0.5 * (outer / self.noise - self.sums.linear))

    @cached_property
    def slope_of_ratio(self) -> Array:
        """Derivative by each t; 0 for parameters that have none."""
        h = self._prior
        squares = self.center.beta**2 / self.noise + np.diagonal(self.center.covariance)
        return np.asarray(0.5 * (squares * h - 1.0) * h)

    @cached_property
    def expected(self) -> Array:
        """Expected curvature by the diagonal of S and all t, with the noise at its best.

        That of each task for itself: see `between_tasks`.
        """
        return self._with_best_noise(*self._expected)

    def between_tasks(self, group: Indices) -> Array:
        """Return the expected curvature by groups that comes from the centre which tasks share."""
        everything = self.marginal.between(self.center, group)
        if not everything.any():
            return everything
        members = group[:, None] == np.arange(len(everything))
        return np.asarray(0.5 * (everything - members.T @ self.sums.explained @ members))

    @property
    def own_curvature(self) -> Array:
        """Expected curvature by each parameter with the noise as it is: positive."""
        return np.asarray(0.5 * self._expected[0])

    @cached_property
    def observed(self) -> Array:
        """Observed curvature, which need not be positive, from the average of the two."""
        average, pulls = self._average
        return self._with_best_noise(2.0 * average - self._expected[0], pulls)

    @cached_property
    def _expected(self) -> tuple[Array, Array]:
        """Twice the curvature with the noise as it is, and what it shares with log σ²."""
        prior = self._prior_information
        cross = self.sums.cross * self._prior**2
        K = np.block([[self.sums.squared, cross], [cross.T, prior**2]])
        return K, np.append(np.diagonal(self.sums.linear), np.diagonal(prior))

    @cached_property
    def _average(self) -> tuple[Array, Array]:
        """Average information, and what the observed curvature shares with log σ²."""
        pull = self.center.beta * self._prior
        both, by_row = self.marginal.pulled(self.residuals)
        shared = by_row @ self.center.covariance
        cross = shared * (pull * self._prior)
        own = self._prior_information * np.outer(pull, pull)
        K = np.block([[both - shared @ by_row.T, cross], [cross.T, own]])
        k = np.append(self.marginal.task_weights @ self.residuals**2, pull**2)
        return K / self.noise, k / self.noise

    def promise_of_full(self, free: Indices) -> float:
        """Score test of the covariances between some parameters."""
        pairs = np.ix_(free, free)
        curvature = np.maximum(self.sums.paired + self.sums.squared, np.finfo(np.float64).tiny)
        gains = self.slope_of_covariance[pairs] ** 2 / curvature[pairs]
        return float(2.0 * np.triu(gains, 1).sum())

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
