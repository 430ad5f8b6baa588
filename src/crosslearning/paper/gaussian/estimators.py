"""Estimators of several means at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.coupling import Projection, project
from crosslearning.paper.gaussian.error import number


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

    `means` has shape (N,) or (N, S), and `sigma_m` is the standard deviation of each number. The
    target is a fixed point, :math:`d = NS`, or "mean", that of the groups, :math:`d = (N - 1) S`.

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
