"""Mean squared error of two cross-learned means, by simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crosslearning.paper.gaussian.validation import number, numbers

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_BATCH = 1 << 14  # realisations held in memory at once


class MonteCarlo(NamedTuple):
    """Simulated mean squared errors and their standard errors, in the shape of ``max_gap``."""

    mse: NDArray[np.float64]
    standard_error: NDArray[np.float64]


def monte_carlo(
    max_gap: ArrayLike, gap: float, sigma_m: float, *, realizations: int = 100_000, seed: int = 0
) -> MonteCarlo:
    """Simulate the mean squared error of `two_means`.

    All values of ``max_gap`` see the same realisations, so that differences between them are
    sharper than each alone; a value does not depend on which others are asked for.

    Parameters
    ----------
    max_gap, gap, sigma_m
        As in `mse`.
    realizations : int, default=100_000
        Number of pairs of sample means, at least 2. Memory does not grow with it.
    seed : int, default=0
        Seed of the random numbers.

    Examples
    --------
    >>> from crosslearning.paper.gaussian import mse
    >>> simulated = monte_carlo([0, 2], gap=2, sigma_m=1)
    >>> bool((abs(simulated.mse - mse([0, 2], 2, 1)) < 4 * simulated.standard_error).all())
    True
    """
    e, e0, s = numbers("max_gap", max_gap), number("gap", gap), number("sigma_m", sigma_m)
    if not realizations >= 2:
        raise ValueError(
            f"`realizations` must be at least 2 to know the error; got {realizations}. "
            "The paper takes 100000."
        )
    rng = np.random.default_rng(seed)
    count, mean, scatter = 0, np.zeros(e.shape), np.zeros(e.shape)
    while count < realizations:
        n = min(_BATCH, realizations - count)
        x, y = s * rng.standard_normal((2, n))  # errors of the sample means
        for i, limit in np.ndenumerate(e):
            errors = ((x + y) / 2 + np.clip((x - y) / 2, (-limit - e0) / 2, (limit - e0) / 2)) ** 2
            # Means and sums of squares of two sets, merged (Chan, Golub and LeVeque).
            step = errors.mean() - mean[i]
            scatter[i] += errors.var() * n + step**2 * (n * count / (n + count))
            mean[i] += step * (n / (n + count))
        count += n
    return MonteCarlo(mean, np.sqrt(scatter / (count - 1) / count))
