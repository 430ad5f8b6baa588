"""Counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, xlogy

from crosslearning.convex.families.base import SMALLEST, LogLink, skewness
from crosslearning.tether import Array

_LARGEST_COUNT = 30  # mean of counts; larger ones are treated as any numbers
_SKEWED = 0.5  # skewness above which the lower bound 0 matters


@dataclass(frozen=True)
class Poisson(LogLink):
    """Counts, log link, with a dispersion that allows for overdispersion."""

    name, words, also = "poisson", "counts", ("negative-binomial",)
    by_passes = quasi = True
    least_dispersion = 1.0
    power = 1.0

    @classmethod
    def recognised(cls, y: Array) -> str:
        whole, small = bool(np.all(y == np.floor(y))), y.mean() <= _LARGEST_COUNT
        if whole and y.min() == 0 and small and skewness(y) > _SKEWED:
            return "counts: whole numbers from 0, more small than large"
        return ""

    def deviance(self, y: Array, mean: Array) -> Array:
        return np.asarray(2.0 * (xlogy(y, y / mean) - y + mean))

    def possible_ends(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        lower = np.ceil(np.maximum(lower, 0.0))  # the same counts lie between them
        return lower, np.maximum(np.floor(upper), lower)

    def quantiles(self, mean: Array, sd: Array, dispersion: float, levels: Array) -> Array:  # noqa: ARG002
        """Match a negative binomial distribution: a Poisson one with gamma rates."""
        from scipy import stats  # takes long to import

        excess = np.maximum(sd**2 / mean - 1.0, SMALLEST)
        return np.asarray(stats.nbinom.ppf(levels, mean / excess, 1.0 / (1.0 + excess)))

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:
        logs = y * scores[..., 0] - self.mean(scores[..., 0]) - gammaln(y + 1.0)
        return np.asarray(logs / dispersion)
