"""Labels of a new table that stand for a task of the fit, however they are written."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
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
    """
    rows, found = pd.factorize(tidy(labels))
    distinct = pd.Series(np.asarray(found), dtype=object)
    positions = index.encode(distinct)
    for k in np.flatnonzero(positions < 0):
        text = index.texts.get(str(distinct[k]))
        positions[k] = index.position(_number(distinct[k])) if text is None else text
    return np.append(positions, -1)[rows]


def _number(label: object) -> float | None:
    """Convert text to a number; integers of any length exactly."""
    for convert in (int, float):
        try:
            return convert(label) if isinstance(label, str) else None
        except ValueError:
            continue
    return None
