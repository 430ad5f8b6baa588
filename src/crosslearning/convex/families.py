"""Distributions of a target given its linear scores: log density and three derivatives.

Scores have the shape (..., n_scores): one score, or one less than the classes if those are more
than two. All families are log-concave in their scores, except Student's, which has its own fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, expit, gammaln, log_softmax, logit, ndtri, softmax

from crosslearning.convex._family import Family, OneScore
from crosslearning.convex._softmax_moments import softmax_means, softmax_moments
from crosslearning.tether import Array

__all__ = [
    "CANONICAL", "Bernoulli", "Family", "Gamma", "Gaussian", "Multinomial", "OneScore", "Poisson",
    "Quantile", "Student", "Tweedie", "contrasts",
]  # fmt: skip

_LARGEST = 300.0  # squares of larger exponentials overflow
_WIDEST = 1e4  # kernel of a quantile under which residuals far away bend the loss too


@cache
def contrasts(n_classes: int) -> Array:
    """Return the map from parameters to class scores, shape (n_classes, n_scores).

    Two classes have one score, that of the second. More classes have scores that add up to 0, in
    orthonormal coordinates: distances between parameters are those between the scores' weights.
    These are Helmert's, each class against the mean of those before it: the same on every machine,
    so that covariances in files keep their meaning.
    """
    if n_classes == 2:
        return np.array([[0.0], [1.0]])
    before = np.arange(1.0, n_classes)
    against = np.triu(np.ones((n_classes, n_classes - 1)))
    against[np.arange(1, n_classes), np.arange(n_classes - 1)] = -before
    return np.asarray(against / np.sqrt(before * (before + 1.0)))


@dataclass(frozen=True)
class Gaussian(OneScore):
    """Real targets: y = score + noise."""

    has_dispersion = True

    def _possible(self, y: Array) -> NDArray[Any]:
        return np.ones(len(y), dtype=bool)

    def start(self, y: Array, weights: Array) -> Array:
        return np.array([weights @ y / weights.sum()])

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:
        squares = (y - scores[..., 0]) ** 2 / dispersion
        return np.asarray(-0.5 * (squares + np.log(2.0 * np.pi * dispersion)))

    def derivatives(self, y: Array, score: Array) -> tuple[Array, Array, Array]:
        return y - score, np.ones_like(score), np.zeros_like(score)

    def mean(self, score: Array) -> Array:
        return score

    def variance(self, mean: Array) -> Array:
        return np.ones_like(mean)

    def predictive(
        self, score: Array, variance: Array, dispersion: Array | float = 1.0
    ) -> tuple[Array, Array]:
        return score, variance + dispersion


@dataclass(frozen=True)
class Student(Gaussian):
    """Real targets with outliers; fewer degrees of freedom give these less weight."""

    df: float = 4.0

    def __post_init__(self) -> None:
        if not self.df > 0:
            raise ValueError(f"`df` must be positive; got {self.df}. 4 is a good choice.")

    def precisions(self, squares: Array) -> Array:
        """Return the mean precision of rows whose squared errors, over σ², are known."""
        return np.asarray((self.df + 1.0) / (self.df + squares))


@dataclass(frozen=True)
class Quantile(Gaussian):
    """Real targets, of which the score is a quantile, in units of their noise.

    An asymmetric Laplace density: the check loss (quantile - [r < 0]) r of a residual r, convolved
    with a logistic kernel to quantile · r + width · log(1 + exp(-r / width)), over a fixed scale:
    one learned from the same residuals would fall with every overfitted task.
    """

    quantile: float = 0.5
    width: float = 0.1
    has_dispersion = False

    @property
    def scale(self) -> float:
        """Scale at which information is the variance of slopes, as of a likelihood (Bartlett)."""
        density = np.exp(-0.5 * ndtri(self.quantile) ** 2) / np.sqrt(2.0 * np.pi)
        return float(self.quantile * (1.0 - self.quantile) / density)

    @property
    def typical(self) -> Family:
        return Gaussian()

    @property
    def wider(self) -> Family | None:
        return replace(self, width=10.0 * self.width) if self.width < _WIDEST else None

    def start(self, y: Array, weights: Array) -> Array:  # noqa: ARG002
        return np.zeros(1)

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:  # noqa: ARG002
        rest, shape = (y - scores[..., 0]) / self.width, self.width / self.scale
        loss = shape * (self.quantile * rest + np.logaddexp(0.0, -rest))
        mass = betaln(shape * self.quantile, shape * (1.0 - self.quantile)) + np.log(self.width)
        return np.asarray(-loss - mass)

    def derivatives(self, y: Array, score: Array) -> tuple[Array, Array, Array]:
        below = expit((score - y) / self.width)
        bend = below * (1.0 - below) / (self.width * self.scale)
        return (self.quantile - below) / self.scale, bend, bend * (1.0 - 2.0 * below) / self.width

    def predictive(
        self,
        score: Array,
        variance: Array,
        dispersion: Array | float = 1.0,  # noqa: ARG002
    ) -> tuple[Array, Array]:
        return score, variance  # of the quantile, not of the targets


@dataclass(frozen=True)
class Bernoulli(OneScore):
    """Targets 0 and 1, logit link."""

    _rule, _remedy = "0 or 1", "Encode the classes"

    def _possible(self, y: Array) -> NDArray[Any]:
        return np.isin(y, (0.0, 1.0))

    def start(self, y: Array, weights: Array) -> Array:
        return np.array([logit((weights @ y + 0.5) / (weights.sum() + 1.0))])

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:  # noqa: ARG002
        return np.asarray(y * scores[..., 0] - np.logaddexp(0.0, scores[..., 0]))

    def derivatives(self, y: Array, score: Array) -> tuple[Array, Array, Array]:
        p = expit(score)
        w = p * expit(-score)
        return y - p, w, w * (1.0 - 2.0 * p)

    def mean(self, score: Array) -> Array:
        return np.asarray(expit(score))

    def variance(self, mean: Array) -> Array:
        return mean * (1.0 - mean)


@dataclass(frozen=True)
class Multinomial(Family):
    """Targets 0 ... n_classes - 1, at least 3 classes; scores are contrasts between them."""

    n_classes: int
    _rule, _remedy = "numbers of classes", "Encode them"

    @property
    def n_scores(self) -> int:  # type: ignore[override]
        return self.n_classes - 1

    @property
    def basis(self) -> Array:
        """Map from scores to classes, orthonormal."""
        return contrasts(self.n_classes)

    def _possible(self, y: Array) -> NDArray[Any]:
        return np.isin(y, np.arange(self.n_classes))

    def start(self, y: Array, weights: Array) -> Array:
        shares = np.bincount(y.astype(np.intp), weights, self.n_classes) + 0.5
        return np.asarray(np.log(shares) @ self.basis)

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:  # noqa: ARG002
        logs = log_softmax(self._classes(scores), axis=0)
        return np.asarray(np.take_along_axis(logs, y.astype(np.intp)[None], axis=0)[0])

    def probabilities(self, scores: Array) -> Array:
        """Softmax of the classes."""
        return np.moveaxis(softmax(self._classes(scores), axis=0), 0, -1)

    def _classes(self, scores: Array) -> Array:
        """Scores of the classes, which come first: sums over a short last axis are slow."""
        return np.ascontiguousarray(np.moveaxis(scores @ self.basis.T, -1, 0))

    def predictive(self, scores: Array, covariance: Array) -> Array:
        """Probabilities of classes whose scores are Gaussian, given one row of scores each."""
        return softmax_means(self.basis, scores, covariance)

    def averaged(self, y: Array, scores: Array, covariance: Array) -> tuple[Array, Array]:
        q, B, flat = self.n_scores, self.basis, y.ravel().astype(np.intp)
        p, pairs = softmax_moments(B, scores.reshape(-1, q), covariance.reshape(-1, q, q))
        slope = (np.eye(self.n_classes)[flat] - p) @ B
        bend = B.T @ (p[:, :, None] * np.eye(self.n_classes) - pairs) @ B
        return slope.reshape(scores.shape), bend.reshape(covariance.shape)

    def slope(self, y: Array, scores: Array) -> Array:
        one_hot = np.eye(self.n_classes)[y.astype(np.intp)]
        return np.asarray((one_hot - self.probabilities(scores)) @ self.basis)

    def curvature(self, y: Array, scores: Array) -> Array:  # noqa: ARG002
        p, B = self.probabilities(scores), self.basis
        mean, pairs = p @ B, (B[:, :, None] * B[:, None, :]).reshape(len(B), -1)
        squares = (p @ pairs).reshape(*mean.shape, -1)
        return np.asarray(squares - mean[..., :, None] * mean[..., None, :])

    def curvature_slope(self, y: Array, scores: Array, spread: Array) -> Array:  # noqa: ARG002
        p, B = self.probabilities(scores), self.basis
        own = np.einsum("kq,...qs,ks->...k", B, spread, B, optimize=True)
        by_class = own - 2.0 * ((p @ B)[..., None, :] @ spread)[..., 0, :] @ B.T
        mean = np.sum(p * by_class, axis=-1, keepdims=True)
        return np.asarray((p * (by_class - mean)) @ B)


class _LogLink(OneScore):
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
        own, mean = self._parts(y, score)
        return own - mean, high * mean - low * own, high**2 * mean - low**2 * own

    def _parts(self, y: Array, score: Array) -> tuple[Array, Array]:
        """Y mean^(1 - power) and mean^(2 - power), by which the quasi-likelihood is linear."""
        low, high = 1.0 - self.power, 2.0 - self.power
        own = y * self.mean(low * score) if low else y
        return own, self.mean(high * score) if high else np.ones_like(score)


@dataclass(frozen=True)
class Poisson(_LogLink):
    """Counts, log link, with a dispersion that allows for overdispersion."""

    least_dispersion = 1.0
    power = 1.0

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:
        logs = y * scores[..., 0] - self.mean(scores[..., 0]) - gammaln(y + 1.0)
        return np.asarray(logs / dispersion)


@dataclass(frozen=True)
class Gamma(_LogLink):
    """Positive targets with a standard deviation proportional to the mean, log link."""

    power = 2.0
    _rule, _remedy = "more than 0", "Use a Tweedie family for zeros"

    def _possible(self, y: Array) -> NDArray[Any]:
        return y > 0

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:
        k, score = 1.0 / dispersion, scores[..., 0]  # k is the shape
        kernel = -k * (y * self.mean(-score) + score)
        return np.asarray(kernel + k * np.log(k) - gammaln(k) + (k - 1.0) * np.log(y))


@dataclass(frozen=True)
class Tweedie(_LogLink):
    """Targets of at least 0, many perhaps exactly 0: sums of a random number of gammas.

    The power lies between 1 (Poisson) and 2 (gamma).
    """

    power: float = 1.5

    def __post_init__(self) -> None:
        if not 1.0 < self.power < 2.0:
            raise ValueError(
                f"`power` must lie between 1 and 2; got {self.power}. Use Poisson or Gamma for the "
                "ends."
            )

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:
        # A quasi-log-likelihood: up to a function of y and the dispersion.
        own, mean = self._parts(y, scores[..., 0])
        return np.asarray((own / (1.0 - self.power) - mean / (2.0 - self.power)) / dispersion)


CANONICAL = Bernoulli, Multinomial, Poisson  # slopes are target minus mean
