"""Which radius to take: by the validation images, and beside it the best in hindsight."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.evaluation import Comparison, Scores
from crosslearning.evaluation.choice import best
from crosslearning.images.scores import by_domain, over_images, spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crosslearning.images.scores import Sweep

__all__ = ["chosen", "compared", "comparison"]

_ENDS = {"pooled": 0.0, "separate": math.inf}


def chosen(sweep: Sweep) -> dict[str, Any]:
    """Choose a radius by validation: for all domains, between the extremes, and per domain."""
    middle = _places(sweep).get("cross")
    test = _scores(sweep, by_domain(sweep.test)).by_split
    return {
        **_choice(sweep, slice(None)),
        "between": None if middle is None else sweep.radii[middle],
        "between_test": None if middle is None else spread(test[middle]),
        "domains": [
            {"domain": domain, **_choice(sweep, slice(d, d + 1))}
            for d, domain in enumerate(sweep.domains)
        ],
    }


def compared(sweep: Sweep) -> Comparison | None:
    """Compare test accuracies of cross-learned networks with pooled and separate ones, by seed.

    Cross-learning is at the radius that validation chooses between the extremes; None if there is
    no such radius, or neither extreme.
    """
    places = _places(sweep)
    if "cross" not in places or len(places) < 2:
        return None
    table = by_domain(sweep.test)[list(places.values())]
    scores = Scores(list(places), table, np.ones(table.shape[1:]))
    images = sweep.test[0, 0].sum((-2, -1))
    return Comparison.of(scores, sweep.domains, images, by_run=True)


def comparison(sweep: Sweep) -> list[dict[str, Any]]:
    """Test accuracy of pooled, of cross-learned (between the extremes) and of separate networks."""
    test = _scores(sweep, by_domain(sweep.test)).by_split
    images, places, found = over_images(sweep.test.sum(2)), _places(sweep), compared(sweep)
    rows = []
    for method in sorted(places, key=("pooled", "cross", "separate").index):
        pairs = found.paired(method) if found and method != "cross" else None
        several = pairs is not None and pairs.n > 1
        rows.append(
            {
                "method": method,
                "epsilon": sweep.radii[places[method]],
                "test": spread(test[places[method]]),
                "test_images": spread(images[places[method]]),
                "gain": pairs.gain if pairs else None,
                "standard_error": pairs.standard_error if pairs and several else None,
                "p_value": pairs.p_value if pairs and several else None,
            }
        )
    return rows


def _scores(sweep: Sweep, accuracies: NDArray[np.float64]) -> Scores:
    """Accuracies by radius, seed and domain as a table of scores."""
    return Scores(sweep.radii, accuracies, np.ones(accuracies.shape[1:]))


def _choice(sweep: Sweep, domains: slice) -> dict[str, Any]:
    validation, test = (
        _scores(sweep, by_domain(counts)[..., domains]) for counts in (sweep.validation, sweep.test)
    )
    by_validation, on_test = best(validation), best(test)
    return {
        "epsilon": sweep.radii[by_validation],
        "test": spread(test.by_split[by_validation]),
        "best_on_test": sweep.radii[on_test],
        "best_test": spread(test.by_split[on_test]),
    }


def _places(sweep: Sweep) -> dict[str, int]:
    """Position of the radius of each method that there is, cross-learning last."""
    places = {name: sweep.radii.index(r) for name, r in _ENDS.items() if r in sweep.radii}
    between = [k for k, radius in enumerate(sweep.radii) if 0 < radius < math.inf]
    if between:
        places["cross"] = best(_scores(sweep, by_domain(sweep.validation)), between)
    return places
