"""What is compared in a sweep: radii, and the baselines that everyone asks for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crosslearning.tether import Tether

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["BASELINES", "Setting", "settings_of"]

BASELINES = ("pooled", "separate", "spring", "fine-tuned")


@dataclass(frozen=True)
class Setting:
    """One way to couple the tasks.

    Attributes
    ----------
    method : str
        "cross" for a radius between 0 and infinity, or the name of a baseline.
    epsilon, stiffness : float
        Of the tether.
    fine_tuned : bool
        Whether the pooled model is trained on, task by task, for as many epochs again.
    """

    method: str
    epsilon: float = math.inf
    stiffness: float = 0.0
    fine_tuned: bool = False

    @property
    def tether(self) -> Tether:
        """The radial law."""
        return Tether(epsilon=self.epsilon, stiffness=self.stiffness)

    @property
    def key(self) -> str:
        """Name in file names: the same for the same setting, and for no other."""
        strength = f"{self.stiffness!r}" if self.method == "spring" else f"{self.epsilon!r}"
        return f"{self.method}-{strength}"

    def run(self, seed: int) -> dict[str, Any]:
        """Columns of the table that tell a run from the others."""
        return {
            "method": self.method,
            "epsilon": self.epsilon,
            "stiffness": self.stiffness,
            "seed": seed,
        }


def settings_of(
    epsilons: float | Iterable[float],
    baselines: str | Iterable[str],
    stiffness: Iterable[float],
) -> list[Setting]:
    """List settings in the order of the table: by radius, then springs, then fine-tuned."""
    wanted = [baselines] if isinstance(baselines, str) else list(baselines)
    unknown = [name for name in wanted if name not in BASELINES]
    if unknown:
        known = ", ".join(map(repr, BASELINES))
        raise ValueError(f"`baselines` may be {known}; got {unknown[0]!r}.")
    given = [epsilons] if isinstance(epsilons, int | float) else epsilons
    radii = {Tether(epsilon=value).epsilon for value in map(float, given)}
    radii |= {0.0} if "pooled" in wanted else set()
    radii |= {math.inf} if "separate" in wanted else set()
    settings = [Setting(_method(radius), epsilon=radius) for radius in sorted(map(float, radii))]
    if "spring" in wanted:
        settings += [Setting("spring", stiffness=float(value)) for value in stiffness]
    if "fine-tuned" in wanted:
        settings.append(Setting("fine-tuned", epsilon=0.0, fine_tuned=True))
    if not settings:
        raise ValueError("There is nothing to compare: give `epsilons` or `baselines`.")
    return settings


def _method(radius: float) -> str:
    return {0.0: "pooled", math.inf: "separate"}.get(radius, "cross")
