"""The mean squared error of two cross-learned means, in closed form and by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

_BATCH = 1 << 14  # realisations held in memory at once
_FAR = 30.0  # erfc is 0 in float64 from 26.6 on
_REMEDIES = {
    "max_gap": "Use 0 to merge the two groups, `math.inf` to estimate them separately.",
    "gap": "Use 0 if the means are equal.",
    "sigma": "Use the standard deviation of one sample.",
    "sigma_m": "Use the standard deviation of one sample over the root of the number of samples.",
}


def numbers(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Convert to an array, and check the rule for this name; NaN violates it."""
    array = np.asarray(value, dtype=np.float64)
    is_distance, may_be_infinite = "gap" in name, name == "max_gap"
    good = (array >= 0 if is_distance else array > 0) & ((array < math.inf) | may_be_infinite)
    if not good.all():
        rule = "at least 0" if is_distance else "positive"
        rule = rule if may_be_infinite else f"finite and {rule}"
        bad = array[~good].flat[0]
        raise ValueError(f"`{name}` must be {rule}; got {bad}. {_REMEDIES[name]}")
    return array


def number(name: str, value: float) -> float:
    """Check one value."""
    return float(numbers(name, value))


def mse(max_gap: ArrayLike, gap: float, sigma_m: float) -> NDArray[np.float64]:
    r"""Mean squared error of each estimate of `two_means`.

    .. math::

        \frac{\sigma_M^2}{2} \Bigl[1
        + \frac{\alpha e^{-\alpha^2} - \beta e^{-\beta^2}}{\sqrt\pi}
        + \frac{\operatorname{erf}\beta - \operatorname{erf}\alpha}{2}
        + \alpha^2 (1 + \operatorname{erf}\alpha) + \beta^2 (1 - \operatorname{erf}\beta)\Bigr],
        \quad \alpha = -\frac{\varepsilon + \varepsilon_0}{2 \sigma_M},
        \quad \beta = \frac{\varepsilon - \varepsilon_0}{2 \sigma_M}

    Exactly :math:`\sigma_M^2 / 2 + \varepsilon_0^2 / 4` at ``max_gap=0`` and
    :math:`\sigma_M^2` at ``inf``; at ``max_gap=gap`` at most :math:`3/4` of the latter (Claim 1).

    `max_gap` is the largest difference of the estimates, `gap` that of the true means, `sigma_m`
    the standard deviation of a sample mean.

    The paper prints :math:`e(\beta)` for :math:`\operatorname{erf}(\beta)`. It gives the limit for
    :math:`\varepsilon \to \infty` as :math:`\sigma_M` in place of :math:`\sigma_M^2`, and calls the
    error at :math:`\varepsilon_0` "3/4 lower" than it: it is 3/4 *of* it, a quarter lower.

    >>> mse([0, 2, 6, np.inf], gap=2, sigma_m=1).round(5)
    array([1.5    , 0.74785, 0.99785, 1.     ])
    """
    e, e0, s, a, b = _standardised(max_gap, gap, sigma_m)
    # Reflecting b < 0 takes the squared bias out of the brackets and is exact at max_gap = 0.
    brackets = 1.0 + _spread(a) + np.sign(b) * _spread(np.abs(b))
    return np.asarray(s * s / 2 * brackets + np.maximum(e0 - e, 0.0) ** 2 / 4)


def mse_derivative(max_gap: ArrayLike, gap: float, sigma_m: float) -> NDArray[np.float64]:
    r"""Differentiate `mse` with respect to ``max_gap``; the parameters are the same.

    .. math::

        \frac{\sigma_M}{2} \bigl(\beta (1 - \operatorname{erf}\beta)
        - \alpha (1 + \operatorname{erf}\alpha)\bigr)

    It is negative at ``max_gap=0`` if the means differ (Claim 2), and positive from ``gap`` on.
    The paper prints twice this; at 0 its factor :math:`\varepsilon_0 / \sigma_M` should be
    :math:`\varepsilon_0 / 2`. The sign, and with it the proof of Claim 2, survives.

    >>> mse_derivative([0, 2, np.inf], gap=2, sigma_m=1).round(5)
    array([-0.8427 ,  0.00468,  0.     ])
    """
    from scipy.special import erf, erfc  # at the first call: scipy takes long to import

    e, e0, s, a, b = _standardised(max_gap, gap, sigma_m)
    # Two equivalent forms: the first loses digits in the tail, the second for small gaps.
    near = e - s * (a * erf(a) + b * erf(b))
    far = s * (a * erfc(a) + np.abs(b) * erfc(np.abs(b))) - np.maximum(e0 - e, 0.0)
    return np.asarray(np.where(a < 1, near, far) / 2)


def best_max_gap(gap: float, sigma_m: float) -> float:
    """Return the ``max_gap`` with the smallest `mse`: below ``gap``, and close to a large one.

    The paper's Claim 2, that some ``max_gap > 0`` is strictly better than consensus, is stated for
    all gaps. It holds for ``gap > 0`` only: if the means are equal the best value is 0, consensus.

    >>> round(best_max_gap(gap=2, sigma_m=1), 5)
    1.98078
    >>> best_max_gap(gap=0, sigma_m=1)
    0.0
    """
    e0, s = number("gap", gap), number("sigma_m", sigma_m)
    if e0 < 1e-8 * s:  # the first term of the series; the next one is below rounding
        return e0 * (e0 / s) / math.sqrt(math.pi)
    return _crossing(mse_derivative, e0, s)


def beneficial_from(gap: float, sigma_m: float) -> float:
    r"""Return the value above which every ``max_gap`` has a smaller `mse` than separate estimates.

    The paper speaks of "a range of values around :math:`\varepsilon_0`", but it has no upper end:
    the error approaches that of separate estimates from below. The range starts at 0 if ``gap`` is
    at most :math:`\sqrt 2 \sigma_M`.

    >>> round(beneficial_from(gap=2, sigma_m=1), 3)
    0.767
    >>> beneficial_from(gap=1, sigma_m=1)
    0.0
    """
    e0, s = number("gap", gap), number("sigma_m", sigma_m)
    if e0 <= math.sqrt(2) * s:
        return 0.0
    return _crossing(lambda e, e0, s: mse(e, e0, s) - s * s, e0, s)


class MonteCarlo(NamedTuple):
    """Simulated mean squared errors and their standard errors, in the shape of ``max_gap``."""

    mse: NDArray[np.float64]
    standard_error: NDArray[np.float64]


def monte_carlo(
    max_gap: ArrayLike, gap: float, sigma_m: float, *, realizations: int = 100_000, seed: int = 0
) -> MonteCarlo:
    """Estimate `mse` by simulation.

    All values of ``max_gap`` share the same realisations, which sharpens differences between them.

    >>> simulated = monte_carlo([0, 2], gap=2, sigma_m=1)
    >>> bool((abs(simulated.mse - mse([0, 2], 2, 1)) < 4 * simulated.standard_error).all())
    True
    """
    e, e0, s = numbers("max_gap", max_gap), number("gap", gap), number("sigma_m", sigma_m)
    if not realizations >= 2:
        raise ValueError(
            f"`realizations` must be at least 2 for a standard error; got {realizations}. "
            "The paper uses 100000."
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


def _spread(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return twice the integral of t erfc(t) from 0 to x, which rises from 0 to 1/2."""
    from scipy.special import erf, erfc

    return np.asarray(x**2 * erfc(x) - x * np.exp(-(x**2)) / math.sqrt(math.pi) + erf(x) / 2)


def _standardised(
    max_gap: ArrayLike, gap: float, sigma_m: float
) -> tuple[NDArray[np.float64], float, float, NDArray[np.float64], NDArray[np.float64]]:
    """Check, and return the paper's ε, ε_0, σ_M, -α and β, these two clipped where erfc is 0."""
    e, e0, s = numbers("max_gap", max_gap), number("gap", gap), number("sigma_m", sigma_m)
    with np.errstate(over="ignore"):
        a, b = ((e + d) / (2 * s) for d in (e0, -e0))
    return e, e0, s, np.minimum(a, _FAR), np.clip(b, -_FAR, _FAR)


def _crossing(
    function: Callable[[float, float, float], NDArray[np.float64]], e0: float, s: float
) -> float:
    """Find the root of ``function`` between 0 and ``e0``, in units of ``s``."""
    from scipy.optimize import brentq

    far, eps, tiny = e0 / s, np.finfo(float).eps, np.finfo(float).tiny
    if far > 1 / eps:  # the root is less than a rounding error below e0
        return e0
    root = brentq(lambda e: float(function(e, far, 1.0)), 0.0, far, xtol=tiny, rtol=4 * eps)
    return min(s * float(root), e0)
