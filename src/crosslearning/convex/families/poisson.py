"""Counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from crosslearning.convex.families.log_link import LogLink
from crosslearning.tether import Array


@dataclass(frozen=True)
class Poisson(LogLink):
    """Counts, log link, with a dispersion that allows for overdispersion."""

    least_dispersion = 1.0
    power = 1.0

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:
        logs = y * scores[..., 0] - self.mean(scores[..., 0]) - gammaln(y + 1.0)
        return np.asarray(logs / dispersion)
