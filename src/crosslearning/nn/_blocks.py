"""Blocks of parameters, each with its own tether, given by the beginning of their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crosslearning.coupling._checks import check_tether, is_positive
from crosslearning.tether import Tether

ALL = "all"  # name of the block that holds every parameter
OTHERS = "*"  # in place of a prefix: parameters that none matches


@dataclass(frozen=True)
class Block:
    """Parameters that share one tether; its name is the prefix it was given by, or "all"."""

    name: str
    tether: Tether
    parameters: tuple[str, ...]

    def scaled(self, step_size: float | None) -> Tether:
        """Tether for a step; a bound alone needs no step size."""
        if step_size is not None and not is_positive(step_size):
            raise ValueError(f"`step_size` must be a positive finite number; got {step_size!r}.")
        if self.tether.is_ball:
            return self.tether
        if step_size is None:
            raise ValueError(
                f"The tether of block {self.name!r} has a spring or a tension, which scale "
                "with the step. Use project(step_size=lr) with the learning rate."
            )
        return self.tether.scaled(step_size=step_size)


def divide(names: Sequence[str], epsilon: Any, tether: Any, n_tasks: int) -> tuple[Block, ...]:
    """Divide parameters into blocks; names that no prefix matches are in none."""
    if (epsilon is None) == (tether is None):
        raise ValueError(
            "Pass either `epsilon` or `tether`; got "
            f"{'neither' if epsilon is None else 'both'}. Use epsilon=0.01 for a hard bound, "
            "tether=Tether(...) for a spring or a tension as well."
        )
    radii = tether if epsilon is None else epsilon

    def checked(value: Any) -> Tether:
        return check_tether(value if epsilon is None else Tether(value), n_tasks)

    if not isinstance(radii, Mapping):
        return (Block(ALL, checked(radii), tuple(names)),)
    named = _by_prefix(list(radii), names)
    return tuple(Block(one, checked(value), tuple(named[one])) for one, value in radii.items())


def _by_prefix(prefixes: list[str], names: Sequence[str]) -> dict[str, list[str]]:
    if not prefixes:
        raise ValueError("Got an empty mapping of prefixes: no parameter would be tethered.")
    named: dict[str, list[str]] = {prefix: [] for prefix in prefixes}
    for name in names:
        matches = [prefix for prefix in prefixes if f"{name}.".startswith(f"{prefix}.")]
        if len(matches) > 1:
            raise ValueError(
                f"A parameter belongs to one block; {name!r} matches the prefixes "
                f"{matches[0]!r} and {matches[1]!r}. Use prefixes that do not overlap."
            )
        named.get(matches[0] if matches else OTHERS, []).append(name)
    if unused := [prefix for prefix, matches in named.items() if not matches]:
        if unused[0] == OTHERS:
            raise ValueError(f"The prefixes match all trained parameters; leave out {OTHERS!r}.")
        beginnings = ", ".join(dict.fromkeys(repr(name.split(".")[0]) for name in names))
        raise ValueError(
            f"The prefix {unused[0]!r} matches no parameter that is trained. The names of those "
            f"begin with {beginnings}."
        )
    return named
