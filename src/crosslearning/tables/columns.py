"""What a column of a table holds: numbers, categories, dates, or nothing that a model can use.

Columns are indexed by row number from 0, so that messages can name rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

ROW_NUMBER = "it numbers the rows"

_NUMBERS = {"boolean", "integer", "floating", "mixed-integer-float", "decimal"}
_DATES = {"date", "datetime", "datetime64", "time", "timedelta", "timedelta64", "period"}
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?([T ].*)?"  # 2024-05-17, 2024-05-17 12:30
    r"|\d{1,2}[-/. ](\d{1,2}|[A-Za-z]{3,9})[-/. ]\d{2,4}( .*)?"  # 17.05.2024, 17 May 2024
    r"|[A-Za-z]{3,9}\.? \d{1,2},? \d{4}( .*)?"  # May 17, 2024
)
_SAMPLE = 100  # values to recognise dates and numbers from
_DISTINCT = 0.8  # share of distinct values above which strings are text, not categories,
_FEW = 20  # unless they are so few
_NUMBERED = 50  # rows that make 1, 2, 3, ..., in any order, a row number,
_SPARSEST = 2  # even if up to every other number is missing
_LISTED = 5
_MARKS = r"\s*[$€£¥%]\s*|['\u00a0\u202f](?=\d{3})"  # currency, per cent, thousands
_NUMBER = re.compile(r"\(?[-+−]?(\d{1,3}(,\d{3})+|\d*)(\.\d*)?([eE][-+]?\d+)?\)?")
_LONGEST, _EXACT = 15, 2**53  # digits and size that a float can hold exactly; beyond are codes
_CODES = re.compile(r"(^|[^a-z])(zip|zip.?code|post.?code|postal.?code|plz)([^a-z]|$)", re.I)


@dataclass(frozen=True)
class Column:
    """One column; `reason` says why it cannot be used."""

    name: str
    type: Literal["number", "category", "date", "unusable"]
    levels: int
    missing: int
    reason: str = ""


def column_of(values: pd.Series[Any], wanted: str | None = None) -> Column:
    """Recognise what a column holds.

    >>> column_of(pd.Series(["2024-05-17", "2024-05-18"], name="day")).type
    'date'
    >>> column_of(pd.Series(["$1,200", "$900"], name="price")).type
    'number'
    """
    name, missing = str(values.name), int(values.isna().sum())
    if missing == len(values):
        return Column(name, "unusable", 0, missing, "it is empty")
    kind = {"number": "number", "category": "string", None: ""}[wanted] or _kind(values)
    if kind == "number" and (wanted or not _CODES.search(name)):
        return Column(name, "number", 0, missing, _number_reason(values, missing))
    if kind == "other":
        return Column(name, "unusable", 0, missing, "it holds neither numbers nor strings")
    constant = "it is constant" if len(values.unique()) == 1 else ""
    if kind == "date":
        return Column(name, "date", 0, missing, constant)
    levels = int(values.nunique())
    if wanted is None and levels > max(_FEW, _DISTINCT * (len(values) - missing)):
        return Column(name, "unusable", levels, missing, _text_reason(values))
    return Column(name, "category", levels, missing, constant)


def is_date(values: pd.Series[Any]) -> bool:
    """Whether a column holds dates or times, as such or as text."""
    return _kind(values) == "date"


def as_numbers(values: pd.Series[Any]) -> NDArray[np.float64]:
    """Return numbers, NaN where missing; refuse anything else, and infinities."""
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "fiu":
        plain = values.to_numpy(dtype=np.float64)
        if not np.isinf(plain).any():
            return plain
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(values.cat.categories.dtype)
    numbers = _parsed(values)
    wrong = np.isnan(numbers) & values.notna().to_numpy() | np.isinf(numbers)
    if wrong.any():
        raise ValueError(
            f"Column {values.name!r} must hold finite numbers; got {first_of(values[wrong])}. "
            "Correct or delete these values."
        )
    return numbers


def as_dates(values: pd.Series[Any], *, day_first: bool) -> pd.Series[Any]:
    """Return dates, NaT where missing; refuse anything else."""
    options: dict[str, Any] = {"errors": "coerce", "utc": True}
    if not types.is_datetime64_any_dtype(values.dtype):
        values = values.astype("string").str.strip()
        options |= {"format": "mixed", "dayfirst": day_first}
    found: pd.Series[Any] = pd.to_datetime(values, **options).dt.tz_localize(None)
    wrong = found.isna() & values.notna()
    if wrong.any():
        raise ValueError(
            f"Column {values.name!r} must hold dates; got {first_of(values[wrong])}. Correct or "
            "delete these values."
        )
    return found


def has_days_first(values: pd.Series[Any]) -> bool:
    """Whether dates begin with a day: a dot follows it, or one of them cannot be a month."""
    if types.is_datetime64_any_dtype(values.dtype):
        return False
    text = pd.Series(values.unique()).astype("string").str.strip()
    first = text.str.extract(r"^(\d{1,2})([-/. ])\d")
    return bool(((first[1] == ".") | (pd.to_numeric(first[0]) > 12)).any())


def as_categories(values: pd.Series[Any]) -> NDArray[Any]:
    """Return the values as strings, NaN where missing."""
    strings = values.astype(object).map(str, na_action="ignore")
    return strings.where(values.notna(), np.nan).to_numpy(dtype=object)


def listed_rows(index: pd.Index[Any]) -> str:
    """Name the first few rows, counted from 1."""
    listed = ", ".join(str(row + 1) for row in index[:_LISTED]) + ", …" * (len(index) > _LISTED)
    return f"{len(index):,} row{'s' * (len(index) > 1)}: {listed} (the first below the header is 1)"


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
    if inferred == "string" and _all_numbers(values):
        return "number"
    scalar = all(map(types.is_scalar, values.head(_SAMPLE)))
    return "string" if scalar else "other"


def _all_dates(values: pd.Series[Any]) -> bool:
    """Whether the first values are strings that read as dates."""
    first = values.dropna().head(_SAMPLE)
    return len(first) > 0 and all(
        isinstance(value, str) and _DATE.fullmatch(value.strip()) for value in first
    )


def _all_numbers(values: pd.Series[Any]) -> bool:
    """Whether strings are numbers such as $1,200 or 12 %; plain digits are codes."""
    text = values.dropna().astype(str)
    first = text.head(_SAMPLE).str.strip()
    if not len(first) or first.str.fullmatch(r"\d+").all() or _unmarked(first).eq("").any():
        return False
    return bool(_unmarked(text).ne("").all())


def _unmarked(text: pd.Series[Any]) -> pd.Series[Any]:
    """Numbers without marks; empty for anything else, and for codes of many digits."""
    plain = text.str.strip().str.replace(_MARKS, "", regex=True)
    digits = plain.str.count(r"\d")
    number = plain.str.fullmatch(_NUMBER) & (digits > 0) & (digits <= _LONGEST)
    plain = plain.str.replace(",", "").str.replace("−", "-")
    plain = plain.str.replace(r"^\((.*)\)$", r"-\1", regex=True)
    return plain.where(number, "")


def _parsed(values: pd.Series[Any]) -> NDArray[np.float64]:
    """Numbers; NaN where there is none."""
    plain = pd.to_numeric(values, errors="coerce").to_numpy(np.float64, copy=True, na_value=np.nan)
    rest = np.isnan(plain) & values.notna().to_numpy()
    if rest.any() and not types.is_numeric_dtype(values.dtype):
        numbers = pd.to_numeric(_unmarked(values[rest].astype(str)), errors="coerce")
        plain[rest] = numbers.to_numpy(dtype=np.float64)
    return np.asarray(plain)


def _number_reason(values: pd.Series[Any], missing: int) -> str:
    if missing:
        return ""
    numbers = as_numbers(values)
    low, high, count = numbers.min(), numbers.max(), len(numbers)
    if low == high:
        return "it is constant"
    long = count >= _NUMBERED or str(values.name).startswith("Unnamed:")
    if not long or high - low >= _SPARSEST * count or np.any(numbers % 1):
        return ""
    return ROW_NUMBER if len(np.unique(numbers)) == count else ""


def _text_reason(values: pd.Series[Any]) -> str:
    numbers = pd.to_numeric(values, errors="coerce")
    wrong = (numbers.isna() & values.notna()).to_numpy()
    if wrong.mean() < 1 - _DISTINCT:
        return f"it holds numbers except for {first_of(values[wrong])}"
    return "it is text: nearly all of its values differ"


def first_of(values: pd.Series[Any]) -> str:
    """Name the first of some values and the rows that hold them."""
    return f"{values.tolist()[0]!r} in {listed_rows(values.index)}"
