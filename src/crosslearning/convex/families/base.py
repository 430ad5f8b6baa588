"""Base of the distributions of a target given its linear scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from crosslearning.tether import Array

NODES, MASSES = np.polynomial.hermite_e.hermegauss(32)
MASSES /= MASSES.sum()
_LARGEST = 300.0  # squares of larger exponentials overflow
SMALLEST = 1e-12  # excess variance of a count, relative to its mean; of others, to its square


class Family(ABC):
    """A distribution of targets given scores, and what others need to know of it.

    Attributes
    ----------
    name, words, label : str
        Name of the family, of the targets that it is for, and of its models if not the name.
    link : {"identity", "log", "logit"}
        What the scores are of the mean.
    parameters : tuple of str
        Names of the estimator's parameters or fitted attributes that the family takes.
    has_dispersion, least_dispersion : bool, float
        Whether the variance has a factor to learn, and its smallest value.
    quasi : bool
        Whether the log density lacks terms or a scale, so that evidence is not comparable with that
        of other families.
    by_passes : bool
        Whether it can be fitted by passes over rows that do not fit into memory.
    boosted : str
        Objective of LightGBM for boosted trees of such targets.
    also : tuple of str
        Names of families that are tried too where this one is recognised.
    rule : str
        Which targets are possible.
    n_scores : int
        Number of linear predictors.
    """

    name: ClassVar[str]
    words: ClassVar[str]
    label: ClassVar[str] = ""
    link: ClassVar[str] = "identity"
    parameters: ClassVar[tuple[str, ...]] = ()
    has_dispersion: bool = False
    least_dispersion: float = 0.0
    quasi: ClassVar[bool] = False
    by_passes: ClassVar[bool] = False
    boosted: ClassVar[str] = "regression"
    also: ClassVar[tuple[str, ...]] = ()
    n_scores: int = 1
    rule, _remedy = "at least 0", "Remove it"  # for targets

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> Self:
        """Take the parameters and fitted attributes of an estimator."""
        return cls(*(attributes[name] for name in cls.parameters))

    @classmethod
    def recognised(cls, y: Array) -> str:  # noqa: ARG003
        """Say why numbers look like targets of this family; empty if they do not."""
        return ""

    def begun(self, y: Array, weights: Array) -> Self:  # noqa: ARG002
        """Return the family with a shape to begin with."""
        return self

    @classmethod
    def learned(cls) -> list[str]:
        """Names of the fitted attributes that hold the shape."""
        return [name for name in cls.parameters if name.endswith("_")]

    @property
    def shape(self) -> Array:
        """Numbers, of any size, that are learned by evidence."""
        return np.zeros(0)

    def with_shape(self, shape: Array) -> Self:  # noqa: ARG002
        """Return the family with another shape."""
        return self

    def check(self, y: Array) -> None:
        """Refuse targets that the family cannot have produced."""
        good = self.possible(y)
        if not np.all(good):
            row = int(np.argmin(good))
            raise ValueError(
                f"Targets of this family must be {self.rule}; row {row} is {y[row]}. "
                f"{self._remedy}."
            )

    def possible(self, y: Array) -> NDArray[Any]:
        """Say which targets the family can have produced."""
        return y >= 0

    @property
    def typical(self) -> Family:
        """A family whose curvature at scores of 0 is typical of this one's near the targets."""
        return self

    @property
    def wider(self) -> Family | None:
        """A family with a similar mode that is easier to find, if this one's is hard to find."""
        return None

    @abstractmethod
    def start(self, y: Array, weights: Array) -> Array:
        """Approximately the best constant scores."""

    @abstractmethod
    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:
        """Logarithm of the density; without terms in the dispersion if that has no closed form."""

    @abstractmethod
    def slope(self, y: Array, scores: Array) -> Array:
        """Its gradient by the scores at dispersion 1, shape (..., n_scores)."""

    @abstractmethod
    def curvature(self, y: Array, scores: Array) -> Array:
        """Minus its second derivative at dispersion 1, shape (..., n_scores, n_scores)."""

    @abstractmethod
    def averaged(self, y: Array, scores: Array, covariance: Array) -> tuple[Array, Array]:
        """Slope and curvature, averaged over Gaussian scores."""

    @abstractmethod
    def curvature_slope(self, y: Array, scores: Array, covariance: Array) -> Array:
        """Gradient of tr(curvature · covariance) by the scores."""


class Scored(Family):
    """A family with one score, in terms of plain numbers."""

    def slope(self, y: Array, scores: Array) -> Array:
        return self.derivatives(y, scores[..., 0])[0][..., None]

    def curvature(self, y: Array, scores: Array) -> Array:
        return self.derivatives(y, scores[..., 0])[1][..., None, None]

    def curvature_slope(self, y: Array, scores: Array, covariance: Array) -> Array:
        return np.asarray(self.derivatives(y, scores[..., 0])[2][..., None] * covariance[..., 0])

    def averaged(self, y: Array, scores: Array, covariance: Array) -> tuple[Array, Array]:
        at = scores + np.sqrt(covariance[..., 0]) * NODES
        slopes, bends, _ = self.derivatives(y[..., None], at)
        return (slopes @ MASSES)[..., None], (bends @ MASSES)[..., None, None]

    @abstractmethod
    def derivatives(self, y: Array, score: Array) -> tuple[Array, Array, Array]:
        """First derivative, minus the second, and the slope of that, at dispersion 1."""


class OneScore(Scored):
    """A family with one score, and targets that have a mean."""

    @abstractmethod
    def mean(self, score: Array) -> Array:
        """Mean of the target."""

    @abstractmethod
    def variance(self, mean: Array) -> Array:
        """Variance of the target at dispersion 1."""

    @abstractmethod
    def deviance(self, y: Array, mean: Array) -> Array:
        """Twice the log density of a perfect prediction minus that of the mean, at dispersion 1."""

    def quantiles(self, mean: Array, sd: Array, dispersion: float, levels: Array) -> Array:  # noqa: ARG002
        """Quantiles of targets with these means and standard deviations, (levels, targets)."""
        return np.asarray(mean + sd * ndtri(levels))

    def possible_ends(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return ends of intervals that such targets can have."""
        return lower, upper

    def squared_error(self, y: Array, scores: Array) -> Array:
        """Pearson's: squared error over the variance at dispersion 1."""
        mean = self.mean(scores[..., 0])
        return np.asarray((y - mean) ** 2 / self.variance(mean))

    def predictive(
        self, score: Array, variance: Array, dispersion: Array | float = 1.0
    ) -> tuple[Array, Array]:
        """Mean and variance of targets whose score is Gaussian (by quadrature)."""
        at = score[..., None] + np.sqrt(variance)[..., None] * NODES
        means = self.mean(at)
        mean: Array = means @ MASSES
        between: Array = (means - mean[..., None]) ** 2 @ MASSES
        return mean, between + dispersion * (self.variance(means) @ MASSES)


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


def skewness(y: Array) -> float:
    """Return the third standardised moment."""
    return float(np.mean((y - y.mean()) ** 3) / y.std() ** 3)
