"""Central intervals of predictive distributions, by their mean and standard deviation."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri, stdtrit

from crosslearning.convex.families import Gaussian, OneScore, Poisson, Student, Tweedie
from crosslearning.tether import Array

_SMALLEST = 1e-12  # of what a count varies beyond Poisson's, relative to its mean


def predictive_interval(
    family: OneScore, mean: Array, sd: Array, dispersion: float, coverage: float
) -> tuple[Array, Array]:
    """Lower and upper end; of counts and positive targets by matching the first two moments.

    `mean` and `sd` are those of the targets; as much is left out below as above.
    """
    tails = np.array([[0.5 * (1.0 - coverage)], [0.5 * (1.0 + coverage)]])
    ends = _quantiles(family, mean, sd, dispersion, tails)
    return ends[0], ends[1]


def capped(mean: Array, sd: Array, largest: Array | float) -> tuple[Array, Array]:
    """Shrink means beyond the largest that is believed, and their deviations alike."""
    share = np.minimum(1.0, largest / np.maximum(mean, np.finfo(np.float64).tiny))
    return (mean, sd) if np.all(share == 1.0) else (share * mean, share * sd)


def limits(family: OneScore, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return ends that such targets can have: not negative, whole counts."""
    if isinstance(family, Gaussian):
        return lower, upper
    lower = np.maximum(lower, 0.0)
    if isinstance(family, Poisson):  # the same counts are between them
        lower = np.ceil(lower)
        upper = np.maximum(np.floor(upper), lower)
    return lower, upper


def _quantiles(family: OneScore, mean: Array, sd: Array, dispersion: float, levels: Array) -> Array:
    if isinstance(family, Student):
        return np.asarray(mean + sd * stdtrit(family.df, levels))
    if isinstance(family, Gaussian):
        return np.asarray(mean + sd * ndtri(levels))
    from scipy import stats  # takes long to import

    variance = sd**2
    if isinstance(family, Poisson):  # and gamma rates: negative binomial
        extra = np.maximum(variance / mean - 1.0, _SMALLEST)
        return np.asarray(stats.nbinom.ppf(levels, mean / extra, 1.0 / (1.0 + extra)))
    zero = np.zeros_like(mean)
    if isinstance(family, Tweedie):  # a Poisson number of gammas may be none
        power = family.power
        zero = np.exp(-(mean ** (2.0 - power)) / (dispersion * (2.0 - power)))
    positive = mean / (1.0 - zero)
    spread = np.maximum((variance + mean**2) / (1.0 - zero) - positive**2, _SMALLEST * positive**2)
    inner = np.clip((levels - zero) / (1.0 - zero), 0.0, 1.0)
    ends = stats.gamma.ppf(inner, positive**2 / spread, scale=spread / positive)
    return np.asarray(np.where(levels <= zero, 0.0, ends))
