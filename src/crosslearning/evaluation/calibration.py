"""Whether predicted probabilities hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BINS = 10


@dataclass(frozen=True)
class ReliabilityBin:
    """Mean probability and observed frequency, with its 95 % interval, of `count` rows."""

    predicted: float
    observed: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Reliability:
    """Probabilities of a class, or of the predicted one, and their mean error, `off`."""

    class_: Any
    bins: tuple[ReliabilityBin, ...]
    off: float


def reliability(
    probabilities: NDArray[np.floating], happened: NDArray[np.bool_], label: Any = None
) -> Reliability:
    """Compare predicted probabilities of a class with how often it was true.

    Bins have equal width. Intervals of frequencies are those of Jeffreys. The mean error is the
    mean absolute difference between the two (expected calibration error).

    >>> checked = reliability(np.array([0.25, 0.25, 0.9]), np.array([False, True, True]))
    >>> [(row.predicted, row.observed, row.count) for row in checked.bins]
    [(0.25, 0.5, 2), (0.9, 1.0, 1)]
    >>> round(checked.off, 3)
    0.2
    """
    from scipy.special import betaincinv  # which predictions of a stored model do without

    at = np.minimum((probabilities * _BINS).astype(np.intp), _BINS - 1)
    count, predicted, true = (
        np.bincount(at, weights, _BINS) for weights in (None, probabilities, happened)
    )
    used = count > 0
    count, predicted, true = count[used], predicted[used], true[used]
    low, high = (betaincinv(true + 0.5, count - true + 0.5, tail) for tail in (0.025, 0.975))
    columns = (predicted / count, true / count, low, high, count)
    rows = zip(*(values.tolist() for values in columns), strict=True)
    off = float(np.abs(predicted - true).sum() / count.sum())
    return Reliability(label, tuple(ReliabilityBin(*row) for row in rows), off)
