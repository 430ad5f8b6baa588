"""Which columns of a table are features, and what to predict: a number or a class."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from crosslearning.convex.families import REGISTRY, recognised_family
from crosslearning.evaluation.metrics import METRICS
from crosslearning.frames import columns as recognition
from crosslearning.frames.columns import Column, as_numbers, column_of, is_date
from crosslearning.frames.survey import Roles

_TIME = re.compile(r"(year|yr|date|month|week|quarter|period|time|day)s?", re.IGNORECASE)
MOST_CLASSES = 50


@dataclass(frozen=True)
class Features:
    """The columns that are used, and those that are not."""

    used: tuple[Column, ...]
    ignored: tuple[Column, ...]

    def of(self, kind: str) -> list[str]:
        """Names of the columns that hold numbers, categories, or dates."""
        return [column.name for column in self.used if column.type == kind]


def features_of(frame: pd.DataFrame, roles: Roles, n_rows: int | None = None) -> Features:
    """Take the columns that are asked for, or all that can be used; by a sample of `n_rows`."""
    others = (*roles.task, roles.target, roles.weights, roles.group)
    wanted, types = roles.features is not None, roles.types
    rest = [name for name in frame.columns if name not in others]
    names = rest if roles.features is None else roles.features
    columns = [
        column_of(frame[name], types.get(name), n_rows=n_rows, may_number_rows=wanted)
        for name in dict.fromkeys(names)
    ]
    unusable = [column for column in columns if column.type == "unusable"]
    if wanted and unusable:
        raise ValueError(
            f"Column {unusable[0].name!r} cannot be a feature: {unusable[0].reason}. "
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


def remarks(frame: pd.DataFrame, features: Features, roles: Roles) -> list[str]:
    """Note columns that look like a time, and numbers that look like ids."""
    numbers = ((name, frame[name].dropna()) for name in features.of("number"))
    whole = [name for name, x in numbers if is_numeric_dtype(x.dtype) and not x.mod(1).any()]
    years = [name for name in whole if _TIME.fullmatch(name) and frame[name].nunique() > 2]
    times = [c.name for c in features.used if c.name in years or is_date(frame[c.name])]
    notes = []
    if times and roles.time is None:
        how = "at random" if roles.group is None else f"by {roles.group}"
        notes.append(
            f"column {times[0]} looks like a time: rows were held out {how}, which flatters "
            "forecasts; option time tests on later rows"
        )
    remedy = "leave it out, treat it as a category, or hold out whole groups of it"
    for name in filter(recognition.ID.search, whole):
        if frame[name].nunique() >= recognition.NUMBERED:
            notes += [f"column {name} looks like an id, but is used as a number: {remedy}"]
    return notes


@dataclass(frozen=True, eq=False, kw_only=True)
class Target:
    """How the values to predict were interpreted, and why.

    `classes` are sorted; `grades` are the classes in their order, if they have or may have one.
    """

    name: str
    kind: Literal["regression", "classification"]
    why: str
    family: str = "gaussian"
    classes: NDArray[Any] | None = None
    grades: NDArray[Any] | None = None

    @property
    def also(self) -> tuple[str, ...]:
        """Families that are tried, too."""
        if self.classes is None:
            return REGISTRY[self.family].also
        return ("ordinal",) if self.grades is not None and self.family != "ordinal" else ()


def target_of(
    column: pd.Series[Any], kind: str = "auto", family: str = "auto", metric: str | None = None
) -> Target:
    """Recognise a target without missing values.

    Strings, booleans and numbers with two distinct values are classes; others are numbers, of which
    right-skewed whole ones from 0 are counts, and strongly right-skewed positive ones amounts.

    >>> import pandas as pd
    >>> target_of(pd.Series([0, 1, 1, 0])).kind
    'classification'
    >>> target_of(pd.Series([0, 1, 1, 0, 2, 7])).family
    'poisson'
    """
    name, distinct = str(column.name), int(column.nunique())
    if is_date(column):
        raise ValueError(
            f"The target {name!r} must be a number or a class; it holds dates, such as "
            f"{column.iloc[0]}. Convert it to a number, such as days since a start."
        )
    if distinct == 1:
        raise ValueError(
            f"The target {name!r} must have at least 2 different values; all are "
            f"{column.tolist()[0]!r}. Choose another target."
        )
    recognised = column_of(column)
    looks_like_classes = recognised.type != "number" or distinct == 2
    as_classes = {"auto": looks_like_classes, "classification": True, "regression": False}[kind]
    why = f"{distinct} classes" if as_classes == looks_like_classes else "as asked"
    if as_classes:
        classes = np.unique(_classes(column, distinct, recognised))
        plain = Target(name=name, kind="classification", why=why, classes=classes)
        return _ordered(plain, column, asked=family == "ordinal")
    numbers = recognition.target_numbers(column)
    _refuse_values(name, numbers, family, metric)
    if family != "auto":
        why = f"{family}, as asked"
    elif metric == "poisson-deviance":
        family, why = "poisson", "poisson, as the metric implies"
    else:
        family, because = recognised_family(numbers)
        why = "as asked" if looks_like_classes else because
    return Target(name=name, kind="regression", why=why, family=family)


def _classes(column: pd.Series[Any], distinct: int, recognised: Column) -> NDArray[Any]:
    """Values of a target of classes: text, booleans, whole or other numbers."""
    if distinct > MOST_CLASSES:
        raise ValueError(
            f"A target of classes may have at most {MOST_CLASSES}; {column.name!r} has "
            f"{distinct:,} distinct values. Group them or choose another column"
            + (", or use option kind=regression." if recognised.type == "number" else ".")
        )
    if recognised.type != "number" or recognised.note:
        return column.astype(object).map(str).to_numpy(dtype=object)
    if all(isinstance(value, bool | np.bool_) for value in column.unique()):
        return column.to_numpy(dtype=bool)
    numbers = as_numbers(column)
    whole = numbers.astype(np.int64)
    return whole if np.array_equal(whole, numbers) else numbers


def _ordered(target: Target, column: pd.Series[Any], *, asked: bool) -> Target:
    """Give classes an order: that of an ordered categorical column, or of numbers.

    Numbers may be names of classes: unless their order is asked for, it is only tried, too.
    """
    classes = np.asarray(target.classes)
    marked = isinstance(column.dtype, pd.CategoricalDtype) and column.dtype.ordered
    numbers = classes.dtype.kind in "iuf"
    if len(classes) == 2 or not (marked or asked or numbers):
        return target
    if not marked and not asked:
        why = f"{len(classes)} classes; the order of their numbers is tried, too"
        return replace(target, why=why, grades=classes)
    if marked:
        present = column.cat.remove_unused_categories().cat.categories
        grades = np.asarray(present if classes.dtype.kind != "O" else present.map(str))
    elif not numbers:
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
