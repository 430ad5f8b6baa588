"""Checks of counts, shares and labels."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np


def check_counts(**values: object) -> None:
    """Refuse numbers of units, steps or the like that are not positive whole numbers."""
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"`{name}` must be a whole number of at least 1; got {value!r}.")


def check_dropout(value: object) -> None:
    """Refuse a dropout probability that is not in [0, 1)."""
    if not isinstance(value, Real) or not 0 <= float(value) < 1:
        raise ValueError(
            f"`dropout` must be at least 0 and below 1; got {value!r}. Use 0 for none."
        )


def check_labels(tasks: Iterable[Hashable] | None, module: Any) -> tuple[Hashable, ...]:
    """Return distinct labels: those given, or the keys of a mapping of modules."""
    keys = tuple(module) if isinstance(module, Mapping) else None
    if tasks is None and keys is None:
        raise ValueError(
            "`tasks` must name the tasks; got None. Use tasks=['a', 'b'] with one module for all, "
            "or pass a mapping from task to module."
        )
    if isinstance(tasks, (str, bytes)):
        raise ValueError(f"`tasks` must hold one label per task; got the single label {tasks!r}.")
    given = keys if tasks is None else tasks
    assert given is not None
    labels = tuple(label.item() if isinstance(label, np.generic) else label for label in given)
    try:
        distinct = set(labels)
    except TypeError:
        raise ValueError(
            f"`tasks` must be hashable labels such as strings or numbers; got {labels!r}."
        ) from None
    if not labels or len(distinct) < len(labels):
        raise ValueError(
            f"`tasks` must hold at least one label and no duplicates; got {list(labels)!r}."
        )
    if keys is not None and set(labels) != set(keys):
        odd = sorted(map(repr, set(labels) ^ set(keys)))
        raise ValueError(
            f"`tasks` must be the keys of the mapping of modules; {', '.join(odd)} is in only "
            "one of them. Omit `tasks` to use the keys."
        )
    return labels
