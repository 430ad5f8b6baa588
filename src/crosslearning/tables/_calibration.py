"""Whether intervals and probabilities hold on held-out rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.convex.families import Gaussian, Quantile
from crosslearning.evaluation.calibration import reliability
from crosslearning.evaluation.numbers import percent
from crosslearning.tables.forecast import family_of, intervals, main_part
from crosslearning.tables.rows import Rows

_LEVELS = (0.5, 0.8, 0.9, 0.95)


def held(
    rows: Rows, said: NDArray[np.float64], sds: NDArray[np.float64], state: dict[str, Any]
) -> dict[str, Any]:
    """Check what was `said` of rows, NaN of those not held out, with a model in this `state`.

    Of two classes it is the probability of the second, of more that of the predicted one. Normal
    targets are left to the errors of other splits, which their intervals are made of.
    """
    if rows.classes is not None:
        known = np.isfinite(said).all(axis=1)
        shares, true = said[known], np.searchsorted(rows.classes, rows.y[known])
        two = len(rows.classes) == 2
        guess = np.ones_like(true) if two else shares.argmax(axis=1)
        found = reliability(shares[np.arange(len(true)), guess], true == guess)
        return {"reliability": {"class": rows.classes[1] if two else None, **found}}
    family = family_of(main_part(state))
    if isinstance(family, Quantile):
        known = np.isfinite(said)
        below = np.average(rows.y[known] <= said[known], weights=rows.given_weights[known])
        return {"notes": [f"{percent(below)} of the held-out targets are at most their prediction"]}
    if isinstance(family, Gaussian):
        return {}
    known = np.isfinite(said) & np.isfinite(sds)
    y, seen, none = rows.y[known], np.ones(known.sum(), dtype=bool), np.empty(0)
    points = []
    for level in _LEVELS:
        low, high = intervals(state, said[known], sds[known], seen, none, level)
        inside = (y >= low) & (y <= high)
        points.append({"nominal": level, "observed": float(inside.mean())})
    return {"calibration": points}
