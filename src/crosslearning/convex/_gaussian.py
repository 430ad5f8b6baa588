"""Log evidence of the Gaussian model at given variances, with the noise in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from crosslearning.convex._arrays import Array, Flags
from crosslearning.convex._marginal import Center, Marginal
from crosslearning.convex._thin_marginal import ThinMarginal, row_factors
from crosslearning.convex._variance_point import VariancePoint
from crosslearning.convex.moments import Moments

_ROUNDING = 1e-13  # smallest noise, as a share of the variance of the targets


@dataclass(frozen=True, eq=False)
class GaussianData:
    """Moments of the tasks and their weights, and which columns' centre has a flat prior."""

    moments: Moments
    task_weights: Array
    flat: Flags

    @cached_property
    def n_rows(self) -> float:
        """Number of rows, by the weights of their tasks."""
        return float(self.task_weights @ self.moments.counts)

    @cached_property
    def smallest_noise(self) -> float:
        """Variance below which residuals are rounding errors."""
        squares = float(self.task_weights @ self.moments.products[:, -1, -1])
        return _ROUNDING * (squares / max(self.n_rows, 1.0) or 1.0)

    def at(self, root: Array, ratio: Array | float) -> VariancePoint:
        """Evaluate at Σ = σ² root rootᵀ and τ² = σ² ratio, for all columns or for each."""
        products, weights = self.moments.products, self.task_weights
        precision = np.where(self.flat, 0.0, np.divide(1.0, ratio))
        if self._factors is None:
            return self.point(Marginal(products, root, weights), precision)
        return self.point(ThinMarginal(products, root, weights, self._factors), precision)

    def point(self, marginal: Marginal, precision: Array) -> VariancePoint:
        """Return the model with the best noise."""
        center = Center.of(marginal.total, precision)
        n_free = max(self.n_rows - center.n_flat, 1.0)
        v = np.append(-center.beta, 1.0)
        squares = max(float(v @ marginal.total @ v + precision @ center.beta**2), 0.0)
        noise = max(squares / n_free, self.smallest_noise)
        n_noise = n_free if noise > self.smallest_noise else np.inf
        logs = marginal.log_det + center.log_det - np.log(precision[~self.flat]).sum()
        logs -= float(self.task_weights @ self.moments.log_weights)
        deviance = n_free * np.log(2.0 * np.pi * noise) + squares / noise
        value = float(-0.5 * (deviance + logs))
        coef = ~self.flat
        return VariancePoint(marginal, precision, coef, center, noise, n_noise, value, noise)

    @cached_property
    def _factors(self) -> Array | None:
        """Rows that stand for each task's, if they are fewer than half the columns."""
        most = int(self.moments.counts.max(initial=0))
        if not 0 < 2 * most <= self.moments.n_columns:
            return None
        return row_factors(self.moments.products, most)
