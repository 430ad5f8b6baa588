"""Real targets with outliers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from crosslearning.convex.families.gaussian import Gaussian
from crosslearning.tether import Array


@dataclass(frozen=True)
class Student(Gaussian):
    """Real targets with outliers; fewer degrees of freedom give these less weight."""

    df: float = 4.0
    name, words, parameters = "student", "real numbers with outliers", ("df",)
    label = "robust"

    def __post_init__(self) -> None:
        if not self.df > 0:
            raise ValueError(f"`df` must be positive; got {self.df}. 4 is a good choice.")

    def quantiles(self, mean: Array, sd: Array, dispersion: float, levels: Array) -> Array:  # noqa: ARG002
        return np.asarray(mean + sd * stdtrit(self.df, levels))

    def precisions(self, squares: Array) -> Array:
        """Return the mean precision of rows whose squared errors, over σ², are known."""
        return np.asarray((self.df + 1.0) / (self.df + squares))
