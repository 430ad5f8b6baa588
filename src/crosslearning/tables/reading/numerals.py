"""Numbers as people write them: decimal and thousands marks, currencies, per cent.

The decimal mark is that of a column: one with 1.234,56 has a comma, and then 1.234 is 1234.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

_CURRENCIES = (
    "AED|ARS|AUD|BGN|BRL|CAD|CHF|CLP|CNY|COP|CZK|DKK|EGP|EUR|GBP|HKD|HUF|IDR|ILS|INR|ISK|JPY|KES|"
    "KRW|MXN|MYR|NGN|NOK|NZD|PHP|PLN|RMB|RON|RUB|SAR|SEK|SGD|THB|TRY|TWD|UAH|USD|VND|ZAR|"
    r"[A-Z]{0,2}\$|[€£¥₹₽₩₺₴₪₫₦₱฿]|Fr\.?|kr\.?|zł|Kč|Ft|Rs\.?"
)
_UNIT = rf"(?:{_CURRENCIES}|%)"
_WRITTEN = re.compile(
    rf"(?P<brackets>\()?(?P<before>[-+−]?)\s*(?:{_UNIT}\s*)?(?P<sign>[-+−]?)"
    rf"(?P<body>[.,]?\d(?:[\d.,'’\s]*[\d.,])?)(?P<power>[eE][-+]?\d+)?(?:\s*{_UNIT})?(?(brackets)\))"
)
_BODIES = {
    mark: re.compile(rf"(?:[1-9]\d{{0,2}}([{other}'’\s])\d{{3}}(?:\1\d{{3}})*|\d*)(?:[{mark}]\d*)?")
    for mark, other in ((".", ","), (",", "."))
}
_OTHER = {".": ",", ",": "."}
_LOOK = re.compile(rf"[-+−(]?\s*(?:{_UNIT})?\s*[-+]?\d.*")
CODE = r"0\d+|\d{16,}"  # leading zeros, or more digits than a float can hold
_SAMPLE = 5_000  # distinct values to find the mark in


def mark_of(values: pd.Series[Any], default: str | None = None) -> str:
    """Decimal mark of a column: by its values, else the default, else that of its file.

    >>> mark_of(pd.Series(["3.000 EUR", "1.234,56 EUR"])), mark_of(pd.Series(["3.000", "1.5"]))
    (',', '.')
    """
    texts = [value for value in values.dropna().unique()[:_SAMPLE] if isinstance(value, str)]
    return evidence(texts)[0] or default or values.attrs.get("decimal", ".")


def evidence(texts: Iterable[str]) -> tuple[str | None, set[str], str | None]:
    """Decimal mark that the texts show, if any; marks that may be either; and a guess.

    Of 950 and 12.500, a writer of decimals would have padded both or neither.
    """
    votes: Counter[str] = Counter()
    unclear: set[str] = set()
    padded, longest = False, 0  # digits of a number without marks
    for text in texts:
        if not (match := _WRITTEN.fullmatch(text.strip())):
            continue
        body = match["body"]
        marks = [character for character in body if character in ".,"]
        if not marks:
            longest = max(longest, len(body))
        elif mark := marks[-1] if match["power"] else _decisive(body, marks):
            votes[mark] += bool(_BODIES[mark].fullmatch(body))  # not 1.5.2024
        else:
            unclear.add(marks[-1])
            padded |= body.endswith("0")
    if any(votes.values()):
        return votes.most_common(1)[0][0], unclear, None
    groups = len(unclear) == 1 and padded and longest == 3
    return None, unclear, _OTHER[min(unclear)] if groups else None


def _decisive(body: str, marks: list[str]) -> str | None:
    """Decimal mark of one number; None for 1.234, which may be either."""
    last = marks[-1]
    if marks.count(last) > 1:  # 1.234.567
        return _OTHER[last]
    whole, decimals = body.split(last)
    clear = len(marks) > 1 or len(decimals) != 3 or not re.fullmatch(r"[1-9]\d{0,2}", whole)
    return last if clear else None


def numbers_in(values: pd.Series[Any], mark: str) -> NDArray[np.float64]:
    """Numbers; NaN where values are missing or cannot be read.

    >>> numbers_in(pd.Series(["1.234,56 €", "-12,5 %", "CHF 1'000", "(3)", "k.A."]), ",").tolist()
    [1234.56, -12.5, 1000.0, -3.0, nan]
    """
    if is_numeric_dtype(values.dtype):
        return values.to_numpy(np.float64, na_value=np.nan)
    codes, uniques = pd.factorize(values)
    distinct = np.asarray(uniques, dtype=object)
    numbers: Any = _plain_numbers(distinct, mark)
    if numbers is None:
        numbers = [read(v, mark) if isinstance(v, str) else _plain(v) for v in distinct]
    return np.append(numbers, np.nan)[codes]


def _plain_numbers(distinct: NDArray[Any], mark: str) -> NDArray[np.float64] | None:
    """Read numbers by a shorter way, if all are written plainly."""
    try:
        text = " ".join(distinct)
        if "_" in text or (mark == "," and "." in text):  # which Python would read, too
            return None
        numbers = np.array([float(value.replace(mark, ".")) for value in distinct])
    except (TypeError, ValueError):
        return None
    return numbers if np.isfinite(numbers).all() else None


def read(text: str, mark: str) -> float:
    """One number; NaN if it is none."""
    match = _WRITTEN.fullmatch(text.strip())
    if not match or not _BODIES[mark].fullmatch(match["body"]):
        return np.nan
    plain = re.sub(rf"[^\d{mark}]", "", match["body"]).replace(mark, ".")
    negative = match["brackets"] or match["before"] in ("-", "−") or match["sign"] in ("-", "−")
    return float(plain + (match["power"] or "")) * (-1 if negative else 1)


def _plain(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def look_alike(text: str) -> bool:
    """Whether a text looks like a number, if perhaps not one that can be read: 12 kg, 1,23,456."""
    dense = re.sub(r"\s", "", text)
    return bool(_LOOK.fullmatch(text.strip())) and 3 * sum(map(str.isdigit, dense)) >= len(dense)
