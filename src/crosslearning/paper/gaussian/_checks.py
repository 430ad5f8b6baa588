"""Checks of input, with the rule, the value and the next step."""

from __future__ import annotations

import math
import reprlib

import numpy as np
from numpy.typing import ArrayLike, NDArray

_ENDS = "Use 0 to merge the two groups, `math.inf` to estimate them separately."
_DEVIATION = "is a standard deviation and must be finite and positive"
_OF_ONE = "Use the standard deviation of one sample"
_RULES = {  # the rule and the next step
    "max_gap": ("is a distance and must be at least 0", _ENDS),
    "gap": ("is a distance and must be finite and at least 0", "Use 0 if the means are equal."),
    "sigma": (_DEVIATION, f"{_OF_ONE}."),
    "sigma_m": (_DEVIATION, f"{_OF_ONE} over the root of the number of samples."),
}


def numbers(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Convert to an array, and check the rule for this name; NaN violates it."""
    rule, remedy = _RULES[name]
    array = _floats(name, value)
    good = array >= 0 if "gap" in name else array > 0
    good &= (array < math.inf) | (name == "max_gap")
    if not good.all():
        raise ValueError(f"`{name}` {rule}; got {array[~good].flat[0]}. {remedy}")
    return array


def number(name: str, value: float) -> float:
    """Check one value."""
    array = numbers(name, value)
    if array.ndim:
        raise ValueError(
            f"`{name}` must be one number; got an array of shape {array.shape}. "
            "Call the function once for each value."
        )
    return float(array)


def finite(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Convert to an array of finite numbers."""
    array = _floats(name, value)
    bad = ~np.isfinite(array)
    if bad.any():
        raise ValueError(
            f"`{name}` must be finite; got {array[bad].flat[0]} at {np.argwhere(bad)[0].tolist()}. "
            "Remove such values or fill them in."
        )
    return array


def group_mean(name: str, group: ArrayLike, max_ndim: int) -> NDArray[np.float64]:
    """Return the mean of one group as a vector."""
    samples = finite(name, group)
    if not 1 <= samples.ndim <= max_ndim or samples.size == 0:
        raise ValueError(
            f"`{name}` must hold at least one sample and have at most {max_ndim} dimension(s); got "
            f"the shape {samples.shape}. Remove groups without samples."
        )
    return np.atleast_1d(samples.mean(axis=0))


def _floats(name: str, value: ArrayLike) -> NDArray[np.float64]:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"`{name}` must consist of numbers, in rows of one length; got {reprlib.repr(value)}. "
            "Convert it to an array of floats first."
        ) from None
