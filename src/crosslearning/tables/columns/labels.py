"""Labels of tasks: those of a new table that stand for a task of the fit, and groups of tasks."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.tasks import TaskIndex
from crosslearning.tasks.labels import as_objects, groups_of

Codes = NDArray[np.int64]
_BETWEEN = " / "  # labels of a task


def kept_as_text(tasks: Sequence[Hashable]) -> bool:
    """Whether to read labels as text, since one odd or missing label would change all types.

    Decimals and booleans are left to the reader, which knows decimal commas and "TRUE".
    """
    return all(isinstance(label, str | int) and not isinstance(label, bool) for label in tasks)


def tidy(labels: pd.Series[Any]) -> pd.Series[Any]:
    """Strip white space around labels: "g0 " is "g0"."""
    if not isinstance(labels.dtype, pd.CategoricalDtype) and labels.dtype != object:
        return labels.str.strip() if pd.api.types.is_string_dtype(labels.dtype) else labels
    stripped = labels.astype(object).map(
        lambda label: label.strip() if isinstance(label, str) else label, na_action="ignore"
    )
    return stripped.where(stripped != "", None)


def recognised(labels: pd.Series[Any], index: TaskIndex) -> NDArray[np.int64]:
    """Position of the task that each label equals, as it is, as text or as a number; else -1.

    >>> from crosslearning.tasks import TaskIndex
    >>> recognised(pd.Series(["1", "2.0", "03", "new", None]), TaskIndex((1, 2, 3))).tolist()
    [0, 1, 2, -1, -1]
    >>> recognised(pd.Series([1.0, None, 4.0]), TaskIndex(("1", "2", "3"))).tolist()
    [0, -1, -1]
    """
    rows, uniques = pd.factorize(tidy(labels))
    distinct = pd.Series(np.asarray(uniques), dtype=object)
    positions = index.encode(distinct)
    for k in np.flatnonzero(positions < 0):
        candidates = (_position(reading, index) for reading in _readings(distinct[k], index))
        positions[k] = next((position for position in candidates if position >= 0), -1)
    return np.append(positions, -1)[rows]


def of_another_kind(labels: pd.Series[Any], index: TaskIndex) -> bool:
    """Whether labels cannot be those of tasks: words for numbers, numbers for words.

    >>> from crosslearning.tasks import TaskIndex
    >>> index = TaskIndex(("north", "south"))
    >>> of_another_kind(pd.Series([1, 2]), index), of_another_kind(pd.Series(["new"]), index)
    (True, False)
    """
    distinct = tidy(labels).dropna().unique()
    kinds = {kind for label in index.labels for kind in _kinds(label)}
    return len(distinct) > 0 and all(kinds.isdisjoint(_kinds(label)) for label in distinct)


def _kinds(label: object) -> set[str]:
    """Return what a label may be taken for."""
    if isinstance(label, str):
        return {"text"} if _number(label) is None else {"text", "number"}
    return {"number"} if isinstance(label, Real) else {type(label).__name__}


def _readings(label: Any, index: TaskIndex) -> Iterator[Hashable]:
    """Yield what a label may stand for: its text, its number, text of that number, a date."""
    yield str(label)
    number: Any = label if isinstance(label, Real) else _number(label)
    yield number
    if isinstance(number, float) and number.is_integer():
        yield str(int(number))
    if isinstance(label, Real):  # has lost the zeros that a code begins with
        codes = [text for text in index.labels if isinstance(text, str) and _number(text) == label]
        yield codes[0] if len(codes) == 1 else None
    if isinstance(label, str) and isinstance(index.labels[0], datetime):
        yield pd.to_datetime(label, errors="coerce")


def _position(reading: Hashable, index: TaskIndex) -> int:
    return index.texts.get(reading, -1) if isinstance(reading, str) else index.position(reading)


def _number(label: object) -> float | None:
    """Convert text to a number; integers of any length exactly."""
    for convert in (int, float):
        try:
            return convert(label) if isinstance(label, str) else None
        except ValueError:
            continue
    return None


@dataclass(frozen=True, eq=False)
class TaskLevels:
    """The tasks of a fit by the labels of their columns, which are those of groups and of tasks."""

    columns: list[str]  # names, outermost first
    labels: list[NDArray[Any]]  # distinct ones of each column
    positions: Codes  # which of these a task has: distinct rows of columns, in order

    @property
    def paths(self) -> list[tuple[Any, ...]]:
        """Labels of each task, outermost first."""
        columns = zip(self.labels, self.positions.T, strict=True)
        return list(zip(*(labels[at].tolist() for labels, at in columns), strict=True))

    @cached_property
    def names(self) -> list[str]:
        """Distinct texts for the tasks, such as "north / 12"."""
        names = [_BETWEEN.join(map(str, path)) for path in self.paths]
        return names if len(set(names)) == len(names) else [repr(path) for path in self.paths]

    @cached_property
    def groups(self) -> list[Codes]:
        """Positions of the groups of each level but the innermost, outermost first."""
        depths = range(1, len(self.columns))
        return [np.unique(self.positions[:, :depth], axis=0) for depth in depths]

    def check(self) -> None:
        """Refuse groups that no task or every task is in, as those of columns in another order."""
        for name, groups in zip(self.columns, self.groups, strict=False):
            if len(groups) in (1, len(self.positions)):
                what = "there is only one" if len(groups) == 1 else "each holds one"
                raise ValueError(
                    f"Groups by {name!r} must be several, and hold several tasks; {what}. Name the "
                    "outermost task column first, and leave out columns that divide nothing."
                )

    @property
    def group_codes(self) -> Codes:
        """Number of the group of each task at every level but the innermost."""
        codes = [_places(groups, self.positions[:, : groups.shape[1]]) for groups in self.groups]
        return np.column_stack(codes)

    @property
    def numbers(self) -> pd.DataFrame:
        """Numbers of the groups of each task, in the columns of their labels, and its own."""
        numbers = np.column_stack([self.group_codes, np.arange(len(self.positions))])
        return pd.DataFrame(numbers, columns=self.columns)

    def name_tasks(self, model: Any) -> None:
        """Give an estimator of these tasks, and of their groups if it knows them, their labels."""
        model.tasks_ = as_objects(self.paths)
        if len(model.groups_):
            model.groups_ = [as_objects(groups) for groups in groups_of(self.paths)]

    def codes(self, frame: pd.DataFrame) -> Codes:
        """Return the number of each row's task, or of the group that `task_or_group` finds.

        Labels are recognised column by column, however they are written.
        """
        columns = zip(self.columns, self.labels, strict=True)
        each = [recognised(frame[name], TaskIndex(tuple(labels))) for name, labels in columns]
        units, at = [*self.groups, self.positions], np.column_stack(each)
        places = [_places(unit, at[:, : unit.shape[1]]) for unit in units]
        return task_or_group(places, [len(unit) for unit in units])


def task_or_group(places: Sequence[Codes], sizes: Sequence[int]) -> Codes:
    """Return the number of each row's task, else that of its smallest known group, else -1.

    `places` are those among the groups of each level, outermost first, and among the tasks, -1
    where a row has none; `sizes` are the numbers of these. Groups are numbered after the tasks.
    """
    codes, start = np.full(len(places[-1]), -1), sizes[-1]
    for at, size in zip(places[:-1], sizes, strict=False):
        codes, start = np.where(at < 0, codes, start + at), start + size
    return np.where(places[-1] < 0, codes, places[-1])


def _places(units: Codes, rows: Codes) -> Codes:
    """Find rows of numbers among others; -1 if there is none that is equal."""
    index, lookups = (pd.MultiIndex.from_arrays(list(part.T)) for part in (units, rows))
    return np.asarray(index.get_indexer(lookups), dtype=np.int64)


def _text(label: Any) -> str:
    """Write a label; a gap in its column makes decimals of whole numbers."""
    return f"{label:.0f}" if isinstance(label, float) and label.is_integer() else str(label)


def written_labels(frame: pd.DataFrame, columns: Sequence[str]) -> pd.Series[Any]:
    """Labels of rows as they are written, of several columns in one text."""
    if len(columns) == 1:
        return tidy(frame[columns[0]])
    texts = [tidy(frame[name]).astype(object).map(_text, na_action="ignore") for name in columns]
    joined, *others = (text.fillna("no label") for text in texts)
    for other in others:
        joined = joined + _BETWEEN + other
    return joined.where(texts[0].notna(), None)
