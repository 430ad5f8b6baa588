"""What to predict: a number or a class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.convex.families import REGISTRY, recognised_family
from crosslearning.tables.columns.recognition import (
    Column,
    as_numbers,
    column_of,
    first_of,
    is_date,
)
from crosslearning.tables.metrics import METRICS

Kind = Literal["regression", "classification"]

_MOST_CLASSES = 50


@dataclass(frozen=True, eq=False, kw_only=True)
class Target:
    """How the values to predict were interpreted, and why.

    `classes` are sorted. If they have an order, the `family` is "ordinal" and `grades` are the
    classes in it.
    """

    name: str
    kind: Kind
    why: str
    family: str = "gaussian"
    classes: NDArray[Any] | None = None
    grades: NDArray[Any] | None = None


def target_of(
    column: pd.Series[Any], kind: str = "auto", family: str = "auto", metric: str | None = None
) -> Target:
    """Recognise a target without missing values.

    Strings, booleans and numbers with two distinct values are classes; others are numbers.
    Right-skewed whole numbers from 0 are counts, and strongly right-skewed positive numbers are
    amounts; models of both have a logarithmic link.

    >>> import pandas as pd
    >>> target_of(pd.Series([0, 1, 1, 0])).kind
    'classification'
    >>> target_of(pd.Series([0, 1, 1, 0, 2, 7])).family
    'poisson'
    """
    name = str(column.name)
    if is_date(column):
        raise ValueError(
            f"The target {name!r} must be a number or a class; it holds dates, such as "
            f"{column.iloc[0]}. Convert it to a number, such as days since a start."
        )
    distinct = int(column.nunique())
    if distinct == 1:
        raise ValueError(
            f"The target {name!r} must have at least 2 values; it has only "
            f"{column.tolist()[0]!r}. Choose another column."
        )
    recognised = column_of(column)
    looks_like_classes = recognised.type != "number" or distinct == 2
    as_classes = {"auto": looks_like_classes, "classification": True, "regression": False}[kind]
    why = f"{distinct} classes" if as_classes == looks_like_classes else "as asked"
    if as_classes:
        classes = np.unique(_classes(column, distinct, recognised))
        plain = Target(name=name, kind="classification", why=why, classes=classes)
        return _ordered(plain, column, asked=family == "ordinal")
    numbers = as_numbers(column)
    refuse_slips(column, numbers)
    _refuse_values(name, numbers, family, metric)
    if family != "auto":
        why = f"{family}, as asked"
    elif metric == "poisson-deviance":
        family, why = "poisson", "poisson, as the metric implies"
    else:
        family, because = recognised_family(numbers)
        why = "as asked" if looks_like_classes else because
    return Target(name=name, kind="regression", why=why, family=family)


def _ordered(target: Target, column: pd.Series[Any], *, asked: bool) -> Target:
    """Give classes an order: that of an ordered categorical column, or, if asked, of numbers."""
    classes = np.asarray(target.classes)
    marked = isinstance(column.dtype, pd.CategoricalDtype) and column.dtype.ordered
    if len(classes) == 2 or not (marked or asked):
        return target
    if marked:
        present = column.cat.remove_unused_categories().cat.categories
        grades = np.asarray(present if classes.dtype.kind != "O" else present.map(str))
    elif classes.dtype.kind == "O":
        raise ValueError(
            f"Option family=ordinal needs classes with an order: numbers, or an ordered pandas "
            f"Categorical; {target.name!r} has text, such as {classes[0]!r}. Replace it by numbers."
        )
    else:
        grades = classes
    why = f"{len(grades)} ordered classes: {' < '.join(map(str, grades))}"
    return replace(target, why=why, family="ordinal", grades=grades)


def class_codes(
    values: pd.Series[Any], classes: NDArray[Any], mark: str | None = None
) -> NDArray[np.intp]:
    """Position of each value among the classes; refuse values that are none of them."""
    rows, uniques = pd.factorize(values)
    distinct: Any = pd.Series(np.asarray(uniques), name=values.name)
    if classes.dtype.kind in "OU":
        positions = pd.Index(classes).get_indexer(pd.Index(distinct.astype(object).map(str)))
    else:
        numbers = pd.Index(classes.astype(np.float64))
        positions = numbers.get_indexer(pd.Index(as_numbers(distinct, mark)))
    codes = positions[rows]
    if (codes < 0).any():
        raise ValueError(
            f"The target {values.name!r} must be one of {', '.join(map(str, classes))}; got "
            f"{first_of(values[codes < 0])}. Correct these values, or drop the rows or the column."
        )
    return np.asarray(codes)


def refuse_slips(column: pd.Series[Any], values: NDArray[np.float64]) -> None:
    """Refuse numbers among which a few values are not numbers."""
    slips = column[np.isnan(values)].dropna()
    if len(slips):
        raise ValueError(
            f"The target {column.name!r} holds numbers except for "
            f"{first_of(slips)}. Correct or delete these values, or ask for classes with option "
            "kind=classification."
        )


def _refuse_values(name: str, values: NDArray[np.float64], family: str, metric: str | None) -> None:
    """Refuse targets that a metric is not defined for, or that a family has no probability for."""
    rules = [(family, f"A {family} model", "family: tweedie allows 0, gaussian and student any")]
    if metric is not None:
        rules.append((METRICS[metric].family, f"The metric {metric}", "metric, such as mse"))
    for what, who, other in rules:
        if what in REGISTRY and not REGISTRY[what]().possible(values).all():
            raise ValueError(
                f"{who} needs targets {REGISTRY[what].rule}; {name!r} has {values.min():g}. "
                f"Choose another {other}."
            )


def _classes(column: pd.Series[Any], distinct: int, recognised: Column) -> NDArray[Any]:
    """Values of a target of classes: text, booleans, whole or other numbers."""
    if distinct > _MOST_CLASSES:
        because = f" ({recognised.reason})" if recognised.reason else ""
        raise ValueError(
            f"A target of classes may have at most {_MOST_CLASSES}; {column.name!r} has "
            f"{distinct:,} distinct values{because}. Group them or choose another column"
            + (", or use option kind=regression." if recognised.type == "number" else ".")
        )
    if recognised.type != "number" or recognised.note:
        return column.astype(object).map(str).to_numpy(dtype=object)
    if all(isinstance(value, bool | np.bool_) for value in column.unique()):
        return column.to_numpy(dtype=bool)
    numbers_only = as_numbers(column)
    whole = numbers_only.astype(np.int64)
    return whole if np.array_equal(whole, numbers_only) else numbers_only
