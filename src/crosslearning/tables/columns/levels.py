"""Tasks within groups: labels of several columns, outermost first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.tables.columns.labels import recognised, tidy
from crosslearning.tasks import TaskIndex
from crosslearning.tasks.labels import as_objects
from crosslearning.tasks.nested import groups_of

Codes = NDArray[np.int64]
_BETWEEN = " / "  # labels of a task


@dataclass(frozen=True, eq=False)
class TaskLevels:
    """The tasks of a fit by the labels of their columns, which are those of groups and of tasks.

    Attributes
    ----------
    columns : list of str
        Names of the columns, outermost first.
    labels : list of array
        Distinct labels of each column.
    positions : array of shape (n_tasks, n_columns)
        Which of these labels a task has; its rows are distinct and in order.
    """

    columns: list[str]
    labels: list[NDArray[Any]]
    positions: Codes

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

    def name_tasks(self, model: Any) -> None:
        """Give an estimator of these tasks, and of their groups if it knows them, their labels."""
        model.tasks_ = as_objects(self.paths)
        if len(model.groups_):
            model.groups_ = [as_objects(groups) for groups in groups_of(self.paths)]

    def codes(self, frame: pd.DataFrame) -> Codes:
        """Return the number of each row's task, else that of its smallest known group, else -1.

        Groups are numbered after the tasks, outermost first. Labels are recognised column by
        column, however they are written.
        """
        at = np.column_stack(
            [
                recognised(frame[name], TaskIndex(tuple(labels)))
                for name, labels in zip(self.columns, self.labels, strict=True)
            ]
        )
        codes, start = np.full(len(at), -1), len(self.positions)
        for units in self.groups:
            places = _places(units, at[:, : units.shape[1]])
            codes, start = np.where(places < 0, codes, start + places), start + len(units)
        places = _places(self.positions, at)
        return np.where(places < 0, codes, places)


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
