"""Tasks within groups: labels of several columns, outermost first."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.tasks.labels import TaskIndex, _native, check_tasks

Paths = list[tuple[Hashable, ...]]


def has_levels(tasks: Any) -> bool:
    """Whether labels have several columns."""
    if isinstance(tasks, pd.DataFrame | np.ndarray):
        return tasks.ndim == 2 and tasks.shape[1] > 1
    return False


def level_names(tasks: Any) -> list[str]:
    """Names of the columns, outermost first."""
    if isinstance(tasks, pd.DataFrame):
        return [str(name) for name in tasks.columns]
    return [f"level{k}" for k in range(tasks.shape[1])]


def paths_of(tasks: Any, n_rows: int) -> Paths:
    """Return the labels of each row, outermost first, as a tuple.

    >>> paths_of(pd.DataFrame({"district": ["n", "s"], "school": [1, 1]}), 2)
    [('n', 1), ('s', 1)]
    """
    frame = pd.DataFrame(tasks)
    columns = [check_tasks(frame.iloc[:, k], n_rows) for k in range(frame.shape[1])]
    return list(zip(*(map(_native, column) for column in columns), strict=True))


def groups_of(tasks: Paths) -> list[Paths]:
    """Return the groups of each level but the innermost, outermost first, in order."""
    depth = len(tasks[0])
    return [list(dict.fromkeys(path[:k] for path in tasks)) for k in range(1, depth)]


def parents_of(tasks: Paths, groups: list[Paths]) -> tuple[NDArray[np.intp], ...]:
    """Return the number of the group of each task, of the parent of each group, and so on up.

    >>> parents_of([("n", 1), ("n", 2), ("s", 1)], [[("n",), ("s",)]])
    (array([0, 0, 1]), array([0, 0]))
    """
    levels: list[Paths] = [tasks, *reversed(groups), [()]]
    parents = []
    for units, above in pairwise(levels):
        position = {path: number for number, path in enumerate(above)}
        parents.append(np.array([position[path[:-1]] for path in units], dtype=np.intp))
    return tuple(parents)


def codes_of(paths: Paths, tasks: Paths, groups: list[Paths]) -> NDArray[np.int64]:
    """Return the number of each row's task, else that of its smallest known group, else -1.

    Groups are numbered after the tasks, outermost first.
    """
    codes = TaskIndex(tuple(tasks)).encode(paths, strict=True)
    start = len(tasks) + sum(map(len, groups))
    for level in range(len(groups), 0, -1):
        start -= len(groups[level - 1])
        new = np.flatnonzero(codes < 0)
        index = TaskIndex(tuple(groups[level - 1]))
        found = index.encode([paths[row][:level] for row in new])
        codes[new] = np.where(found < 0, -1, start + found)
    return codes
