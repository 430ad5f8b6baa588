"""Counts whose variance grows with the square of the mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import gammaln, xlogy

from crosslearning.convex.families.poisson import Poisson
from crosslearning.tether import Array

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
