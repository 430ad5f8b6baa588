"""Which columns of a table are task, target and features; errors for bad choices."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from crosslearning.tables.columns.recognition import (
    ID,
    Column,
    column_of,
    is_date,
    is_ordered,
    listed_rows,
)
from crosslearning.tables.settings import FitSettings
from crosslearning.wording import listed

_LISTED = 20
_FEWEST_IDS = 50
_UNIT = re.compile(  # names of what rows belong to; their numbers are codes
    r"(district|county|state|region|town|city|village|school|class|teacher|student|pupil|child"
    r"|family|household|person|patient|subject|hospital|firm|company|store|shop|product|customer"
    r"|user)([ _.]?(code|nr|num|number))?|c?code|nr",
    re.IGNORECASE,
)
_TIME = re.compile(r"(year|yr|date|month|week|quarter|period|time|day)s?", re.IGNORECASE)


@dataclass(frozen=True)
class Features:
    """The columns that are used, and those that are not."""

    used: tuple[Column, ...]
    ignored: tuple[Column, ...]

    def of(self, kind: str) -> list[str]:
        """Names of the columns that hold numbers, categories, or dates."""
        return [column.name for column in self.used if column.type == kind]


def check_names(frame: pd.DataFrame) -> None:
    """Refuse column names that are not distinct strings."""
    names: list[Hashable] = list(frame.columns)
    strange = [name for name in names if not isinstance(name, str)]
    if strange:
        raise ValueError(
            f"Column names must be strings; got {strange[0]!r}. "
            "Use `frame.columns = frame.columns.astype(str)`."
        )
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise ValueError(f"Column names must differ; got {twice[0]!r} twice. Rename one of them.")


def require_columns(
    frame: pd.DataFrame, names: Sequence[str], role: str, table: str = "The table"
) -> None:
    """Refuse names of columns that do not exist; suggest similar ones."""
    absent = [name for name in names if name not in frame.columns]
    if not absent:
        return
    near = get_close_matches(absent[0], list(frame.columns), n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    if set(absent[0].split(",")) <= set(frame.columns):
        hint = "Name one column at a time. "
    raise ValueError(
        f"{table} has no column {', '.join(map(repr, absent))} for {role}. {hint}"
        f"Its columns are {listed(frame.columns, _LISTED)}."
    )


def unlabelled(task: Hashable, rows: pd.Index[Any]) -> ValueError:
    """Say which rows have no label."""
    return ValueError(
        f"The task column {task!r} must have a label in every row; it has none in "
        f"{listed_rows(rows)}. Fill in the labels, or drop these rows with option drop_unlabelled."
    )


def check_task_count(
    names: Sequence[str], labels: Sequence[Any] | NDArray[Any], n_rows: int
) -> None:
    """Refuse one task, and one row per task."""
    name = f"column {names[0]!r}" if len(names) == 1 else f"columns {', '.join(map(repr, names))}"
    if len(labels) < 2:
        raise ValueError(
            f"The task {name} must have at least 2 labels; got one, "
            f"{next(iter(pd.Index(labels)))!r}. A single task has nothing to share."
        )
    if len(labels) == n_rows:
        raise ValueError(
            f"The labels of the task {name} must repeat; got {n_rows:,} different labels "
            f"in {n_rows:,} rows. Choose a column of groups of rows."
        )


def features_of(frame: pd.DataFrame, settings: FitSettings, n_rows: int | None = None) -> Features:
    """Take the columns that are asked for, or all that can be used; by a sample of `n_rows`."""
    tasks, target, chosen = settings.task, settings.target, settings.features
    reserved = [name for name in chosen or () if name in (*tasks, target)]
    if reserved:
        raise ValueError(
            f"{reserved[0]!r} is the {'task' if reserved[0] in tasks else 'target'} and cannot "
            "be a feature as well. Omit it from the features."
        )
    others = (*tasks, target, settings.weights, settings.group)
    names: list[str] = (
        [n for n in frame.columns if n not in others] if chosen is None else list(chosen)
    )
    types, explicit = settings.column_types, chosen is not None
    columns = [
        column_of(frame[name], types.get(name), n_rows=n_rows, may_number_rows=explicit)
        for name in dict.fromkeys(names)
    ]
    for column in columns:
        if explicit and column.type == "unusable":
            raise ValueError(
                f"Column {column.name!r} cannot be a feature: {column.reason}. "
                "Omit it from the features or convert it."
            )
    used = tuple(column for column in columns if not column.reason)
    if not used:
        because = "; ".join(f"{c.name}: {c.reason}" for c in columns) or "there are no others"
        raise ValueError(
            f"No column besides task and target can be a feature ({because}). "
            "Add a column of numbers or categories that varies."
        )
    return Features(used, tuple(column for column in columns if column.reason))


def remarks(
    frame: pd.DataFrame, features: Features, settings: FitSettings, labels: NDArray[Any]
) -> list[str]:
    """Note what seems odd about columns and labels."""
    names = [column.name for column in features.used]
    return [
        *(looks_like_time(frame, names) if settings.time is None else ()),
        *looks_like_groups(frame, features.of("number")),
        *differ_in_case(settings.task[-1], labels),
    ]


def looks_like_groups(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Note columns of numbers that seem to identify something, such as families."""
    why = "looks like an id, but is used as a number"
    remedy = "leave it out, treat it as a category, or hold out whole groups of it"
    return [f"column {name} {why}: {remedy}" for name in names if _is_id(frame[name])]


def _is_id(values: pd.Series[Any]) -> bool:
    """Whether whole numbers are named like ids, or count groups of adjacent rows."""
    name, numbers = str(values.name), values.dropna()
    if not is_numeric_dtype(values.dtype) or numbers.mod(1).any() or _TIME.fullmatch(name):
        return False
    distinct = numbers.nunique()
    if distinct < _FEWEST_IDS:
        return False
    if ID.search(name) or _UNIT.fullmatch(name):
        return True
    adjacent = distinct < len(numbers) and int((numbers.diff() != 0).sum()) == distinct
    return adjacent and is_ordered(numbers.to_numpy(np.float64))


def differ_in_case(task: str, labels: NDArray[Any]) -> list[str]:
    """Note labels of tasks that differ only in case."""
    texts = pd.Series([label for label in labels if isinstance(label, str)], dtype=object)
    folded = texts.str.casefold()
    alike = texts[folded.duplicated(keep=False)]
    if not len(alike):
        return []
    pair = alike[folded[alike.index] == folded[alike.index[0]]].tolist()
    more = f" and {len(alike) - 2:,} other labels" if len(alike) > 2 else ""
    note = f"labels of {task} that differ only in case, {pair[0]!r} and {pair[1]!r}{more}, are "
    return [f"{note}different tasks: write them alike if they are the same"]


def looks_like_time(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Note that random held-out rows flatter forecasts, if a column looks like a time."""
    for name in names:
        if is_date(frame[name]) or _is_year(frame[name]):
            why = "rows were held out at random, which flatters forecasts"
            return [f"column {name} looks like a time: {why}; option time tests on later rows"]
    return []


def _is_year(values: pd.Series[Any]) -> bool:
    if not _TIME.fullmatch(str(values.name)) or not is_numeric_dtype(values.dtype):
        return False
    numbers = values.dropna()
    return bool(len(numbers) and numbers.mod(1).eq(0).all() and numbers.nunique() > 2)
