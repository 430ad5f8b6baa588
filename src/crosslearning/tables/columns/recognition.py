"""What a column of a table holds: numbers, categories, dates, or nothing that a model can use.

Columns are indexed by row number from 0, so that messages can name rows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from crosslearning.tables.reading.numerals import CODE, look_alike, mark_of, numbers_in
from crosslearning.wording import listed

_NUMBERS = {"boolean", "integer", "floating", "mixed-integer-float", "decimal"}
_DATES = {"date", "datetime", "datetime64", "time", "timedelta", "timedelta64", "period"}
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?([T ].*)?"  # 2024-05-17, 2024-05-17 12:30
    r"|\d{1,2}[-/. ](\d{1,2}|[A-Za-z]{3,9})[-/. ]\d{2,4}( .*)?"  # 17.05.2024, 17 May 2024
    r"|[A-Za-z]{3,9}\.? \d{1,2},? \d{4}( .*)?"  # May 17, 2024
)
_YEARS = 1678, 2261  # what nanoseconds since 1970 can hold
_SAMPLE = 100  # values to recognise dates and numbers from
_DISTINCT = 0.8  # share of distinct values above which strings are text, not categories,
_FEW = 20  # unless they are so few
_NUMBERED = 50  # rows that make 1, 2, 3, ..., in any order, a row number,
_SPARSEST = 2  # even if up to every other number is missing; if more are, they must be in order:
_EVEN = 0.98  # correlation with the number of the row (of normal values that were sorted, 0.977)
ID = re.compile(r"(^|[^A-Za-z])(id|ID)$|[a-z]I[dD]$")  # what names of columns of ids look like
_LISTED, _LISTED_COLUMNS = 5, 20
_SLIPS = 0.1  # share of values that are no numbers, beyond which a column does not hold numbers;
_VARIED = 10  # and with so few numbers beside them these are levels
_LOOK = 0.8  # share of values that look like numbers, readable or not
_PLAIN = r"\d+|\d{3}(\s\d{3})+"  # codes, if there is nothing else
_EXACT = 2**53  # the largest integer that a float can hold exactly; beyond are codes
_CODES = re.compile(r"(^|[^a-z])(zip|zip.?code|post.?code|postal.?code|plz)([^a-z]|$)", re.I)


@dataclass(frozen=True)
class Column:
    """One column; `reason` says why it cannot be used, `note` what is odd about it."""

    name: str
    type: Literal["number", "category", "date", "unusable"]
    levels: int
    missing: int
    reason: str = ""
    note: str = ""


def column_of(
    values: pd.Series[Any],
    type_: str | None = None,
    *,
    n_rows: int | None = None,
    may_number_rows: bool = False,
) -> Column:
    """Recognise what a column of some type, or else of any, holds.

    The values may be a sample of `n_rows`. What numbers the rows can be used only if it is wanted.

    >>> column_of(pd.Series(["2024-05-17", "2024-05-18"], name="day")).type
    'date'
    >>> column_of(pd.Series(["$1,200", "$900"], name="price")).type
    'number'
    """
    name, missing = str(values.name), int(values.isna().sum())
    if missing == len(values):
        return Column(name, "unusable", 0, missing, "it is empty")
    kind = {"number": "number", "category": "string", None: ""}[type_] or _kind(values)
    if kind == "number" and (type_ or not named_like_codes(name)):
        numbers = as_numbers(values)
        counts = values[np.isnan(numbers) & values.notna().to_numpy()].value_counts()
        reason = "it is constant" if np.ptp(numbers) == 0 else ""
        if not (type_ or may_number_rows) and _numbers_rows(name, numbers, n_rows or len(values)):
            reason = "it numbers the rows"
        note = slips_note(name, [f"{value!r} ({rows:,})" for value, rows in counts.items()])
        return Column(name, "number", 0, missing + int(counts.sum()), reason, note)
    if kind == "other":
        return Column(name, "unusable", 0, missing, "it holds neither numbers nor strings")
    constant = "it is constant" if len(values.unique()) == 1 else ""
    if kind == "date":
        return Column(name, "date", 0, missing, constant)
    levels = int(values.nunique())
    if type_ is None and levels > max(_FEW, _DISTINCT * (len(values) - missing)):
        reason = _like_numbers(values) or "it is text: nearly all of its values differ"
        return Column(name, "unusable", levels, missing, reason)
    odd = type_ is None and levels > _FEW and not named_like_codes(name)
    like = _like_numbers(values) if odd else ""
    note = f"column {name} is treated as categories: {like}" if like else ""
    return Column(name, "category", levels, missing, constant, note)


def named_like_codes(name: str) -> bool:
    """Whether a column is named like post codes, which are categories though they are numbers."""
    return bool(_CODES.search(name))


def is_date(values: pd.Series[Any]) -> bool:
    """Whether a column holds dates or times, as such or as text."""
    return _kind(values) == "date"


def as_numbers(
    values: pd.Series[Any], default: str | None = None, slips: Collection[str] | None = ()
) -> NDArray[np.float64]:
    """Return numbers, NaN where missing; refuse infinities, and more than a few other values.

    `default` is the decimal mark where the column does not show it; `slips` are no numbers,
    but missing values however many they are; None are all values that are no numbers.
    """
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "fiu":
        plain = values.to_numpy(dtype=np.float64)
        if not np.isinf(plain).any():
            return plain
    numbers = numbers_in(values, mark_of(values, default))
    present = values.notna().to_numpy()
    wrong = np.isnan(numbers) & present & ~values.isin(list(slips or ())).to_numpy()
    if slips is None or wrong.sum() <= _SLIPS * present.sum():
        wrong[:] = False
    wrong |= np.isinf(numbers)
    if wrong.any():
        raise ValueError(
            f"Column {values.name!r} must hold finite numbers; got {first_of(values[wrong])}. "
            "Correct or delete these values."
        )
    return numbers


def as_dates(values: pd.Series[Any], *, day_first: bool) -> pd.Series[Any]:
    """Return dates, NaT where missing; refuse anything else, and years such as 9999."""
    options: dict[str, Any] = {"errors": "coerce", "utc": True}
    if not types.is_datetime64_any_dtype(values.dtype):
        values = values.astype("string").str.strip()
        options |= {"format": "mixed", "dayfirst": day_first}
    dates: pd.Series[Any] = pd.to_datetime(values, **options).dt.tz_localize(None)
    wrong = values.notna() & ~dates.dt.year.between(*_YEARS)
    if wrong.any():
        raise ValueError(
            f"Column {values.name!r} must hold dates from {_YEARS[0]} to {_YEARS[1]}; got "
            f"{first_of(values[wrong])}. Correct or delete these values."
        )
    return dates


def has_days_first(values: pd.Series[Any]) -> bool:
    """Whether dates begin with a day: a dot follows it, or one of them cannot be a month."""
    if types.is_datetime64_any_dtype(values.dtype):
        return False
    text = pd.Series(values.unique()).astype("string").str.strip()
    first = text.str.extract(r"^(\d{1,2})([-/. ])\d")
    return bool(((first[1] == ".") | (pd.to_numeric(first[0]) > 12)).any())


def time_values(time: pd.Series[Any], *, day_first: bool | None = None) -> NDArray[Any]:
    """Return times as numbers; by default the dates tell whether their days come first."""
    numbers = None if is_date(time) else as_numbers(time)
    gaps = time.isna().to_numpy() if numbers is None else np.isnan(numbers)
    if gaps.any():
        raise ValueError(
            f"The column {time.name!r} must have a time in every row; it has none in "
            f"{listed_rows(time.index[gaps])}. Fill in the times or drop the rows."
        )
    if numbers is not None:
        return numbers
    first = has_days_first(time) if day_first is None else day_first
    return np.asarray(as_dates(time, day_first=first).astype("datetime64[ns]")).astype("i8")


def as_categories(values: pd.Series[Any]) -> NDArray[Any]:
    """Return the values as strings, NaN where missing; whole numbers without decimals."""
    strings = values.astype(object).map(_written, na_action="ignore")
    return strings.where(values.notna(), np.nan).to_numpy(dtype=object)


def _written(value: Any) -> str:
    """Write a value; gaps, and other files, make decimals of whole numbers."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def listed_rows(index: pd.Index[Any]) -> str:
    """Name the first few rows, counted from 1."""
    rows = "row" if len(index) == 1 else "rows"
    numbers = listed((row + 1 for row in index), _LISTED)
    return f"{len(index):,} {rows}: {numbers} (the first below the header is 1)"


def _kind(values: pd.Series[Any]) -> Literal["number", "string", "date", "other"]:
    if types.is_complex_dtype(values.dtype):
        return "other"
    if types.is_numeric_dtype(values.dtype):
        return "number"
    inferred = types.infer_dtype(values, skipna=True)
    if inferred in _NUMBERS:
        long = inferred == "integer" and any(abs(v) > _EXACT for v in values.dropna().unique())
        return "string" if long else "number"
    if inferred in _DATES or _all_dates(values):
        return "date"
    if not all(map(types.is_scalar, values.head(_SAMPLE))):
        return "other"
    return "number" if _are_numbers(values) else "string"


def _all_dates(values: pd.Series[Any]) -> bool:
    """Whether the first values are strings that read as dates."""
    first = values.dropna().head(_SAMPLE)
    return len(first) > 0 and all(
        isinstance(value, str) and _DATE.fullmatch(value.strip()) for value in first
    )


def _are_numbers(values: pd.Series[Any]) -> bool:
    """Whether text holds numbers such as $1,200 or 12 %, with few exceptions; not codes."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return False
    text = values.dropna()
    for part, least in ((text.head(_SAMPLE), 0.5), (text, 1 - _SLIPS)):
        read = ~np.isnan(numbers_in(part, mark_of(part)))
        if read.mean() < least:
            return False
    strings = text[read].astype(str).str.strip()
    if strings.str.fullmatch(CODE).any():
        return False
    if read.all():
        return not strings.str.fullmatch(_PLAIN).all()
    return bool(strings.nunique() > _VARIED)


def _numbers_rows(name: str, numbers: NDArray[np.float64], n_rows: int) -> bool:
    """Whether distinct whole numbers leave few gaps, are in order, or are named like ids."""
    count = len(numbers)
    if count < _NUMBERED and not name.startswith("Unnamed:"):
        return False
    if np.isnan(numbers).any() or np.any(numbers % 1) or len(np.unique(numbers)) < count:
        return False
    dense = np.ptp(numbers) < _SPARSEST * n_rows
    return bool(dense or is_ordered(numbers) or ID.search(name))


def is_ordered(numbers: NDArray[np.float64]) -> bool:
    """Whether numbers go up, or down, evenly from row to row, as if they counted something."""
    return bool(abs(np.corrcoef(np.arange(len(numbers)), numbers)[0, 1]) > _EVEN)


def slips_note(name: str, slips: Sequence[str]) -> str:
    """Tell which values of a column are not numbers, if there are any."""
    if not slips:
        return ""
    return f"column {name}: values that are not numbers count as missing: {listed(slips, _LISTED)}"


def _like_numbers(values: pd.Series[Any]) -> str:
    """Say so if text looks like numbers that cannot be read."""
    some = pd.Series(values.dropna().unique()[:_SAMPLE]).astype(str)
    looks = some.map(look_alike)
    unread = some[looks & np.isnan(numbers_in(some, mark_of(some)))]
    if looks.mean() < _LOOK or len(unread) <= _SLIPS * len(some):
        return ""
    return f"its values look like numbers but cannot be read as such, as in {unread.iloc[0]!r}"


def first_of(values: pd.Series[Any]) -> str:
    """Name the first of some values and the rows that hold them."""
    return f"{values.tolist()[0]!r} in {listed_rows(values.index)}"


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
        f"Its columns are {listed(frame.columns, _LISTED_COLUMNS)}."
    )
