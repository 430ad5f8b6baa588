"""Log evidence of the Gaussian model at given variances, with its slope; noise in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from crosslearning.convex._marginal import Center, Marginal
from crosslearning.convex._thin_marginal import ThinMarginal, row_factors
from crosslearning.convex._variance_point import VariancePoint

if TYPE_CHECKING:
    from crosslearning.convex._arrays import Array, Flags
    from crosslearning.convex.moments import Moments

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
    task_weights: Array
    flat: Flags

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

    def at(self, root: Array, ratio: Array | float) -> GaussianPoint:
        """Evaluate at Σ = σ² root rootᵀ and τ² = σ² ratio, for all columns or for each."""
        products, weights = self.moments.products, self.task_weights
        precision = np.where(self.flat, 0.0, np.divide(1.0, ratio))
        if self._factors is None:
            return GaussianPoint(self, Marginal(products, root, weights), precision)
        thin = ThinMarginal(products, root, weights, self._factors)
        return GaussianPoint(self, thin, precision)

    @cached_property
    def _factors(self) -> Array | None:
        """Rows that stand for each task's, if they are fewer than half the columns."""
        most = int(self.moments.counts.max(initial=0))
        if not 0 < 2 * most <= self.moments.n_columns:
            return None
        return row_factors(self.moments.products, most)


@dataclass(frozen=True, eq=False)
class GaussianPoint(VariancePoint):
    """The model with the best noise for given S = Σ/σ² and t = τ²/σ²."""

    data: GaussianData
    marginal: Marginal
    precision: Array

    @property
    def coef(self) -> Flags:
        """Columns whose centre has a prior."""
        return ~self.data.flat

    @cached_property
    def center(self) -> Center:
        """Posterior of the centre."""
        return Center.of(self.marginal.total, self.precision)

    @cached_property
    def n_free(self) -> float:
        """Rows less directions of the centre that only they determine."""
        return max(self.data.n_rows - self.center.n_flat, 1.0)

    @cached_property
    def squares(self) -> float:
        """Squared residuals and penalties at the posterior means."""
        beta = self.center.beta
        v = np.append(-beta, 1.0)
        prior = self.precision @ beta**2
        return max(float(v @ self.marginal.total @ v + prior), 0.0)

    @property
    def at_rounding(self) -> bool:
        """Whether the noise is as small as rounding errors are."""
        return self.squares / self.n_free <= self.data.smallest_noise

    @property
    def noise(self) -> float:
        """σ²."""
        return max(self.squares / self.n_free, self.data.smallest_noise)

    @property
    def n_noise(self) -> float:
        """Degrees of freedom of the noise, infinite where it is held at the rounding level."""
        return np.inf if self.at_rounding else self.n_free

    @cached_property
    def value(self) -> float:
        """Log evidence."""
        logs = self.marginal.log_det + self.center.log_det
        logs -= np.log(self.precision[self.coef]).sum()
        deviance = self.n_free * np.log(2.0 * np.pi * self.noise) + self.squares / self.noise
        return float(-0.5 * (deviance + logs - self.data.log_weights))
