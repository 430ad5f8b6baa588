"""Base of the families with a logarithmic link."""

from __future__ import annotations

import numpy as np

from crosslearning.convex.families.base import OneScore
from crosslearning.tether import Array

_LARGEST = 300.0  # squares of larger exponentials overflow
SMALLEST = 1e-12  # excess variance of a count, relative to its mean; of others, to its square


def skewness(y: Array) -> float:
    """Return the third standardised moment."""
    return float(np.mean((y - y.mean()) ** 3) / y.std() ** 3)


class LogLink(OneScore):
    """Targets of at least 0, log link; the variance is dispersion · mean ** power."""

    power: float
    link, boosted = "log", "poisson"
    has_dispersion = True

    def start(self, y: Array, weights: Array) -> Array:
        total = weights @ y
        return np.array([np.log((total + 0.5 * (total == 0)) / weights.sum())])

    def mean(self, score: Array) -> Array:
        return np.exp(np.clip(score, -_LARGEST, _LARGEST))

    def variance(self, mean: Array) -> Array:
        return np.asarray(mean**self.power)

    def possible_ends(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        return np.maximum(lower, 0.0), upper

    def deviance(self, y: Array, mean: Array) -> Array:
        low, high = 1.0 - self.power, 2.0 - self.power
        return np.asarray(2.0 * (y**high / (low * high) - y * mean**low / low + mean**high / high))

    def quantiles(self, mean: Array, sd: Array, dispersion: float, levels: Array) -> Array:
        """Match a gamma distribution, which may have some of its mass at 0."""
        from scipy import stats  # takes long to import

        zero = self._zero(mean, dispersion)
        positive = mean / (1.0 - zero)
        variance = (sd**2 + mean**2) / (1.0 - zero) - positive**2
        variance = np.maximum(variance, SMALLEST * positive**2)
        inner = np.clip((levels - zero) / (1.0 - zero), 0.0, 1.0)
        ends = stats.gamma.ppf(inner, positive**2 / variance, scale=variance / positive)
        return np.asarray(np.where(levels <= zero, 0.0, ends))

    def _zero(self, mean: Array, dispersion: float) -> Array:  # noqa: ARG002
        """Probability of a target of exactly 0."""
        return np.zeros_like(mean)

    def derivatives(self, y: Array, score: Array) -> tuple[Array, Array, Array]:
        low, high = 1.0 - self.power, 2.0 - self.power
        data, mean = self._parts(y, score)
        return data - mean, high * mean - low * data, high**2 * mean - low**2 * data

    def _parts(self, y: Array, score: Array) -> tuple[Array, Array]:
        """Y mean^(1 - power) and mean^(2 - power), by which the quasi-likelihood is linear."""
        low, high = 1.0 - self.power, 2.0 - self.power
        data = y * self.mean(low * score) if low else y
        return data, self.mean(high * score) if high else np.ones_like(score)
