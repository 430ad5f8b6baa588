"""Amounts: positive ones, and those that may be exactly 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from crosslearning.convex.families.base import LogLink, skewness
from crosslearning.tether import Array

_SKEWED = 1.5  # skewness above which the lower bound 0 matters


@dataclass(frozen=True)
class Gamma(LogLink):
    """Positive targets with a standard deviation proportional to the mean, log link."""

    name, words = "gamma", "positive amounts"
    power, boosted = 2.0, "gamma"
    rule, _remedy = "above 0", "Use a Tweedie family for zeros"

    def possible(self, y: Array) -> NDArray[Any]:
        return y > 0

    @classmethod
    def recognised(cls, y: Array) -> str:
        if y.min() > 0 and skewness(y) > _SKEWED:
            return "positive amounts, many small and few large"
        return ""

    def deviance(self, y: Array, mean: Array) -> Array:
        return np.asarray(2.0 * (y / mean - 1.0 - np.log(y / mean)))

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:
        k, score = 1.0 / dispersion, scores[..., 0]  # k is the shape
        kernel = -k * (y * self.mean(-score) + score)
        return np.asarray(kernel + k * np.log(k) - gammaln(k) + (k - 1.0) * np.log(y))


@dataclass(frozen=True)
class Tweedie(LogLink):
    """Targets of at least 0, many perhaps exactly 0: sums of a random number of gammas.

    The power lies between 1 (Poisson) and 2 (gamma).
    """

    power: float = 1.5
    name, words, parameters = "tweedie", "amounts, many of them 0", ("power",)
    by_passes = quasi = True

    def __post_init__(self) -> None:
        if not 1.0 < self.power < 2.0:
            raise ValueError(
                f"`power` must lie between 1 and 2; got {self.power}. Use Poisson or Gamma for the "
                "ends."
            )

    def _zero(self, mean: Array, dispersion: float) -> Array:
        # A sum of gammas may have no terms.
        return np.asarray(np.exp(-(mean ** (2.0 - self.power)) / (dispersion * (2.0 - self.power))))

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:
        # A quasi-log-likelihood: up to a function of y and the dispersion.
        data, mean = self._parts(y, scores[..., 0])
        return np.asarray((data / (1.0 - self.power) - mean / (2.0 - self.power)) / dispersion)
