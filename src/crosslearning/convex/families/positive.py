"""Targets of at least 0, log link: counts and amounts."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, gammaln, xlogy

from crosslearning.convex.families.base import OneScore
from crosslearning.tether import Array

_LARGEST = 300.0  # squares of larger exponentials overflow
_SMALLEST = 1e-12  # excess variance of a count, relative to its mean; of others, to its square
_LARGEST_COUNT = 30  # mean of counts; larger ones are treated as any numbers
_SKEWED_COUNTS, _SKEWED_AMOUNTS = 0.5, 1.5  # skewness above which the lower bound 0 matters
_LEAST, _MOST = 1e-4, 1e2  # overdispersion


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
        zero = self._zero(mean, dispersion)
        positive = mean / (1.0 - zero)
        variance = (sd**2 + mean**2) / (1.0 - zero) - positive**2
        variance = np.maximum(variance, _SMALLEST * positive**2)
        inner = np.clip((levels - zero) / (1.0 - zero), 0.0, 1.0)
        ends = gammaincinv(positive**2 / variance, inner) * (variance / positive)
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


def skewness(y: Array) -> float:
    """Return the third standardised moment."""
    return float(np.mean((y - y.mean()) ** 3) / y.std() ** 3)


@dataclass(frozen=True)
class Poisson(LogLink):
    """Counts, log link, with a dispersion that allows for overdispersion."""

    name, words, also = "poisson", "counts", ("negative-binomial",)
    by_passes = quasi = True
    power, least_dispersion = 1.0, 1.0

    @classmethod
    def recognised(cls, y: Array) -> str:
        whole, small = bool(np.all(y == np.floor(y))), y.mean() <= _LARGEST_COUNT
        if whole and y.min() == 0 and small and skewness(y) > _SKEWED_COUNTS:
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

        excess = np.maximum(sd**2 / mean - 1.0, _SMALLEST)
        return np.asarray(stats.nbinom.ppf(levels, mean / excess, 1.0 / (1.0 + excess)))

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:
        logs = y * scores[..., 0] - self.mean(scores[..., 0]) - gammaln(y + 1.0)
        return np.asarray(logs / dispersion)


@dataclass(frozen=True)
class NegativeBinomial(Poisson):
    """Counts, log link, variance mean + overdispersion · mean²: Poisson with gamma rates."""

    overdispersion: float = 0.5  # learned by evidence
    name, words, parameters = "negative-binomial", "overdispersed counts", ("overdispersion_",)
    has_dispersion = by_passes = quasi = False

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
        if y.min() > 0 and skewness(y) > _SKEWED_AMOUNTS:
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
    """Targets of at least 0, many perhaps exactly 0: sums of a random number of gammas."""

    power: float = 1.5  # between 1 (Poisson) and 2 (gamma)
    name, words, parameters = "tweedie", "amounts, many of them 0", ("power",)
    by_passes = quasi = True

    def __post_init__(self) -> None:
        if not 1.0 < self.power < 2.0:
            rule = f"`power` must lie between 1 and 2; got {self.power}."
            raise ValueError(f"{rule} Use Poisson or Gamma for the ends.")

    def _zero(self, mean: Array, dispersion: float) -> Array:
        # A sum of gammas may have no terms.
        return np.asarray(np.exp(-(mean ** (2.0 - self.power)) / (dispersion * (2.0 - self.power))))

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:
        # A quasi-log-likelihood: up to a function of y and the dispersion.
        data, mean = self._parts(y, scores[..., 0])
        return np.asarray((data / (1.0 - self.power) - mean / (2.0 - self.power)) / dispersion)
