"""Which parameters a tether holds: all of them, or blocks by the beginning of their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crosslearning.coupling._checks import check_tether
from crosslearning.tether import Tether

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ALL", "Block", "divide"]

ALL = "all"  # name of the block that holds every parameter


@dataclass(frozen=True)
class Block:
    """Parameters that share one tether: one distance, one Gram matrix, one projection.

    Attributes
    ----------
    name : str
        The prefix it was given by, or "all".
    tether : Tether
        The law that holds each task's parameters to the centre's.
    parameters : tuple of str
        Names of the parameters, in the order of the module.
    """

    name: str
    tether: Tether
    parameters: tuple[str, ...]


def divide(names: Sequence[str], epsilon: Any, tether: Any, n_tasks: int) -> tuple[Block, ...]:
    """Divide parameters into blocks; names that no prefix matches are in none.

    Parameters
    ----------
    names : sequence of str
        Names of all parameters of a module.
    epsilon : float, array of shape (n_tasks,), or dict from prefix to either, or None
        Radii.
    tether : Tether, or dict from prefix to Tether, or None
        Given in place of radii.
    n_tasks : int
        Number of tasks.

    Returns
    -------
    tuple of Block

    Examples
    --------
    >>> names = ["features.weight", "features.bias", "head.weight"]
    >>> [block.parameters for block in divide(names, {"features": 0.1}, None, 2)]
    [('features.weight', 'features.bias')]
    """
    if (epsilon is None) == (tether is None):
        raise ValueError(
            "Give either `epsilon` or `tether`; got "
            f"{'neither' if epsilon is None else 'both'}. Use epsilon=0.01 for a hard bound, "
            "tether=Tether(...) for a spring or a tension as well."
        )
    given = tether if epsilon is None else epsilon
    if not isinstance(given, Mapping):
        return (Block(ALL, _tether(given, epsilon is None, n_tasks), tuple(names)),)
    blocks = tuple(
        Block(prefix, _tether(value, epsilon is None, n_tasks), _matching(prefix, names))
        for prefix, value in given.items()
    )
    _refuse_overlaps(blocks)
    if not blocks:
        raise ValueError("Got an empty mapping of prefixes: no parameter would be tethered.")
    return blocks


def _tether(value: Any, is_tether: bool, n_tasks: int) -> Tether:
    return check_tether(value if is_tether else Tether(value), n_tasks)


def _matching(prefix: str, names: Sequence[str]) -> tuple[str, ...]:
    found = tuple(name for name in names if name == prefix or name.startswith(f"{prefix}."))
    if not found:
        beginnings = ", ".join(dict.fromkeys(repr(name.split(".")[0]) for name in names))
        raise ValueError(
            f"The prefix {prefix!r} matches no parameter. The names begin with {beginnings}."
        )
    return found


def _refuse_overlaps(blocks: tuple[Block, ...]) -> None:
    owner: dict[str, str] = {}
    for block in blocks:
        for name in block.parameters:
            if name in owner:
                raise ValueError(
                    f"A parameter belongs to one block; {name!r} matches the prefixes "
                    f"{owner[name]!r} and {block.name!r}. Give prefixes that do not overlap."
                )
            owner[name] = block.name
