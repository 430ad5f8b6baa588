"""Labels of a new table that stand for a task of the fit, however they are written."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from datetime import datetime
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.tasks import TaskIndex


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
