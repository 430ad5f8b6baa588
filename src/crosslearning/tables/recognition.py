"""Labels of a new table that mean a task of the fit, however they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crosslearning.tasks import TaskIndex

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

__all__ = ["kept_as_text", "recognised", "tidy"]


def kept_as_text(tasks: Sequence[Hashable]) -> bool:
    """Whether to read labels as text: one odd label or a gap would change the type of all.

    Decimals and booleans are left to the reader, which knows decimal commas and "TRUE".
    """
    return all(isinstance(label, str | int) and not isinstance(label, bool) for label in tasks)


def tidy(labels: pd.Series[Any]) -> pd.Series[Any]:
    """Strip the blanks around labels that are text: "g0 " is "g0"."""
    if not isinstance(labels.dtype, pd.CategoricalDtype) and labels.dtype != object:
        return labels.str.strip() if pd.api.types.is_string_dtype(labels.dtype) else labels
    stripped = labels.astype(object).map(
        lambda label: label.strip() if isinstance(label, str) else label, na_action="ignore"
    )
    return stripped.where(stripped != "", None)


def recognised(labels: pd.Series[Any], tasks: Sequence[Hashable]) -> pd.Series[Any]:
    """Put the label of the fit where another stands for it: equal in text, or as a number.

    Parameters
    ----------
    labels : Series of object
        Labels, none missing.
    tasks : sequence of hashables
        Labels of the fit.

    Returns
    -------
    Series of object
        Those equal to a task and those that stand for none are left as they are.

    Examples
    --------
    >>> recognised(pd.Series(["1", "2.0", "03", "new"], dtype=object), [1, 2, 3]).tolist()
    [1, 2, 3, 'new']
    """
    found = labels.to_numpy(dtype=object, copy=True)
    texts = {str(label): label for label in tasks}
    numbers: dict[Any, Any] = {label: label for label in tasks if isinstance(label, int | float)}
    for row in np.flatnonzero(TaskIndex(tuple(tasks)).encode(labels) < 0):
        label = found[row]
        task = texts.get(str(label))
        found[row] = numbers.get(_number(label), label) if task is None else task
    return pd.Series(found, index=labels.index, dtype=object)


def _number(label: object) -> float | None:
    """Return the number that a text is; whole ones exactly, however long."""
    for convert in (int, float):
        try:
            return convert(label) if isinstance(label, str) else None
        except ValueError:
            continue
    return None
