"""Whether predicted probabilities hold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

_BINS = 10


def reliability(probabilities: NDArray[np.floating], happened: NDArray[np.bool_]) -> dict[str, Any]:
    """Compare predicted probabilities with how often the events happened.

    ``bins`` of equal width have the mean ``predicted`` probability, the ``observed`` frequency, its
    95 % interval from ``low`` to ``high`` (Jeffreys) and the number of events, ``count``. ``off``
    is the mean absolute difference between the two (expected calibration error).

    >>> found = reliability(np.array([0.25, 0.25, 0.9]), np.array([False, True, True]))
    >>> [(row["predicted"], row["observed"], row["count"]) for row in found["bins"]]
    [(0.25, 0.5, 2), (0.9, 1.0, 1)]
    >>> round(found["off"], 3)
    0.2
    """
    at = np.minimum((probabilities * _BINS).astype(np.intp), _BINS - 1)
    count, predicted, true = (
        np.bincount(at, weights, _BINS) for weights in (None, probabilities, happened)
    )
    used = count > 0
    count, predicted, true = count[used], predicted[used], true[used]
    low, high = (betaincinv(true + 0.5, count - true + 0.5, tail) for tail in (0.025, 0.975))
    table = {
        "predicted": predicted / count,
        "observed": true / count,
        "low": low,
        "high": high,
        "count": count,
    }
    rows = zip(*(values.tolist() for values in table.values()), strict=True)
    return {
        "bins": [dict(zip(table, row, strict=True)) for row in rows],
        "off": float(np.abs(predicted - true).sum() / count.sum()),
    }
