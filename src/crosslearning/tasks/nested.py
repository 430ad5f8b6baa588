"""Tasks within groups: labels of several columns, outermost first."""

from __future__ import annotations

import reprlib
from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.tasks.labels import TaskIndex, check_tasks, factorize

Paths = list[tuple[Hashable, ...]]


def has_levels(tasks: Any) -> bool:
    """Whether labels have several columns."""
    columns = isinstance(tasks, pd.DataFrame | np.ndarray) and tasks.ndim == 2
    return columns and tasks.shape[1] > 1


def level_names(tasks: Any) -> list[str]:
    """Names of the columns, outermost first."""
    if not isinstance(tasks, pd.DataFrame):
        return _numbered(tasks.shape[1])
    names = [str(name) for name in tasks.columns]
    if len(set(names)) < len(names):
        raise ValueError(f"Columns of `tasks` must have distinct names; got {names}. Rename one.")
    return names


def _numbered(depth: int) -> list[str]:
    return [f"level{k}" for k in range(depth)]


def paths_of(tasks: Any, n_rows: int) -> Paths:
    """Return the labels of each row, outermost first, as a tuple.

    >>> paths_of(pd.DataFrame({"district": ["n", "s"], "school": [1, 1]}), 2)
    [('n', 1), ('s', 1)]
    """
    frame, columns = pd.DataFrame(tasks), []
    for k in range(frame.shape[1]):
        codes, labels, _ = factorize(check_tasks(frame.iloc[:, k], n_rows), "tasks")
        columns.append([labels[code] for code in codes.tolist()])
    return list(zip(*columns, strict=True))


def paths_like(tasks: Any, n_rows: int, names: Sequence[str], fitted: Paths) -> Paths:
    """Return the paths of rows with the levels of a fit, whose columns have these names.

    Labels are columns, or a tuple per row. Columns of a frame are matched by name.

    >>> frame = pd.DataFrame({"school": [1], "district": ["n"]})
    >>> paths_like(frame, 1, ["district", "school"], [("n", 1), ("s", 1)])
    [('n', 1)]
    """
    frame = _columns_like(tasks, list(names))
    paths = paths_of(frame, n_rows)
    for level, name in enumerate(names):
        index = TaskIndex(tuple(dict.fromkeys(path[level] for path in fitted)))
        index.encode(frame.iloc[:, level], strict=True, name=name)
    return paths


def _columns_like(tasks: Any, names: list[str]) -> pd.DataFrame:
    """Return a frame with a column for each level, outermost first."""
    depth = len(names)
    if isinstance(tasks, pd.DataFrame):
        got = [str(name) for name in tasks.columns]
        if sorted(got) == sorted(names):
            return tasks.iloc[:, [got.index(name) for name in names]]
        if names == _numbered(depth) and len(got) == depth:
            return tasks
    elif isinstance(tasks, np.ndarray) and tasks.ndim == 2:
        if tasks.shape[1] == depth:
            return pd.DataFrame(tasks)
        got = _numbered(tasks.shape[1])
    else:
        got = labels = list(tasks)
        if all(isinstance(label, tuple) and len(label) == depth for label in labels):
            return pd.DataFrame(labels, columns=names, dtype=object)
    raise ValueError(
        f"`tasks` must have the {depth} columns of the fit, {names}, or a tuple of {depth} labels "
        f"per row; got {reprlib.repr(got)}."
    )


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
    codes = TaskIndex(tuple(tasks)).encode(paths)
    start = len(tasks) + sum(map(len, groups))
    for level in range(len(groups), 0, -1):
        start -= len(groups[level - 1])
        new = np.flatnonzero(codes < 0)
        index = TaskIndex(tuple(groups[level - 1]))
        group = index.encode([paths[row][:level] for row in new])
        codes[new] = np.where(group < 0, -1, start + group)
    return codes
