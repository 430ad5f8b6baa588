"""What a column holds: numbers as people write them, categories, dates, or nothing of use.

Columns are indexed by row number from 0. With a decimal comma, 1.234 is 1234.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from crosslearning.wording import listed

_UNIT = r"(?:[€£$¥%]|EUR|USD|GBP|CHF)"
_WRITTEN = re.compile(
    rf"(?P<sign>[-+−]?)\s*(?:{_UNIT}\s*)?(?P<body>[.,]?\d(?:[\d.,'’\s]*[\d.,])?)"
    rf"(?P<power>[eE][-+]?\d+)?(?:\s*{_UNIT})?"
)
_BODIES = {
    mark: re.compile(rf"(?:[1-9]\d{{0,2}}([{other}'’\s])\d{{3}}(?:\1\d{{3}})*|\d*)(?:[{mark}]\d*)?")
    for mark, other in ((".", ","), (",", "."))
}
CODE = r"0\d+|\d{16,}"  # leading zeros, or more digits than a float can hold
_PLAIN = r"\d+|\d{3}(\s\d{3})+"  # codes, if there is nothing else
_NUMBERS = {"boolean", "integer", "floating", "mixed-integer-float", "decimal"}
_DATES = {"date", "datetime", "datetime64", "time", "timedelta", "timedelta64", "period"}
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?([T ].*)?"  # 2024-05-17, 2024-05-17 12:30
    r"|\d{1,2}[-/. ](\d{1,2}|[A-Za-z]{3,9})[-/. ]\d{2,4}( .*)?"  # 17.05.2024, 17 May 2024
    r"|[A-Za-z]{3,9}\.? \d{1,2},? \d{4}( .*)?"  # May 17, 2024
)
_YEARS = 1678, 2261  # what nanoseconds since 1970 can hold
_SAMPLE = 100  # values to recognise dates and numbers from
_SHOWING = 5_000  # distinct values to find the decimal mark in
_DISTINCT = 0.8  # share of distinct values above which strings are text, not categories,
_FEW = 20  # unless they are so few
_SLIPS = 0.1  # share of values that are no numbers, beyond which a column does not hold numbers;
_VARIED = 10  # and with so few numbers beside them these are levels
NUMBERED = 50  # distinct whole numbers that may number the rows, or identify something,
_SPARSEST = 2  # even if up to every other number is missing
ID = re.compile(r"(^|[^A-Za-z])(id|ID|code|nr)$|[a-z]I[dD]$")  # names of columns of ids
_CODES = re.compile(r"(^|[^a-z])(zip|zip.?code|post.?code|postal.?code|plz)([^a-z]|$)", re.I)
_LISTED, _LISTED_COLUMNS = 5, 20


def decimal_mark(texts: Iterable[str]) -> str | None:
    """Decimal mark that most of the texts show; None if all may be read either way, as 1.234.

    >>> decimal_mark(["3.000 EUR", "1.234,56 EUR"]), decimal_mark(["3.000", "1.5"])
    (',', '.')
    """
    votes: Counter[str] = Counter()
    for text in texts:
        if match := _WRITTEN.fullmatch(text.strip()):
            readable = [mark for mark, body in _BODIES.items() if body.fullmatch(match["body"])]
            if len(readable) == 1:
                votes[readable[0]] += 1
    return votes.most_common(1)[0][0] if votes else None


def mark_of(values: pd.Series[Any], default: str | None = None) -> str:
    """Decimal mark of a column: by its values, else the default, else that of its file."""
    texts = [value for value in values.dropna().unique()[:_SHOWING] if isinstance(value, str)]
    dialect = values.attrs.get("dialect")
    return decimal_mark(texts) or default or (dialect.decimal if dialect else ".")


def numbers_in(values: pd.Series[Any], mark: str) -> NDArray[np.float64]:
    """Numbers; NaN where values are missing or cannot be read.

    >>> numbers_in(pd.Series(["1.234,56 €", "-12,5 %", "CHF 1'000", "k.A."]), ",").tolist()
    [1234.56, -12.5, 1000.0, nan]
    """
    if types.is_numeric_dtype(values.dtype):
        return values.to_numpy(np.float64, na_value=np.nan)
    codes, uniques = pd.factorize(values)
    return np.array([*(_number(value, mark) for value in uniques), np.nan])[codes]


def _number(value: Any, mark: str) -> float:
    if not isinstance(value, str):
        try:
            return float(value)
        except (TypeError, ValueError):
            return np.nan
    match = _WRITTEN.fullmatch(value.strip())
    if not match or not _BODIES[mark].fullmatch(match["body"]):
        return np.nan
    digits = re.sub(rf"[^\d{mark}]", "", match["body"]).replace(mark, ".")
    return float(digits + (match["power"] or "")) * (-1 if match["sign"] in ("-", "−") else 1)


def as_numbers(
    values: pd.Series[Any], default: str | None = None, *, strict: bool = True
) -> NDArray[np.float64]:
    """Return finite numbers; NaN where missing or, if few or not `strict`, where there is none."""
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "fiu":
        plain = values.to_numpy(dtype=np.float64)
        if not np.isinf(plain).any():
            return plain
    numbers = numbers_in(values, mark_of(values, default))
    present = values.notna().to_numpy()
    wrong = np.isnan(numbers) & present
    many = strict and wrong.sum() > _SLIPS * present.sum()
    wrong = wrong & many | np.isinf(numbers)
    if wrong.any():
        raise ValueError(
            f"Column {values.name!r} must hold finite numbers; got {first_of(values[wrong])}. "
            "Correct or delete these values."
        )
    return numbers


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
    # Post codes are categories though they are numbers.
    if kind == "number" and (type_ or not _CODES.search(name)):
        numbers = as_numbers(values)
        reason = "it is constant" if np.ptp(numbers) == 0 else ""
        if not (type_ or may_number_rows) and _numbers_rows(name, numbers, n_rows or len(values)):
            reason = "it numbers the rows"
        slips, note = values[np.isnan(numbers)].dropna(), ""
        if len(slips):
            texts = listed(map(repr, slips.unique()), _LISTED)
            note = f"column {name}: values that are not numbers count as missing: {texts}"
        return Column(name, "number", 0, missing + len(slips), reason, note)
    if kind == "other":
        return Column(name, "unusable", 0, missing, "it holds neither numbers nor strings")
    constant = "it is constant" if len(values.unique()) == 1 else ""
    if kind == "date":
        return Column(name, "date", 0, missing, constant)
    levels = int(values.nunique())
    if type_ is None and levels > max(_FEW, _DISTINCT * (len(values) - missing)):
        return Column(name, "unusable", levels, missing, "it is text: nearly all values differ")
    return Column(name, "category", levels, missing, constant)


def _kind(values: pd.Series[Any]) -> Literal["number", "string", "date", "other"]:
    if types.is_complex_dtype(values.dtype):
        return "other"
    inferred = types.infer_dtype(values, skipna=True)
    if types.is_numeric_dtype(values.dtype) or inferred in _NUMBERS:
        return "number"
    first = values.dropna().head(_SAMPLE)
    as_text = len(first) and all(isinstance(v, str) and _DATE.fullmatch(v.strip()) for v in first)
    if inferred in _DATES or as_text:
        return "date"
    if not all(map(types.is_scalar, first)):
        return "other"
    return "number" if _are_numbers(values) else "string"


def _are_numbers(values: pd.Series[Any]) -> bool:
    """Whether text holds numbers such as $1,200 or 12 %, with few exceptions; not codes."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return False
    text = values.dropna()
    for part, least in ((text.head(_SAMPLE), 0.5), (text, 1 - _SLIPS)):
        readable = ~np.isnan(numbers_in(part, mark_of(part)))
        if readable.mean() < least:
            return False
    strings = text[readable].astype(str).str.strip()
    if strings.str.fullmatch(CODE).any():
        return False
    if readable.all():
        return not strings.str.fullmatch(_PLAIN).all()
    return bool(strings.nunique() > _VARIED)


def _numbers_rows(name: str, numbers: NDArray[np.float64], n_rows: int) -> bool:
    """Whether distinct whole numbers leave few gaps, or are named like ids."""
    count = len(numbers)
    if count < NUMBERED and not name.startswith("Unnamed:"):
        return False
    if np.isnan(numbers).any() or np.any(numbers % 1) or len(np.unique(numbers)) < count:
        return False
    return bool(np.ptp(numbers) < _SPARSEST * n_rows or ID.search(name))


def is_date(values: pd.Series[Any]) -> bool:
    """Whether a column holds dates or times, as such or as text."""
    return _kind(values) == "date"


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
    numbers = None if _are_dates(time) else as_numbers(time)
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


def _are_dates(values: pd.Series[Any]) -> bool:
    """Whether a column holds dates, perhaps with slips."""
    kind, text = _kind(values), values.dropna().astype(str).str.strip()
    if kind != "string":
        return kind == "date"
    return bool(text.str.fullmatch(_DATE.pattern).mean() > 0.5)


def target_numbers(column: pd.Series[Any], mark: str | None = None) -> NDArray[np.float64]:
    """Return the numbers of a target; refuse values that are none."""
    numbers = as_numbers(column, mark)
    slips = column[np.isnan(numbers)].dropna()
    if len(slips):
        raise ValueError(
            f"The target {column.name!r} holds numbers except for {first_of(slips)}. Correct or "
            "delete these values, or ask for classes with option kind=classification."
        )
    return numbers


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


def as_text(value: Any) -> str:
    """Write a value; gaps, and other files, make decimals of whole numbers."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def listed_rows(index: pd.Index[Any]) -> str:
    """Name the first few rows, counted from 1."""
    rows = "row" if len(index) == 1 else "rows"
    numbers = listed((row + 1 for row in index), _LISTED)
    return f"{len(index):,} {rows}: {numbers} (the first below the header is 1)"


def first_of(values: pd.Series[Any]) -> str:
    """Name the first of some values and the rows that hold them."""
    return f"{values.tolist()[0]!r} in {listed_rows(values.index)}"


def require_columns(
    columns: Iterable[Hashable], names: Sequence[str], role: str, table: str = "The table"
) -> None:
    """Refuse names that are not among the columns; suggest similar ones."""
    present = list(columns)
    if absent := [name for name in names if name not in present]:
        near = get_close_matches(absent[0], map(str, present), n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        if role == "the task" and set(absent[0].split(",")) <= set(present):
            hint = "Name each column with its own --task (in Python, in a list). "
        raise ValueError(
            f"{table} has no column {', '.join(map(repr, absent))} for {role}. {hint}"
            f"Its columns are {listed(present, _LISTED_COLUMNS)}."
        )


def free_name(name: str, taken: Collection[Hashable]) -> str:
    """Add underscores to a name while it is taken."""
    return free_name(f"{name}_", taken) if name in taken else name


def check_names(columns: Iterable[Hashable]) -> None:
    """Refuse column names that are not distinct strings."""
    for name, count in Counter(columns).items():
        if not isinstance(name, str):
            remedy = "Use `frame.columns = frame.columns.astype(str)`."
            raise ValueError(f"Column names must be strings; got {name!r}. {remedy}")
        if count > 1:
            raise ValueError(f"Column names must differ; got {name!r} twice. Rename one of them.")
