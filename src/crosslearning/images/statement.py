"""What a sweep has shown, in plain words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from crosslearning.evaluation import sentences
from crosslearning.evaluation.numbers import radius_name, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crosslearning.evaluation import Comparison

__all__ = ["statement"]

_WINNERS = {0.0: "Pooling", math.inf: "Separate training"}


def statement(radii: Sequence[float], chosen: dict[str, Any], found: Comparison | None) -> str:
    """Say which radius the validation images choose, and what cross-learning is worth on others."""
    epsilon, test = chosen["epsilon"], spread(chosen["test"])
    if len(radii) == 1:
        return f"At ε = {radius_name(epsilon)} the test accuracy is {test}."
    winner = _WINNERS.get(epsilon, "Cross-learning")
    said = [
        f"{winner} is best on the validation images (ε = {radius_name(epsilon)}).",
        f"Its test accuracy is {test}.",
    ]
    if found:
        said.append(sentences.verdict(found, "test accuracy"))
    if chosen["best_on_test"] != epsilon:
        place, hindsight = radius_name(chosen["best_on_test"]), spread(chosen["best_test"])
        said.append(f"The best on the test images, in hindsight, is ε = {place}: {hindsight}.")
    return " ".join(said)
