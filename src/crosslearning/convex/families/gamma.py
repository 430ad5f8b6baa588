"""Positive targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from crosslearning.convex.families.log_link import LogLink
from crosslearning.tether import Array


@dataclass(frozen=True)
class Gamma(LogLink):
    """Positive targets with a standard deviation proportional to the mean, log link."""

    power = 2.0
    _rule, _remedy = "more than 0", "Use a Tweedie family for zeros"

    def _possible(self, y: Array) -> NDArray[Any]:
        return y > 0

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:
        k, score = 1.0 / dispersion, scores[..., 0]  # k is the shape
        kernel = -k * (y * self.mean(-score) + score)
        return np.asarray(kernel + k * np.log(k) - gammaln(k) + (k - 1.0) * np.log(y))
