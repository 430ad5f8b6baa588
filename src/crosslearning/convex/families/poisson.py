"""Counts: Poisson, and negative binomial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

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


_LEAST, _MOST = 1e-4, 1e2  # overdispersion


@dataclass(frozen=True)
class NegativeBinomial(Poisson):
    """Counts, log link, with the variance mean + overdispersion · mean²: Poisson with gamma rates.

    The overdispersion is learned by evidence.
    """

    overdispersion: float = 0.5
    name, words = "negative-binomial", "overdispersed counts"
    parameters, by_passes = ("overdispersion_",), False
    has_dispersion = quasi = False

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> Self:
        return cls(attributes.get("overdispersion_", cls.overdispersion))

    @classmethod
    def recognised(cls, y: Array) -> str:  # noqa: ARG003
        return ""  # counts are tried as Poisson's

    def begun(self, y: Array, weights: Array) -> Self:
        mean = weights @ y / weights.sum()
        variance = weights @ (y - mean) ** 2 / weights.sum()
        excess = (variance - mean) / mean**2 if mean > 0 else 0.0
        return replace(self, overdispersion=float(np.clip(excess, 0.05, 10.0)))

    @property
    def shape(self) -> Array:
        return np.log([self.overdispersion])

    def with_shape(self, shape: Array) -> Self:
        return replace(self, overdispersion=float(np.clip(np.exp(shape[0]), _LEAST, _MOST)))

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:  # noqa: ARG002
        a, mean = self.overdispersion, self.mean(scores[..., 0])
        counted = gammaln(y + 1.0 / a) - gammaln(1.0 / a) - gammaln(y + 1.0)
        rates = y * (np.log(a) + scores[..., 0]) - (y + 1.0 / a) * np.log1p(a * mean)
        return np.asarray(counted + rates)

    def derivatives(self, y: Array, score: Array) -> tuple[Array, Array, Array]:
        a, mean = self.overdispersion, self.mean(score)
        below = 1.0 + a * mean
        bend = mean * (1.0 + a * y) / below**2
        return (y - mean) / below, bend, bend * (1.0 - a * mean) / below

    def variance(self, mean: Array) -> Array:
        return np.asarray(mean + self.overdispersion * mean**2)

    def deviance(self, y: Array, mean: Array) -> Array:
        a = self.overdispersion
        logs = np.log1p(a * y) - np.log1p(a * mean)
        return np.asarray(2.0 * (xlogy(y, y / mean) - (y + 1.0 / a) * logs))
