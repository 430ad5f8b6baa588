"""The findings of the runs: a radius chosen by validation, a comparison, and sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.evaluation import Comparison, Scores, sentences
from crosslearning.evaluation.numbers import radius_name
from crosslearning.evaluation.numbers import spread as written
from crosslearning.evaluation.records import to_json
from crosslearning.evaluation.scores import best
from crosslearning.images._runs import Runs, by_domain, over_images

_ENDS = {"pooled": 0.0, "separate": math.inf}
_ACCURACY = sentences.Measure("test accuracy", percent=True)
_WINNERS = {0.0: "Pooling", math.inf: "Separate training"}


def spread(values: NDArray[np.float64]) -> dict[str, Any]:
    """Mean and standard deviation over seeds, the latter unknown for one seed."""
    std = float(values.std(ddof=1)) if values.size > 1 else None
    return {"mean": float(values.mean()), "std": std}


def chosen(runs: Runs) -> dict[str, Any]:
    """Choose a radius by validation, of all and between the extremes; name the best on test."""
    validation, test = _scores(runs, "validation"), _scores(runs, "test")
    by_validation, on_test, middle = best(validation), best(test), places(runs).get("cross")
    return {
        "epsilon": runs.epsilons[by_validation],
        "test": spread(test.by_split[by_validation]),
        "between": None if middle is None else runs.epsilons[middle],
        "best_on_test": runs.epsilons[on_test],
        "best_test": spread(test.by_split[on_test]),
    }


def compared(runs: Runs) -> Comparison | None:
    """Compare the best radius between the extremes with these, paired by seed."""
    at, test = places(runs), by_domain(runs.test)
    if "cross" not in at or len(at) < 2:
        return None
    return pairs(runs, {method: test[k] for method, k in at.items()})


def pairs(runs: Runs, accuracies: Mapping[str, NDArray[np.float64]]) -> Comparison:
    """Compare accuracies by seed and domain of several methods, the last with the others."""
    values = np.stack([*accuracies.values()])
    scores = Scores(list(accuracies), values, np.ones(values.shape[1:]))
    return Comparison.of(scores, runs.domains, runs.test[0, 0].sum((-2, -1)), by_run=True)


def gain(comparison: Comparison | None, method: str) -> dict[str, Any]:
    """Return what the subject of a comparison gains over a method, unknown over itself."""
    if comparison is None or method == comparison.subject:
        return dict.fromkeys(("gain", "standard_error", "p_value"))
    paired = comparison.paired(method)
    sure = (paired.standard_error, paired.p_value) if paired.n > 1 else (None, None)
    return {"gain": paired.gain, "standard_error": sure[0], "p_value": sure[1]}


def comparison(runs: Runs) -> list[dict[str, Any]]:
    """Test accuracy of pooled, of cross-learned (between the extremes) and of separate networks."""
    test, images = _scores(runs, "test").by_split, over_images(runs.test.sum(2))
    paired, where = compared(runs), places(runs)
    return [
        {
            "method": method,
            "epsilon": runs.epsilons[where[method]],
            "test": spread(test[where[method]]),
            "test_images": spread(images[where[method]]),
            **gain(paired, method),
        }
        for method in ("pooled", "cross", "separate")
        if method in where
    ]


def statement(runs: Runs) -> str:
    """State the radius that validation chooses, and what cross-learning gains on test images."""
    choice, paired = chosen(runs), compared(runs)
    epsilon, test = choice["epsilon"], written(choice["test"])
    if len(runs.epsilons) == 1:
        return f"At ε = {radius_name(epsilon)} the test accuracy is {test}."
    parts = [
        f"{_winner(runs, epsilon)} (ε = {radius_name(epsilon)}).",
        f"Its test accuracy is {test}.",
    ]
    if paired:
        between = runs.epsilons[places(runs)["cross"]]
        if between != epsilon:
            parts.append(f"Of the radii between 0 and ∞, ε = {radius_name(between)} is best.")
        parts.append(sentences.verdict(paired, _ACCURACY))
    if choice["best_on_test"] != epsilon:
        place, hindsight = radius_name(choice["best_on_test"]), written(choice["best_test"])
        parts.append(f"The best on the test images, in hindsight, is ε = {place}: {hindsight}.")
    return " ".join(parts)


def who_gains_most(runs: Runs) -> list[dict[str, str]]:
    """Name the domain that gains most from sharing, if any does."""
    paired = compared(runs)
    remark = paired and sentences.extreme(paired, 1, "domain", _ACCURACY, "test image")
    return [to_json(remark)] if remark else []


def _winner(runs: Runs, epsilon: float) -> str:
    """Name the best method, unless there is a tie."""
    means = _scores(runs, "validation").means
    if np.isclose(means, means.max(), rtol=1e-9).sum() > 1:
        return "On the validation images several radii are equally good; the smallest is taken"
    return f"{_WINNERS.get(epsilon, 'Cross-learning')} is best on the validation images"


def _scores(runs: Runs, part: str) -> Scores:
    """Accuracies by radius, seed and domain."""
    accuracies = by_domain(getattr(runs, part))
    return Scores(runs.epsilons, accuracies, np.ones(accuracies.shape[1:]))


def places(runs: Runs) -> dict[str, int]:
    """Position of the radius of each available method, cross-learning last."""
    radii = list(runs.epsilons)
    places = {name: radii.index(radius) for name, radius in _ENDS.items() if radius in radii}
    if between := [k for k, radius in enumerate(radii) if 0 < radius < math.inf]:
        places["cross"] = best(_scores(runs, "validation"), between)
    return places
