"""Real targets with Gaussian noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.convex.families.base import OneScore
from crosslearning.tether import Array


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
