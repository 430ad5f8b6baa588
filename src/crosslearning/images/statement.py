"""What a sweep has shown, in plain words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["percent", "radius_name", "statement"]

_WINNERS = {0.0: "Pooling", math.inf: "Separate training"}
_OPPONENTS = {"pooled": "pooling", "separate": "separate training"}
_CLEAR = 0.05  # p-value


def radius_name(epsilon: float) -> str:
    """Return a radius as it is written in tables and figures.

    Examples
    --------
    >>> radius_name(1e-6), radius_name(0.3), radius_name(math.inf)
    ('1e-6', '0.3', '∞')
    """
    return "∞" if math.isinf(epsilon) else f"{epsilon:g}".replace("e-0", "e-")


def percent(accuracy: dict[str, Any]) -> str:
    """Return an accuracy in per cent, with its standard deviation over seeds if there is one.

    Examples
    --------
    >>> percent({"mean": 0.4512, "std": 0.011}), percent({"mean": 0.4512, "std": None})
    ('45.1 ± 1.1 %', '45.1 %')
    """
    std = "" if accuracy["std"] is None else f" ± {100 * accuracy['std']:.1f}"
    return f"{100 * accuracy['mean']:.1f}{std} %"


def statement(radii: Sequence[float], chosen: dict[str, Any], methods: list[dict[str, Any]]) -> str:
    """Say which radius the validation images choose, and what cross-learning is worth on others."""
    epsilon, test = chosen["epsilon"], percent(chosen["test"])
    if len(radii) == 1:
        return f"At ε = {radius_name(epsilon)} the test accuracy is {test}."
    winner = _WINNERS.get(epsilon, "Cross-learning")
    sentences = [
        f"{winner} is best on the validation images (ε = {radius_name(epsilon)}).",
        f"Its test accuracy is {test}.",
        *_differences(chosen, [row for row in methods if row["gain"] is not None]),
    ]
    if chosen["best_on_test"] != epsilon:
        best = radius_name(chosen["best_on_test"])
        hindsight = percent(chosen["best_test"])
        sentences.append(f"The best on the test images, in hindsight, is ε = {best}: {hindsight}.")
    return " ".join(sentences)


def _differences(chosen: dict[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    texts = " and ".join(map(_difference, rows))
    doubt = " This is one seed: it may be chance." * (rows[0]["standard_error"] is None)
    radius = radius_name(chosen["between"])
    return [f"On the test images cross-learning at ε = {radius} is {texts}.{doubt}"]


def _difference(row: dict[str, Any]) -> str:
    gain, error = row["gain"], row["standard_error"]
    word = "better" if gain >= 0 else "worse"
    text = f"{100 * abs(gain):.1f} points {word} than {_OPPONENTS[row['method']]}"
    if error is None:
        return text
    chance = ", may be chance" * (row["p_value"] > _CLEAR)
    return f"{text} (standard error {100 * error:.1f}{chance})"
