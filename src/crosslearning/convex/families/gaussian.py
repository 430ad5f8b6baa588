"""Real targets: with Gaussian noise, with outliers, and their quantiles."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, expit, ndtri, stdtrit

from crosslearning.convex.families.base import Family, OneScore
from crosslearning.tether import Array

_WIDEST = 1e4  # kernel of a quantile under which residuals far away bend the loss too


@dataclass(frozen=True)
class Gaussian(OneScore):
    """Real targets: y = score + noise."""

    name, words, also = "gaussian", "real numbers", ("student",)
    has_dispersion = True

    def possible(self, y: Array) -> NDArray[Any]:
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

    def deviance(self, y: Array, mean: Array) -> Array:
        return np.asarray((y - mean) ** 2)

    def predictive(
        self, score: Array, variance: Array, dispersion: Array | float = 1.0
    ) -> tuple[Array, Array]:
        return score, variance + dispersion


@dataclass(frozen=True)
class Student(Gaussian):
    """Real targets with outliers; fewer degrees of freedom give these less weight."""

    df: float = 4.0
    name, label, words, parameters = "student", "robust", "real numbers with outliers", ("df",)

    def __post_init__(self) -> None:
        if not self.df > 0:
            raise ValueError(f"`df` must be positive; got {self.df}. 4 is a good choice.")

    def quantiles(self, mean: Array, sd: Array, dispersion: float, levels: Array) -> Array:  # noqa: ARG002
        return np.asarray(mean + sd * stdtrit(self.df, levels))

    @property
    def information(self) -> float:
        """Fisher's information of a score at dispersion 1."""
        return (self.df + 1.0) / (self.df + 3.0)

    def variance(self, mean: Array) -> Array:
        return np.full_like(mean, self.df / (self.df - 2.0) if self.df > 2.0 else np.inf)

    def log_density_of(self, squares: Array) -> Array:
        """Return log densities of errors over σ, given their squares."""
        power, scale = 0.5 * (self.df + 1.0), betaln(0.5, 0.5 * self.df) + 0.5 * np.log(self.df)
        return np.asarray(-power * np.log1p(squares / self.df) - scale)

    def precisions(self, squares: Array) -> Array:
        """Return the mean precision of rows whose squared errors, over σ², are known."""
        return np.asarray((self.df + 1.0) / (self.df + squares))

    def variance_of_slopes(self, precisions: Array, squares: Array) -> float:
        """Return the information of a score that errors show, given their squares over σ²."""
        total = float(precisions @ squares)
        return float(precisions**2 @ squares) / total if total > 0 else self.information


@dataclass(frozen=True)
class Quantile(Gaussian):
    """Real targets, of which the score is a quantile, in units of their noise.

    An asymmetric Laplace density: the check loss of a residual r, convolved with a logistic kernel
    to quantile · r + width · log(1 + exp(-r / width)), over a fixed scale against overfitted tasks.
    """

    quantile: float = 0.5
    width: float = 0.1
    name, words, parameters = "quantile", "a quantile of real numbers", ("quantile",)
    has_dispersion, quasi = False, True

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

    def deviance(self, y: Array, mean: Array) -> Array:
        rest = y - mean
        return np.asarray(np.maximum(self.quantile * rest, (self.quantile - 1.0) * rest))

    def predictive(self, score: Array, variance: Array, *_: object) -> tuple[Array, Array]:
        return score, variance  # of the quantile, not of the targets
