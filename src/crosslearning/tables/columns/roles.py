"""Which columns of a table are features, and what to predict: a number or a class."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from crosslearning.convex.families import REGISTRY, recognised_family
from crosslearning.tables.columns.recognition import (
    ID,
    Column,
    as_numbers,
    column_of,
    is_date,
    is_ordered,
    refuse_slips,
)
from crosslearning.tables.metrics import METRICS
from crosslearning.tables.settings import FitSettings

_MOST_CLASSES = 50
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


@dataclass(frozen=True, eq=False, kw_only=True)
class Target:
    """How the values to predict were interpreted, and why.

    `classes` are sorted. If they have an order, the `family` is "ordinal" and `grades` are the
    classes in it.
    """

    name: str
    kind: Literal["regression", "classification"]
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
