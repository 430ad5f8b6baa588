"""Log evidence of the Gaussian model at given variances, with its slope; noise in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from crosslearning.convex._marginal import Center, Marginal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crosslearning.convex._marginal import Sums
    from crosslearning.convex.moments import Moments

__all__ = ["GaussianData", "GaussianPoint"]

_NO_INFORMATION = 1e-10  # share that rounding may leave
_ROUNDING = 1e-13  # smallest noise, as a share of the variance of the targets


@dataclass(frozen=True, eq=False)
class GaussianData:
    """Moments of the tasks and their weights, and which directions of the centre have a prior.

    Parameters
    ----------
    moments : Moments
        Sums of products.
    task_weights : array of shape (n_tasks,)
        How many tasks each stands for.
    flat : array of bool of shape (n_columns,)
        Columns whose centre has a flat prior.
    """

    moments: Moments
    task_weights: NDArray[np.float64]
    flat: NDArray[np.bool_]

    @cached_property
    def n_rows(self) -> float:
        """Number of rows, by the weights of their tasks."""
        return float(self.task_weights @ self.moments.counts)

    @cached_property
    def log_weights(self) -> float:
        """Sum of the logarithms of the rows' weights."""
        return float(self.task_weights @ self.moments.log_weights)

    @cached_property
    def smallest_noise(self) -> float:
        """Variance below which residuals are rounding errors."""
        squares = float(self.task_weights @ self.moments.products[:, -1, -1])
        return _ROUNDING * (squares / max(self.n_rows, 1.0) or 1.0)

    def at(self, root: NDArray[np.float64], ratio: float) -> GaussianPoint:
        """Evaluate at Σ = σ² root rootᵀ and τ² = σ² ratio."""
        marginal = Marginal(self.moments.products, root, self.task_weights)
        return GaussianPoint(self, marginal, ratio)


@dataclass(frozen=True, eq=False)
class GaussianPoint:
    """The model with the best noise for given S = Σ/σ² and t = τ²/σ²."""

    data: GaussianData
    marginal: Marginal
    ratio: float

    @cached_property
    def center(self) -> Center:
        """Posterior of the centre."""
        precision = np.where(self.data.flat, 0.0, 1.0 / self.ratio)
        return Center.of(self.marginal.total, precision)

    @cached_property
    def n_free(self) -> float:
        """Rows less directions of the centre that only they determine."""
        return max(self.data.n_rows - self.center.n_flat, 1.0)

    @cached_property
    def squares(self) -> float:
        """Squared residuals and penalties at the posterior means."""
        beta = self.center.beta
        v = np.append(-beta, 1.0)
        prior = beta[~self.data.flat] @ beta[~self.data.flat] / self.ratio
        return max(float(v @ self.marginal.total @ v + prior), 0.0)

    @property
    def at_rounding(self) -> bool:
        """Whether the noise is as small as rounding errors are."""
        return self.squares / self.n_free <= self.data.smallest_noise

    @property
    def noise(self) -> float:
        """σ²."""
        return max(self.squares / self.n_free, self.data.smallest_noise)

    @cached_property
    def value(self) -> float:
        """Log evidence."""
        logs = self.marginal.log_det + self.center.log_det
        logs += np.count_nonzero(~self.data.flat) * np.log(self.ratio)
        deviance = self.n_free * np.log(2.0 * np.pi * self.noise) + self.squares / self.noise
        return float(-0.5 * (deviance + logs - self.data.log_weights))

    @cached_property
    def residuals(self) -> NDArray[np.float64]:
        """Gradients of the tasks' squared errors."""
        return self.marginal.residuals(self.center.beta)

    @cached_property
    def sums(self) -> Sums:
        """Sums over tasks of what each says about itself."""
        return self.marginal.sums(self.center, ~self.data.flat)

    @property
    def informed(self) -> NDArray[np.bool_]:
        """Parameters of which tasks say more than that the centre explains it."""
        p = len(self.data.flat)
        own, all_of_it = np.diagonal(self.sums.linear), np.diagonal(self.marginal.total)[:p]
        return np.asarray(own > _NO_INFORMATION * all_of_it)

    @cached_property
    def slope_of_covariance(self) -> NDArray[np.float64]:
        """Derivative by the entries of S: finite where S is 0."""
        g = self.residuals
        outer = (self.data.task_weights[:, None] * g).T @ g
        return np.asarray(0.5 * (outer / self.noise - self.sums.linear))

    @cached_property
    def slope_of_ratio(self) -> float:
        """Derivative by t."""
        coef = ~self.data.flat
        beta = self.center.beta[coef]
        squares = beta @ beta / self.noise + np.diagonal(self.center.covariance)[coef].sum()
        return float(0.5 * (squares / self.ratio - len(beta)) / self.ratio)

    @cached_property
    def expected(self) -> NDArray[np.float64]:
        """Expected curvature by the diagonal of S and t, with the noise at its best.

        What tasks say together about the centre is left out, which matters little where they are
        many.
        """
        return self._with_best_noise(*self._expected)

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
        coef, C = ~self.data.flat, self.center.covariance
        pull = self.center.beta[coef] / self.ratio
        both, by_row = self.marginal.pulled(self.residuals)
        cross = by_row @ C[:, coef] @ pull / self.ratio
        own = pull @ self._prior_information @ pull
        K = np.block([[both - by_row @ C @ by_row.T, cross[:, None]], [cross, own]])
        k = np.append(self.data.task_weights @ self.residuals**2, pull @ pull)
        return K / self.noise, k / self.noise

    def promise_of_full(self, free: NDArray[np.intp]) -> float:
        """Score test of the covariances between some parameters."""
        pairs = np.ix_(free, free)
        curvature = np.maximum(self.sums.paired + self.sums.squared, np.finfo(np.float64).tiny)
        gains = self.slope_of_covariance[pairs] ** 2 / curvature[pairs]
        return float(2.0 * np.triu(gains, 1).sum())

    @property
    def _prior_information(self) -> NDArray[np.float64]:
        coef = np.flatnonzero(~self.data.flat)
        C = self.center.covariance[np.ix_(coef, coef)]
        return np.asarray(np.eye(len(coef)) / self.ratio - C / self.ratio**2)

    def _with_best_noise(
        self, K: NDArray[np.float64], k: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        if not self.at_rounding:
            K = K - np.outer(k, k) / self.n_free
        return 0.5 * K
