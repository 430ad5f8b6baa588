"""Distributions of a target given its linear scores: log density and three derivatives.

Scores have the shape (..., n_scores): one score, or one less than the classes if those are more
than two. All families are log-concave in their scores, except Student's, which has a fit of its
own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, gammaln, logit

from crosslearning.convex.logistic_loss import contrasts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = [
    "Bernoulli",
    "Family",
    "Gamma",
    "Gaussian",
    "Multinomial",
    "OneScore",
    "Poisson",
    "Student",
    "Tweedie",
]

_NODES, _MASSES = np.polynomial.hermite_e.hermegauss(32)
_LARGEST = 300.0  # exponents beyond this are of no use, and their squares overflow


class Family(ABC):
    """A distribution of targets given scores."""

    n_scores: int = 1
    has_dispersion: bool = False

    @abstractmethod
    def check(self, y: Array) -> None:
        """Refuse targets that the family cannot have produced."""

    @abstractmethod
    def start(self, y: Array, weights: Array) -> Array:
        """Scores that fit all targets best, about."""

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
    def curvature_slope(self, y: Array, scores: Array, spread: Array) -> Array:
        """Gradient of tr(curvature · spread) by the scores."""

    def squared_error(self, y: Array, scores: Array) -> Array:
        """Squared error over the variance at dispersion 1."""
        raise NotImplementedError


class OneScore(Family):
    """A family with one score, in terms of plain numbers."""

    def slope(self, y: Array, scores: Array) -> Array:
        """Gradient."""
        return self.derivatives(y, scores[..., 0])[0][..., None]

    def curvature(self, y: Array, scores: Array) -> Array:
        """Second derivative."""
        return self.derivatives(y, scores[..., 0])[1][..., None, None]

    def curvature_slope(self, y: Array, scores: Array, spread: Array) -> Array:
        """Third derivative."""
        third: Array = self.derivatives(y, scores[..., 0])[2][..., None] * spread[..., 0]
        return third

    @abstractmethod
    def derivatives(self, y: Array, score: Array) -> tuple[Array, Array, Array]:
        """First derivative, minus the second, and the slope of that, at dispersion 1."""

    @abstractmethod
    def mean(self, score: Array) -> Array:
        """Mean of the target."""

    @abstractmethod
    def variance(self, mean: Array) -> Array:
        """Variance of the target at dispersion 1."""

    def squared_error(self, y: Array, scores: Array) -> Array:
        """Pearson's."""
        mean = self.mean(scores[..., 0])
        error: Array = (y - mean) ** 2 / self.variance(mean)
        return error

    def predictive(
        self, score: Array, variance: Array, dispersion: Array | float = 1.0
    ) -> tuple[Array, Array]:
        """Mean and variance of targets whose score is Gaussian (by quadrature)."""
        at = score[..., None] + np.sqrt(variance)[..., None] * _NODES
        means, masses = self.mean(at), _MASSES / _MASSES.sum()
        mean: Array = means @ masses
        spread: Array = (means - mean[..., None]) ** 2 @ masses
        return mean, spread + dispersion * (self.variance(means) @ masses)


@dataclass(frozen=True)
class Gaussian(OneScore):
    """Real targets: y = score + noise."""

    has_dispersion = True

    def check(self, y: Array) -> None:
        """Every number will do."""

    def start(self, y: Array, weights: Array) -> Array:
        """Mean."""
        return np.array([weights @ y / weights.sum()])

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:
        """-(y - score)² / 2σ² - log(2πσ²) / 2."""
        squares = (y - scores[..., 0]) ** 2 / dispersion
        return np.asarray(-0.5 * (squares + np.log(2.0 * np.pi * dispersion)))

    def derivatives(self, y: Array, score: Array) -> tuple[Array, Array, Array]:
        """Linear."""
        return y - score, np.ones_like(score), np.zeros_like(score)

    def mean(self, score: Array) -> Array:
        """Identity link."""
        return score

    def variance(self, mean: Array) -> Array:
        """Constant."""
        return np.ones_like(mean)

    def predictive(
        self, score: Array, variance: Array, dispersion: Array | float = 1.0
    ) -> tuple[Array, Array]:
        """Mean and variance of targets whose score is Gaussian."""
        return score, variance + dispersion


@dataclass(frozen=True)
class Student(Gaussian):
    """Real targets of which a few are wild: Student's t noise.

    Parameters
    ----------
    df : float
        Degrees of freedom: the smaller, the less a wild target counts.
    """

    df: float = 4.0

    def __post_init__(self) -> None:
        """Check the degrees of freedom."""
        if not self.df > 0:
            raise ValueError(f"`df` must be more than 0; got {self.df}. 4 is a good choice.")

    def precisions(self, squares: Array) -> Array:
        """Return the mean precision of rows whose squared errors, over σ², are known."""
        return np.asarray((self.df + 1.0) / (self.df + squares))


@dataclass(frozen=True)
class Bernoulli(OneScore):
    """Targets 0 and 1, logit link."""

    def check(self, y: Array) -> None:
        """Two values."""
        _require(np.isin(y, (0.0, 1.0)), y, "0 or 1", "Encode the classes")

    def start(self, y: Array, weights: Array) -> Array:
        """Logit of the share of ones, away from the ends."""
        total = weights.sum()
        return np.array([logit((weights @ y + 0.5) / (total + 1.0))])

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:  # noqa: ARG002
        """Log-likelihood."""
        score = scores[..., 0]
        return np.asarray(y * score - np.logaddexp(0.0, score))

    def derivatives(self, y: Array, score: Array) -> tuple[Array, Array, Array]:
        """In terms of the probability."""
        p = expit(score)
        w = p * expit(-score)
        return y - p, w, w * (1.0 - 2.0 * p)

    def mean(self, score: Array) -> Array:
        """Probability of 1."""
        return np.asarray(expit(score))

    def variance(self, mean: Array) -> Array:
        """p(1 - p)."""
        return mean * (1.0 - mean)


@dataclass(frozen=True)
class Multinomial(Family):
    """Targets 0 ... n_classes - 1; scores are contrasts between classes.

    Parameters
    ----------
    n_classes : int
        Number of classes, at least 3.
    """

    n_classes: int

    @property
    def n_scores(self) -> int:  # type: ignore[override]
        """One less than the classes."""
        return self.n_classes - 1

    @property
    def basis(self) -> Array:
        """Map from scores to classes, orthonormal."""
        return contrasts(self.n_classes)

    def check(self, y: Array) -> None:
        """Numbers of classes."""
        _require(np.isin(y, np.arange(self.n_classes)), y, "numbers of classes", "Encode them")

    def start(self, y: Array, weights: Array) -> Array:
        """Logarithms of the classes' shares."""
        shares = np.bincount(y.astype(np.intp), weights, self.n_classes) + 0.5
        return np.asarray(np.log(shares) @ self.basis)

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:  # noqa: ARG002
        """Log-likelihood."""
        classes = scores @ self.basis.T
        top = classes.max(axis=-1, keepdims=True)
        logs = top[..., 0] + np.log(np.exp(classes - top).sum(axis=-1))
        own = np.take_along_axis(classes, y.astype(np.intp)[..., None], axis=-1)[..., 0]
        return np.asarray(own - logs)

    def probabilities(self, scores: Array) -> Array:
        """Softmax of the classes."""
        classes = scores @ self.basis.T
        likely = np.exp(classes - classes.max(axis=-1, keepdims=True))
        return np.asarray(likely / likely.sum(axis=-1, keepdims=True))

    def predictive(self, scores: Array, covariance: Array) -> Array:
        """Probabilities of classes whose scores are Gaussian (MacKay's approximation)."""
        B = self.basis
        spread = np.einsum("kq,...qs,ks->...k", B, covariance, B, optimize=True)
        moderated = (scores @ B.T) / np.sqrt(1.0 + np.pi / 8.0 * spread)
        likely = np.exp(moderated - moderated.max(axis=-1, keepdims=True))
        return np.asarray(likely / likely.sum(axis=-1, keepdims=True))

    def slope(self, y: Array, scores: Array) -> Array:
        """Target less probabilities."""
        one_hot = np.eye(self.n_classes)[y.astype(np.intp)]
        return np.asarray((one_hot - self.probabilities(scores)) @ self.basis)

    def curvature(self, y: Array, scores: Array) -> Array:  # noqa: ARG002
        """Covariance of the one-hot target."""
        p, B = self.probabilities(scores), self.basis
        mean = p @ B
        squares = B.T @ (p[..., :, None] * B)
        return np.asarray(squares - mean[..., :, None] * mean[..., None, :])

    def curvature_slope(self, y: Array, scores: Array, spread: Array) -> Array:  # noqa: ARG002
        """Through the probabilities."""
        p, B = self.probabilities(scores), self.basis
        own = np.einsum("kq,...qs,ks->...k", B, spread, B, optimize=True)
        shared = ((p @ B)[..., None, :] @ spread)[..., 0, :] @ B.T
        by_class = own - 2.0 * shared
        mean = np.sum(p * by_class, axis=-1, keepdims=True)
        return np.asarray((p * (by_class - mean)) @ B)


class _LogLink(OneScore):
    """Targets of at least 0, log link."""

    def start(self, y: Array, weights: Array) -> Array:
        """Logarithm of the mean, away from 0."""
        total = weights.sum()
        return np.array([np.log((weights @ y + 0.5 * (weights @ y == 0)) / total)])

    def mean(self, score: Array) -> Array:
        """Exponential."""
        return np.exp(np.clip(score, -_LARGEST, _LARGEST))


@dataclass(frozen=True)
class Poisson(_LogLink):
    """Counts, log link."""

    def check(self, y: Array) -> None:
        """At least 0."""
        _require(y >= 0, y, "at least 0", "Remove it")

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:  # noqa: ARG002
        """Log-likelihood."""
        return np.asarray(y * scores[..., 0] - self.mean(scores[..., 0]) - gammaln(y + 1.0))

    def derivatives(self, y: Array, score: Array) -> tuple[Array, Array, Array]:
        """All by the mean."""
        mean = self.mean(score)
        return y - mean, mean, mean

    def variance(self, mean: Array) -> Array:
        """Equal to the mean."""
        return mean


@dataclass(frozen=True)
class Gamma(_LogLink):
    """Positive targets whose deviation grows with their mean, log link."""

    has_dispersion = True

    def check(self, y: Array) -> None:
        """More than 0."""
        _require(y > 0, y, "more than 0", "Use a Tweedie family for zeros")

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:
        """Log-likelihood; the shape is 1 / dispersion."""
        k, score = 1.0 / dispersion, scores[..., 0]
        kernel = -k * (y * self.mean(-score) + score)
        return np.asarray(kernel + k * np.log(k) - gammaln(k) + (k - 1.0) * np.log(y))

    def derivatives(self, y: Array, score: Array) -> tuple[Array, Array, Array]:
        """All by y / mean."""
        ratio = y * self.mean(-score)
        return ratio - 1.0, ratio, -ratio

    def variance(self, mean: Array) -> Array:
        """Square of the mean."""
        return mean**2


@dataclass(frozen=True)
class Tweedie(_LogLink):
    """Targets of at least 0, many of them perhaps exactly 0: sums of a random number of gammas.

    Parameters
    ----------
    power : float
        The variance is dispersion · mean ** power; between 1 (Poisson) and 2 (gamma).
    """

    power: float = 1.5
    has_dispersion = True

    def __post_init__(self) -> None:
        """Check the power."""
        if not 1.0 < self.power < 2.0:
            raise ValueError(
                f"`power` must lie between 1 and 2; got {self.power}. Use Poisson or Gamma for the "
                "ends."
            )

    def check(self, y: Array) -> None:
        """At least 0."""
        _require(y >= 0, y, "at least 0", "Remove it")

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:
        """Quasi-log-likelihood: up to a function of y and the dispersion."""
        low, high, score = 1.0 - self.power, 2.0 - self.power, scores[..., 0]
        kernel = y * self.mean(low * score) / low - self.mean(high * score) / high
        return np.asarray(kernel / dispersion)

    def derivatives(self, y: Array, score: Array) -> tuple[Array, Array, Array]:
        """Two exponentials."""
        low, high = 1.0 - self.power, 2.0 - self.power
        own, mean = y * self.mean(low * score), self.mean(high * score)
        return own - mean, high * mean - low * own, high**2 * mean - low**2 * own

    def variance(self, mean: Array) -> Array:
        """Power of the mean."""
        return np.asarray(mean**self.power)


def _require(good: NDArray[Any], y: Array, rule: str, remedy: str) -> None:
    if not np.all(good):
        row = int(np.argmin(good))
        raise ValueError(f"Targets of this family must be {rule}; row {row} is {y[row]}. {remedy}.")
