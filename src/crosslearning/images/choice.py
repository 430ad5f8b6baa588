"""Which radius to take: by the validation images, and beside it the best in hindsight.

Accuracies have the axes (radius, seed).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from crosslearning.images.scores import by_domain, macro, over_images, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from crosslearning.images.scores import Sweep

__all__ = ["chosen", "comparison"]


def chosen(sweep: Sweep) -> dict[str, Any]:
    """Choose a radius by validation: for all domains, between the extremes, and per domain."""
    validation, test = macro(sweep.validation), macro(sweep.test)
    in_domain = by_domain(sweep.validation), by_domain(sweep.test)
    middle = _middle(sweep)
    return {
        **_choice(sweep.radii, validation, test),
        "between": None if middle is None else sweep.radii[middle],
        "between_test": None if middle is None else spread(test[middle]),
        "domains": [
            {"domain": domain, **_choice(sweep.radii, *(part[..., d] for part in in_domain))}
            for d, domain in enumerate(sweep.domains)
        ],
    }


def comparison(sweep: Sweep) -> list[dict[str, Any]]:
    """Test accuracy of pooled, of cross-learned (between the extremes) and of separate networks."""
    test, images = macro(sweep.test), over_images(sweep.test.sum(2))
    middle = _middle(sweep)
    rows = []
    for method, radius in {"pooled": 0.0, "cross": None, "separate": math.inf}.items():
        k = middle if radius is None else _position(sweep.radii, radius)
        if k is not None:
            gain = None if middle in (None, k) else test[middle] - test[k]
            rows.append(
                {
                    "method": method,
                    "epsilon": sweep.radii[k],
                    "test": spread(test[k]),
                    "test_images": spread(images[k]),
                    **_paired(gain),
                }
            )
    return rows


def _choice(
    radii: Sequence[float], validation: NDArray[np.float64], test: NDArray[np.float64]
) -> dict[str, Any]:
    by_validation, on_test = _best(validation, range(len(radii))), _best(test, range(len(radii)))
    return {
        "epsilon": radii[by_validation],
        "test": spread(test[by_validation]),
        "best_on_test": radii[on_test],
        "best_test": spread(test[on_test]),
    }


def _middle(sweep: Sweep) -> int | None:
    """Position of the radius that validation chooses between the extremes, if there is any."""
    inner = _between(sweep.radii)
    return _best(macro(sweep.validation), inner) if inner else None


def _between(radii: Sequence[float]) -> list[int]:
    """Positions of the radii that neither pool the tasks nor separate them."""
    return [k for k, radius in enumerate(radii) if 0 < radius < math.inf]


def _position(radii: Sequence[float], radius: float) -> int | None:
    return radii.index(radius) if radius in radii else None


def _best(accuracy: NDArray[np.float64], among: Sequence[int]) -> int:
    """Position of the highest mean over seeds; of several, that of the smallest radius."""
    means = accuracy.mean(axis=1).round(9)  # so that rounding decides nothing
    return max(among, key=lambda k: means[k])


def _paired(gain: NDArray[np.float64] | None) -> dict[str, float | None]:
    """Mean over seeds, its standard error and the p-value of Student's t; one seed has neither."""
    if gain is None:
        return {"gain": None, "standard_error": None, "p_value": None}
    mean = float(gain.mean())
    if gain.size < 2:
        return {"gain": mean, "standard_error": None, "p_value": None}
    from scipy.stats import t as student_t

    error = float(gain.std(ddof=1) / math.sqrt(gain.size))
    ratio = abs(mean) / error if error > 0 else math.inf if mean else 0.0
    p_value = float(2 * student_t.sf(ratio, gain.size - 1))
    return {"gain": mean, "standard_error": error, "p_value": p_value}
