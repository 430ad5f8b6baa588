"""Targets of at least 0, many perhaps exactly 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslearning.convex.families.base import LogLink
from crosslearning.tether import Array


@dataclass(frozen=True)
class Tweedie(LogLink):
    """Targets of at least 0, many perhaps exactly 0: sums of a random number of gammas.

    The power lies between 1 (Poisson) and 2 (gamma).
    """

    power: float = 1.5
    name, words, parameters = "tweedie", "amounts, many of them 0", ("power",)
    by_passes = quasi = True

    def __post_init__(self) -> None:
        if not 1.0 < self.power < 2.0:
            raise ValueError(
                f"`power` must lie between 1 and 2; got {self.power}. Use Poisson or Gamma for the "
                "ends."
            )

    def _zero(self, mean: Array, dispersion: float) -> Array:
        # A sum of gammas may have no terms.
        return np.asarray(np.exp(-(mean ** (2.0 - self.power)) / (dispersion * (2.0 - self.power))))

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:
        # A quasi-log-likelihood: up to a function of y and the dispersion.
        data, mean = self._parts(y, scores[..., 0])
        return np.asarray((data / (1.0 - self.power) - mean / (2.0 - self.power)) / dispersion)
