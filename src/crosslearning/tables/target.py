"""What is to be predicted: a number or a class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from crosslearning.tables.columns import as_numbers, column_of, is_date

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Kind = Literal["regression", "classification"]

__all__ = ["KINDS", "Target", "target_of"]

KINDS = ("auto", "regression", "classification")

_MOST_CODES = 10  # whole numbers with no more distinct values than these are classes
_MOST_CLASSES = 50


@dataclass(frozen=True, eq=False)
class Target:
    """The values to predict and how they were understood.

    Attributes
    ----------
    name : str
        Name of the column.
    kind : {"regression", "classification"}
        What is predicted.
    y : array of shape (n_rows,)
        Numbers, or class labels: strings, whole numbers or booleans.
    why : str
        The rule that decided.
    """

    name: str
    kind: Kind
    y: NDArray[Any]
    why: str


def target_of(column: pd.Series[Any], kind: str = "auto") -> Target:
    """Recognise a target without missing values.

    Strings, booleans and whole numbers with at most 10 distinct values are classes; other numbers
    are numbers.

    Parameters
    ----------
    column : Series
        The target.
    kind : {"auto", "regression", "classification"}, default="auto"
        What to take it for.

    Returns
    -------
    Target

    Examples
    --------
    >>> import pandas as pd
    >>> target_of(pd.Series([0, 1, 1, 0])).kind
    'classification'
    """
    if kind not in KINDS:
        raise ValueError(f"`kind` must be one of {', '.join(KINDS)}; got {kind!r}.")
    name = column.name
    if is_date(column):
        raise ValueError(
            f"The target {name!r} holds dates, such as {column.iloc[0]}; a number or a class is "
            "needed. Turn it into a number, such as days since a start, and fit that."
        )
    distinct = int(column.nunique())
    if distinct == 1:
        raise ValueError(
            f"The target {name!r} has one value only, {column.tolist()[0]!r}: there is nothing to "
            "predict. Choose another column."
        )
    found, why = _recognised(column, distinct)
    if kind not in ("auto", found):
        found, why = cast("Kind", kind), "as asked"
    values = as_numbers(column) if found == "regression" else _classes(column, distinct)
    return Target(str(name), found, values, why)


def _recognised(column: pd.Series[Any], distinct: int) -> tuple[Kind, str]:
    recognised = column_of(column)
    if recognised.type != "number":
        return "classification", f"{distinct} classes"
    numbers = as_numbers(column)
    if np.any(numbers != np.floor(numbers)):
        return "regression", "numbers with decimals"
    if distinct <= _MOST_CODES:
        why = f"whole numbers with {distinct} distinct values, at most {_MOST_CODES}"
        return "classification", why
    return "regression", f"whole numbers with more than {_MOST_CODES} distinct values"


def _classes(column: pd.Series[Any], distinct: int) -> NDArray[Any]:
    recognised = column_of(column)
    if distinct > _MOST_CLASSES:
        because = f" ({recognised.reason})" if recognised.reason else ""
        raise ValueError(
            f"A target of classes may have at most {_MOST_CLASSES}; {column.name!r} has "
            f"{distinct:,} distinct values{because}. Group them or choose another column"
            + ", or predict numbers with kind='regression'" * (recognised.type == "number")
            + "."
        )
    if recognised.type != "number":
        return column.astype(object).map(str).to_numpy(dtype=object)
    if all(isinstance(value, bool | np.bool_) for value in column.unique()):
        return column.to_numpy(dtype=bool)
    numbers_only = as_numbers(column)
    whole = numbers_only.astype(np.int64)
    return whole if np.array_equal(whole, numbers_only) else numbers_only
