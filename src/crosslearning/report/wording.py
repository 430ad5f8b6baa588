"""Numbers and labels as a reader wants them."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["count", "duration", "named", "number", "percent", "points", "radius"]


def number(value: float | None, digits: int = 4) -> str:
    """Write a number with so many significant digits, and without an exponent if that is short.

    >>> [number(x) for x in (0.59013, 38.4, 1234567.0, 2.5e-9, math.inf, None)]
    ['0.5901', '38.40', '1,234,567', '2.5e-09', '∞', '–']
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{digits}g}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}".replace("-", "−")


def count(value: int, one: str, many: str | None = None) -> str:
    r"""Write how many there are.

    >>> count(1, "row"), count(7185, "row")
    ('1\xa0row', '7,185\xa0rows')
    """
    return f"{value:,}\N{NO-BREAK SPACE}{one if value == 1 else many or one + 's'}"


def percent(share: float | None) -> str:
    r"""Write a share of 1 in percent.

    >>> percent(0.5), percent(0.00123), percent(None)
    ('50.0\xa0%', '0.123\xa0%', '–')
    """
    return "–" if share is None else number(100 * share, 3) + "\N{NO-BREAK SPACE}%"


def points(gain: float, error: float | None = None) -> str:
    """Write a difference of two shares, with its standard error if there is one.

    >>> points(0.1234, 0.01), points(-0.05)
    ('+12.3 ± 1.0 points', '−5.0 points')
    """
    size = f"{100 * gain:+.1f}".replace("-", "−")
    return size + (f" ± {100 * error:.1f}" if error is not None else "") + " points"


def radius(value: float | str) -> str:
    """Write a radius and, at the two ends, what it means.

    >>> radius(1.338), radius(0), radius("inf")
    ('1.34', '0 (pooled)', '∞ (separate)')
    >>> radius(0.1), radius(1e-6)
    ('0.1', '1e-6')
    """
    ends = {0.0: " (pooled)", math.inf: " (separate)"}
    size = number(float(value)) if math.isinf(float(value)) else f"{float(value):.3g}"
    return size.replace("e-0", "e-").replace("e+0", "e") + ends.get(float(value), "")


def named(kind: str, label: Any) -> str:
    """Name a task at the start of a sentence.

    >>> named("school", 8367)
    'School 8367'
    """
    return f"{kind[:1].upper()}{kind[1:]} {label}"


def duration(seconds: float) -> str:
    """Write a time.

    >>> duration(1.23), duration(75), duration(7500)
    ('1.2 s', '1 min 15 s', '2 h 5 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
