"""What models share that are evaluated at a covariance of the tasks: slopes and curvatures.

Legend: S is the covariance of the tasks and t the variance of the centre's coefficients, both in
units of the noise; g_i are gradients of the tasks' losses at the posterior means, W_i and P_i what
each task says about the centre and about itself (see `_marginal`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crosslearning.convex._marginal import Center, Marginal, Sums

__all__ = ["VariancePoint"]

_NO_INFORMATION = 1e-10  # share that rounding may leave


class VariancePoint(ABC):
    """Derivatives of the log evidence by S and t.

    Attributes
    ----------
    marginal : Marginal
        The tasks with their own parameters integrated out.
    ratio : float
        t.
    """

    marginal: Marginal
    ratio: float

    @property
    @abstractmethod
    def coef(self) -> NDArray[np.bool_]:
        """Parameters whose centre has the variance t."""

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
    def residuals(self) -> NDArray[np.float64]:
        """Gradients of the tasks' squared errors."""
        return self.marginal.residuals(self.center.beta)

    @cached_property
    def sums(self) -> Sums:
        """Sums over tasks of what each says about itself."""
        return self.marginal.sums(self.center, self.coef)

    @property
    def informed(self) -> NDArray[np.bool_]:
        """Parameters of which tasks say more than that the centre explains it."""
        p = len(self.coef)
        own, all_of_it = np.diagonal(self.sums.linear), np.diagonal(self.marginal.total)[:p]
        return np.asarray(own > _NO_INFORMATION * all_of_it)

    @cached_property
    def slope_of_covariance(self) -> NDArray[np.float64]:
        """Derivative by the entries of S: finite where S is 0."""
        g = self.residuals
        outer = (self.marginal.task_weights[:, None] * g).T @ g
        return np.asarray(0.5 * (outer / self.noise - self.sums.linear))

    @cached_property
    def slope_of_ratio(self) -> float:
        """Derivative by t."""
        coef = self.coef
        beta = self.center.beta[coef]
        squares = beta @ beta / self.noise + np.diagonal(self.center.covariance)[coef].sum()
        return float(0.5 * (squares / self.ratio - len(beta)) / self.ratio)

    @cached_property
    def expected(self) -> NDArray[np.float64]:
        """Expected curvature by the diagonal of S and t, with the noise at its best.

        That of each task for itself: see `between_tasks`.
        """
        return self._with_best_noise(*self._expected)

    def between_tasks(self, group: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the expected curvature by groups that comes from the centre which tasks share."""
        everything = self.marginal.between(self.center, group)
        if not everything.any():
            return everything
        members = group[:, None] == np.arange(len(everything))
        return np.asarray(0.5 * (everything - members.T @ self.sums.explained @ members))

    @property
    def own_curvature(self) -> NDArray[np.float64]:
        """Expected curvature by each parameter with the noise as it is: positive."""
        return np.asarray(0.5 * self._expected[0])

    @cached_property
    def observed(self) -> NDArray[np.float64]:
        """Observed curvature, which need not be positive, from the average of the two."""
        average, pulls = self._average
        return self._with_best_noise(2.0 * average - self._expected[0], pulls)

    @cached_property
    def _expected(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Twice the curvature with the noise as it is, and what it shares with log σ²."""
        t, prior = self.ratio, self._prior_information
        cross = self.sums.cross / t**2
        K = np.block([[self.sums.squared, cross[:, None]], [cross, np.sum(prior**2)]])
        return K, np.append(np.diagonal(self.sums.linear), np.trace(prior))

    @cached_property
    def _average(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Average information, and what the observed curvature shares with log σ²."""
        coef, C = self.coef, self.center.covariance
        pull = self.center.beta[coef] / self.ratio
        both, by_row = self.marginal.pulled(self.residuals)
        cross = by_row @ C[:, coef] @ pull / self.ratio
        own = pull @ self._prior_information @ pull
        K = np.block([[both - by_row @ C @ by_row.T, cross[:, None]], [cross, own]])
        k = np.append(self.marginal.task_weights @ self.residuals**2, pull @ pull)
        return K / self.noise, k / self.noise

    def promise_of_full(self, free: NDArray[np.intp]) -> float:
        """Score test of the covariances between some parameters."""
        pairs = np.ix_(free, free)
        curvature = np.maximum(self.sums.paired + self.sums.squared, np.finfo(np.float64).tiny)
        gains = self.slope_of_covariance[pairs] ** 2 / curvature[pairs]
        return float(2.0 * np.triu(gains, 1).sum())

    @property
    def _prior_information(self) -> NDArray[np.float64]:
        coef = np.flatnonzero(self.coef)
        C = self.center.covariance[np.ix_(coef, coef)]
        return np.asarray(np.eye(len(coef)) / self.ratio - C / self.ratio**2)

    def _with_best_noise(
        self, K: NDArray[np.float64], k: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return np.asarray(0.5 * (K - np.outer(k, k) / self.n_noise))
