"""Positive targets."""

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
