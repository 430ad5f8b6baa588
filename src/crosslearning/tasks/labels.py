"""Task labels: any hashable, one per row, none missing; several columns are groups in groups."""

import reprlib
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import chain, pairwise
from numbers import Number
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.extensions import ExtensionArray

from crosslearning.wording import listed

Paths = list[tuple[Hashable, ...]]  # labels of each row, outermost first
Units = Iterable[tuple[Hashable, ...]]  # these of the tasks, or of the groups of a level
Labels = Any  # one hashable per row: a sequence, an array, or a column of pandas


@dataclass(frozen=True)
class TaskIndex:
    """The distinct task labels of a data set; the position of a label is the number of its task.

    Labels are compared as in Python: 1, 1.0 and ``numpy.int64(1)`` are the same, 1 and "1" are not.
    NumPy scalars are converted to Python objects.

    >>> index, codes = TaskIndex.of(["north", "east", "north"])
    >>> index
    TaskIndex(labels=('east', 'north'))
    >>> codes
    array([1, 0, 1])
    >>> index.encode(["east", "south"])
    array([ 0, -1])
    """

    labels: tuple[Hashable, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", tuple(self.labels))
        if len(self._positions) < len(self.labels):
            raise ValueError(
                f"`labels` must be distinct; got {len(self.labels)} labels, {len(self._positions)} "
                "of them distinct. Use TaskIndex.of(tasks) to collect them."
            )

    @classmethod
    def of(cls, tasks: Labels) -> tuple[Self, NDArray[np.int64]]:
        """Return the index of the labels, given one per row, and the position of each row's label.

        Labels are sorted, or in order of appearance if they cannot be compared; those of a pandas
        categorical are in the order of its categories.
        """
        codes, labels, ranks = factorize(tasks, "tasks")
        ordered = labels if ranks is None else [labels[k] for k in np.argsort(ranks)]
        distinct: list[Any] = list(dict.fromkeys(ordered))
        if ranks is None:
            with suppress(TypeError):  # labels that cannot be compared
                distinct = sorted(distinct)
        index = cls(tuple(distinct))
        return index, index._lookup(labels)[codes]

    def encode(
        self, tasks: Labels, *, strict: bool = False, name: str = "tasks"
    ) -> NDArray[np.int64]:
        """Return the position of each row's label, -1 if it is not in the index.

        If `strict`, labels of other types are refused where they must be a mistake: their text is
        that of a label in the index, or no row has a label of its types. Errors call them `name`.
        """
        codes, labels, _ = factorize(tasks, name)
        positions = self._lookup(labels)
        if strict and np.any(positions < 0):
            self._refuse_other_types(labels, name)
        return positions[codes]

    def _refuse_other_types(self, labels: list[Hashable], name: str) -> None:
        kinds = {_kind(label) for label in self.labels}
        foreign = [label for label in labels if _kind(label) not in kinds]
        alike = [label for label in foreign if str(label) in self.texts]
        if mistaken := alike or (foreign if len(foreign) == len(labels) else []):
            example = self.labels[self.texts.get(str(mistaken[0]), 0)]
            raise ValueError(
                f"`{name}` must have labels of the types in `fit`, such as {_typed(example)}; got "
                f"{_typed(mistaken[0])}, which is not a known task. Convert the labels. To predict "
                "with the centre, pass tasks='center'."
            )

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def _positions(self) -> dict[Hashable, int]:
        return {label: position for position, label in enumerate(self.labels)}

    @cached_property
    def texts(self) -> dict[str, int]:
        """Position of each label by its text."""
        return {str(label): position for position, label in enumerate(self.labels)}

    def position(self, label: Hashable) -> int:
        """Return the position of a label, or -1."""
        return self._positions.get(label, -1)

    def _lookup(self, labels: list[Hashable]) -> NDArray[np.int64]:
        return np.array([self.position(label) for label in labels], dtype=np.int64)


def check_tasks(tasks: Labels, n_rows: int) -> "pd.Series[Any]":
    """Return the task labels as a Series, one per row and none missing, numbered from 0.

    >>> check_tasks(["a", "b", None], 3)
    Traceback (most recent call last):
    ...
    ValueError: `tasks` has no label in 1 row: 2. Fill it in or drop the row.
    """
    column = _column(tasks, "tasks")
    if len(column) != n_rows:
        raise ValueError(
            f"`tasks` must hold one label per row of X; got {len(column)} labels for {n_rows} rows."
        )
    _refuse_missing(column.isna().to_numpy(), "tasks")
    return column


def split_task_column(
    X: pd.DataFrame, task_column: Hashable
) -> tuple[pd.DataFrame, "pd.Series[Any]"]:
    """Separate the column that holds the task labels from the features.

    >>> X = pd.DataFrame({"school": ["a", "b"], "ses": [0.5, -0.2]})
    >>> features, tasks = split_task_column(X, "school")
    >>> list(features), list(tasks)
    (['ses'], ['a', 'b'])
    """
    if not isinstance(X, pd.DataFrame):
        raise ValueError(
            f"`task_column` names a column, so X must be a pandas DataFrame; got "
            f"{type(X).__name__}. Pass the labels as `tasks` instead."
        )
    is_label = np.array([name == task_column for name in X.columns], dtype=bool)
    if is_label.sum() != 1:
        raise ValueError(
            f"`task_column` must name one column of X; {task_column!r} names {is_label.sum()}. "
            f"The columns are {listed(map(repr, X.columns), 20)}."
        )
    return X.loc[:, ~is_label].copy(), X.iloc[:, int(is_label.argmax())].copy()


def factorize(
    values: Labels, name: str
) -> tuple[NDArray[np.intp], list[Hashable], NDArray[np.intp] | None]:
    """Return codes, the label of each code (pandas may repeat some), and ranks of a categorical."""
    column = _column(values, name)
    try:
        codes, uniques = column.array.factorize()
    except TypeError as problem:
        raise ValueError(
            f"`{name}` must hold hashable labels such as strings, numbers or tuples; {problem}."
        ) from problem
    _refuse_missing(codes < 0, name)
    labels = [_native(label) for label in uniques]
    return codes, labels, uniques.codes if isinstance(uniques, pd.Categorical) else None


def _native(label: Any) -> Any:
    if isinstance(label, np.datetime64 | np.timedelta64):
        label = pd.Series([label])[0]
    return label.item() if isinstance(label, np.generic) else label


def _kind(label: Hashable) -> Any:
    """Return what labels that may be equal have in common: numbers, dates, or their type."""
    if isinstance(label, tuple):
        return tuple(map(_kind, label))
    return next((kind for kind in (Number, str, datetime) if isinstance(label, kind)), type(label))


def _typed(label: Hashable) -> str:
    parts = label if isinstance(label, tuple) else (label,)
    return f"{label!r} ({', '.join(type(part).__name__ for part in parts)})"


def _column(values: Labels, name: str) -> "pd.Series[Any]":
    """Return labels as a Series indexed by position; tuples stay labels."""
    if isinstance(values, str):
        column = f" To name a column of a DataFrame, use task_column={values!r} instead."
        message = f"`{name}` must hold one label per row; got the string {values!r}."
        raise ValueError(message + (column if name == "tasks" else ""))
    if isinstance(values, pd.DataFrame) and values.shape[1] == 1:
        values = values.iloc[:, 0]
    if isinstance(values, pd.MultiIndex):
        values = values.to_numpy()
    if isinstance(values, (pd.Series, pd.Index, ExtensionArray)):
        return pd.Series(values).reset_index(drop=True)
    array = _array(values)
    if array.ndim == 0 or (array.ndim != 1 and array.shape != (len(array), 1)):
        raise ValueError(
            f"`{name}` must hold one label per row, in a list, an array or a column; got "
            f"{type(values).__name__} of shape {array.shape}. For groups within groups, Bayesian "
            "estimators take a DataFrame of columns, outermost first; others take a tuple per row."
        )
    array = array.ravel()
    # Strings as objects, so that pandas converts nothing.
    return pd.Series(array, dtype=object if array.dtype.kind in "OU" else None)


def _array(values: Any) -> NDArray[Any]:
    if isinstance(values, Sequence) and not isinstance(values, bytes):
        if len(values) and isinstance(values[0], (list, np.ndarray)):
            return np.array(values, dtype=object)
        # np.asarray would turn tuples into columns and numbers beside strings into strings.
        return np.fromiter(values, dtype=object, count=len(values))
    return np.asarray(values if hasattr(values, "__array__") else None)


def _refuse_missing(missing: NDArray[np.bool_], name: str) -> None:
    rows = np.flatnonzero(missing)
    if rows.size:
        s, them = ("s", "them") if len(rows) > 1 else ("", "it")
        raise ValueError(
            f"`{name}` has no label in {len(rows)} row{s}: {listed(rows)}. "
            f"Fill {them} in or drop the row{s}."
        )


def as_objects(labels: Any) -> NDArray[Any]:
    """Return labels as an array of objects, so that they keep their types."""
    array = np.empty(len(labels), dtype=object)
    array[:] = list(labels)
    return array


def has_levels(tasks: Any) -> bool:
    """Whether labels have several columns."""
    return isinstance(tasks, pd.DataFrame | np.ndarray) and tasks.ndim == 2 and tasks.shape[1] > 1


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
    """Return the labels of each row, outermost first, as a tuple such as ("north", 12)."""
    frame, columns = pd.DataFrame(tasks), []
    for k in range(frame.shape[1]):
        codes, labels, _ = factorize(check_tasks(frame.iloc[:, k], n_rows), "tasks")
        columns.append([labels[code] for code in codes.tolist()])
    return list(zip(*columns, strict=True))


def paths_like(tasks: Any, n_rows: int, names: Sequence[str], fitted: Units) -> Paths:
    """Return the paths of rows to predict, from columns, matched by name, or a tuple per row."""
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
    return [list(dict.fromkeys(path[:k] for path in tasks)) for k in range(1, len(tasks[0]))]


def parents_of(tasks: Units, groups: Sequence[Units]) -> tuple[NDArray[np.intp], ...]:
    """Return the number of the group of each task, of the parent of each group, and so on up."""
    levels: list[Units] = [tasks, *reversed(groups), [()]]
    parents = []
    for units, above in pairwise(levels):
        position = {path: number for number, path in enumerate(above)}
        parents.append(np.array([position[path[:-1]] for path in units], dtype=np.intp))
    return tuple(parents)


def codes_of(paths: Paths, tasks: Units, groups: Sequence[Units]) -> NDArray[np.int64]:
    """Return each row's task, else its smallest known group, numbered after the tasks, else -1."""
    units = {path: code for code, path in enumerate(chain(tasks, *groups))}
    depths = range(len(groups) + 1, 0, -1)
    codes = {path: [units[path[:d]] for d in depths if path[:d] in units] for path in set(paths)}
    return np.array([(codes[path] or [-1])[0] for path in paths], dtype=np.int64)
