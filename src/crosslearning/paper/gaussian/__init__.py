r"""Cross-learning of Gaussian means: the example in which everything is known in closed form.

Two groups of :math:`M` samples have means :math:`\varepsilon_0` apart (``gap``), and sample means
of standard deviation :math:`\sigma_M = \sigma / \sqrt M` (``sigma_m``). The two estimates may
differ by at most :math:`\varepsilon` (``max_gap``): a ball of *radius* ``max_gap / 2`` around a
free centre. 0 is consensus, ``inf`` is agnostic. Corrections to the paper are noted in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.coupling import Projection, project

__all__ = [
    "MonteCarlo", "TwoMeans", "beneficial_from", "best_max_gap", "cross_means", "james_stein",
    "monte_carlo", "mse", "mse_derivative", "two_means",
]  # fmt: skip

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


class TwoMeans(NamedTuple):
    """Estimates of two means."""

    x: float
    y: float


def two_means(x: ArrayLike, y: ArrayLike, max_gap: float) -> TwoMeans:
    r"""Estimate two means that differ by at most ``max_gap``.

    .. math::

        \min_{\hat\mu_x, \hat\mu_y} (\bar x - \hat\mu_x)^2 + (\bar y - \hat\mu_y)^2
        \quad\text{subject to}\quad |\hat\mu_x - \hat\mu_y| \le \varepsilon

    `x` and `y` have shape (n_samples,); both groups have equal weight, whatever their size.

    >>> two_means([0.0, 2.0], [5.0], max_gap=2)
    TwoMeans(x=2.0, y=4.0)
    >>> two_means([0.0, 2.0], [5.0], max_gap=0)
    TwoMeans(x=3.0, y=3.0)
    """
    limit = number("max_gap", max_gap)
    a, b = (_group_mean(name, group).item() for name, group in (("x", x), ("y", y)))
    if abs(a - b) <= limit:
        return TwoMeans(a, b)
    middle, half = a / 2 + b / 2, math.copysign(limit / 2, a - b)
    return TwoMeans(middle + half, middle - half)


def cross_means(samples: Sequence[ArrayLike], epsilon: float) -> Projection:
    """Estimate the means of several groups, all within ``epsilon`` of a free centre.

    `samples` are N arrays of shape (n_samples,) or (n_samples, S); every group has equal weight,
    whatever its size. There may be one radius per group.

    >>> cross_means([[0.0, 2.0], [5.0]], epsilon=1).thetas
    array([[2.],
           [4.]])
    """
    means = [_group_mean(f"samples[{i}]", group) for i, group in enumerate(samples)]
    return project(np.stack(means), epsilon)


def _group_mean(name: str, group: ArrayLike) -> NDArray[np.float64]:
    """Return the mean of one group as a vector."""
    samples = np.asarray(group, dtype=np.float64)
    if samples.ndim == 0 or samples.size == 0 or not np.isfinite(samples).all():
        raise ValueError(
            f"`{name}` must be an array of finite samples, at least one; got {group!r}. Remove "
            "groups without samples, and fill in missing values."
        )
    return np.atleast_1d(samples.mean(axis=0))


def james_stein(means: ArrayLike, sigma_m: float, target: ArrayLike = 0.0) -> NDArray[np.float64]:
    r"""Shrink sample means towards a target: the positive-part James-Stein estimator.

    .. math::

        \hat\mu = t + \Bigl(1 - \frac{(d - 2) \sigma_M^2}{\lVert \bar x - t \rVert^2}\Bigr)_+
        (\bar x - t)

    With three or more degrees of freedom its expected total squared error is below that of the
    sample means, whatever the true means are; with fewer there is no such estimator.

    `means` has shape (N,) or (N, S). The target is a fixed point, :math:`d = NS`, or "mean", that
    of the groups, :math:`d = (N - 1) S`.

    >>> james_stein([1.0, 2.0, 2.0], sigma_m=1.5)
    array([0.75, 1.5 , 1.5 ])
    """
    sigma = number("sigma_m", sigma_m)
    x = np.asarray(means, dtype=np.float64)
    to_mean = isinstance(target, str) and target == "mean"
    freedom = x.size - x[:1].size if to_mean else x.size
    if freedom < 3:
        raise ValueError(
            f"The James-Stein estimator needs 3 degrees of freedom; got {freedom} from means of "
            f"shape {x.shape}. Add groups, or keep the sample means."
        )
    t = np.broadcast_to(x.mean(axis=0) if to_mean else np.asarray(target, np.float64), x.shape)
    distance = float(np.linalg.norm(x - t))
    ratio = sigma / distance if distance else math.inf
    return np.asarray(t + max(0.0, 1.0 - (freedom - 2) * ratio * ratio) * (x - t))


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
