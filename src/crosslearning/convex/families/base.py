"""Base of the distributions of a target given its linear scores."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from crosslearning.tether import Array

NODES, MASSES = np.polynomial.hermite_e.hermegauss(32)
MASSES /= MASSES.sum()


class Family(ABC):
    """A distribution of targets given scores, and what others need to know of it."""

    name: ClassVar[str]
    words: ClassVar[str]  # of the targets that it is for
    label: ClassVar[str] = ""  # of its models, if not the name
    link: ClassVar[str] = "identity"  # or "log", "logit": what the scores are of the mean
    parameters: ClassVar[tuple[str, ...]] = ()  # that it takes, or fitted attributes
    has_dispersion: bool = False  # whether the variance has a factor to learn,
    least_dispersion: float = 0.0  # and the smallest value of that
    quasi: ClassVar[bool] = False  # the log density lacks terms or a scale: no evidence to compare
    by_passes: ClassVar[bool] = False  # over rows that do not fit into memory
    boosted: ClassVar[str] = "regression"  # objective of LightGBM for such targets
    also: ClassVar[tuple[str, ...]] = ()  # families that are tried too where it is recognised
    n_scores: int = 1  # linear predictors
    rule, _remedy = "at least 0", "Remove it"  # which targets are possible; if others are there

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> Self:
        """Take the parameters and fitted attributes of an estimator."""
        return cls(*(attributes[name] for name in cls.parameters if name in attributes))

    @classmethod
    def recognised(cls, y: Array) -> str:  # noqa: ARG003
        """Say why numbers look like targets of this family; empty if they do not."""
        return ""

    def begun(self, y: Array, weights: Array) -> Self:  # noqa: ARG002
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
        return self

    def check(self, y: Array) -> None:
        """Refuse targets that the family cannot have produced."""
        good = self.possible(y)
        if not np.all(good):
            row, rule = int(np.argmin(good)), f"Targets of this family must be {self.rule}"
            raise ValueError(f"{rule}; row {row} is {y[row]}. {self._remedy}.")

    def possible(self, y: Array) -> NDArray[Any]:
        """Say which targets the family can have produced."""
        return y >= 0

    def possible_ends(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return ends of intervals that such targets can have."""
        return lower, upper

    @property
    def typical(self) -> "Family":
        """A family whose curvature at scores of 0 is typical of this one's near the targets."""
        return self

    @property
    def wider(self) -> "Family | None":
        """A family with a similar mode that is easier to find, if this one's is hard to find."""
        return None

    def start(self, y: Array, weights: Array) -> Array:  # noqa: ARG002
        """Approximately the best constant scores."""
        return np.zeros(1)

    @abstractmethod
    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:
        """Logarithm of the density; without terms in the dispersion if that has no closed form."""

    def slope(self, y: Array, scores: Array) -> Array:
        """Its gradient by the scores at dispersion 1, shape (..., n_scores)."""
        return self.derivatives(y, scores[..., 0])[0][..., None]

    def curvature(self, y: Array, scores: Array) -> Array:
        """Minus its second derivative at dispersion 1, shape (..., n_scores, n_scores)."""
        return self.derivatives(y, scores[..., 0])[1][..., None, None]

    def curvature_slope(self, y: Array, scores: Array, covariance: Array) -> Array:
        """Gradient of tr(curvature · covariance) by the scores."""
        return np.asarray(self.derivatives(y, scores[..., 0])[2][..., None] * covariance[..., 0])

    def averaged(self, y: Array, scores: Array, covariance: Array) -> tuple[Array, Array]:
        """Slope and curvature, averaged over Gaussian scores."""
        at = scores + np.sqrt(covariance[..., 0]) * NODES
        slopes, bends, _ = self.derivatives(y[..., None], at)
        return (slopes @ MASSES)[..., None], (bends @ MASSES)[..., None, None]

    def derivatives(self, y: Array, score: Array) -> tuple[Array, Array, Array]:
        """First derivative, minus the second, and the slope of that, by the only score."""
        raise NotImplementedError


class OneScore(Family):
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
