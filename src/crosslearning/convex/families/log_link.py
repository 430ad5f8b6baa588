"""Base of the families with a logarithmic link."""

from __future__ import annotations

import numpy as np

from crosslearning.convex.families.base import OneScore
from crosslearning.tether import Array

_LARGEST = 300.0  # squares of larger exponentials overflow


class LogLink(OneScore):
    """Targets of at least 0, log link; the variance is dispersion · mean ** power."""

    power: float
    has_dispersion = True

    def start(self, y: Array, weights: Array) -> Array:
        total = weights @ y
        return np.array([np.log((total + 0.5 * (total == 0)) / weights.sum())])

    def mean(self, score: Array) -> Array:
        return np.exp(np.clip(score, -_LARGEST, _LARGEST))

    def variance(self, mean: Array) -> Array:
        return np.asarray(mean**self.power)

    def derivatives(self, y: Array, score: Array) -> tuple[Array, Array, Array]:
        low, high = 1.0 - self.power, 2.0 - self.power
        data, mean = self._parts(y, score)
        return data - mean, high * mean - low * data, high**2 * mean - low**2 * data

    def _parts(self, y: Array, score: Array) -> tuple[Array, Array]:
        """Y mean^(1 - power) and mean^(2 - power), by which the quasi-likelihood is linear."""
        low, high = 1.0 - self.power, 2.0 - self.power
        data = y * self.mean(low * score) if low else y
        return data, self.mean(high * score) if high else np.ones_like(score)
