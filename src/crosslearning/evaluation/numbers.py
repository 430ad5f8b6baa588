"""Numbers and labels formatted for readers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from crosslearning.wording import listed

__all__ = [
    "capital", "count", "duration", "interval", "joined", "named", "number",
    "percent", "points", "radii_by_name", "radius", "radius_name", "spread",
]  # fmt: skip

_NAMED = 5  # domains that a list of radii names for each
_LARGE = {1e6: "M", 1e9: "B", 1e12: "T"}


def number(value: float | None, digits: int = 4) -> str:
    """Write a number with the given significant digits; integers in full.

    >>> [number(x) for x in (0.59013, 38.4, 12345.6, 824_625_947.0, 2.5e-9, math.inf, None)]
    ['0.5901', '38.40', '12,346', '824.6M', '2.5e-9', '∞', '–']
    >>> number(1_234_567), number(0.0999999)
    ('1,234,567', '0.1000')
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if isinstance(value, int) or value == 0:
        return f"{value:,.0f}"
    size = abs(value)
    if not 1e-4 <= size < 1e15:
        text = re.sub(r"e([+-])0?", r"e\1", f"{value:.{digits}g}")
    else:
        unit = max((start for start in _LARGE if start <= size), default=1.0)
        exponent = int(f"{size / unit:.{digits - 1}e}".partition("e")[2])  # of the rounded number
        places = max(0, digits - 1 - exponent)
        text = f"{value / unit:,.{places}f}" + _LARGE.get(unit, "")
    return text.replace("-", "−") if value < 0 and size >= 1e-4 else text


def count(value: int, one: str, many: str | None = None) -> str:
    r"""Write how many there are.

    >>> count(1, "row"), count(7185, "row")
    ('1\xa0row', '7,185\xa0rows')
    """
    return f"{value:,}\N{NO-BREAK SPACE}{one if value == 1 else many or one + 's'}"


def interval(low: float | None, high: float | None) -> str:
    """Write an interval with three digits.

    >>> interval(0.25, 1), interval(None, None)
    ('0.250 to 1', '–')
    """
    return "–" if low is None or high is None else f"{number(low, 3)} to {number(high, 3)}"


def percent(share: float | None) -> str:
    r"""Write a fraction in per cent.

    >>> percent(0.5), percent(0.00123), percent(None)
    ('50.0\xa0%', '0.123\xa0%', '–')
    """
    return "–" if share is None else number(100 * share, 3) + "\N{NO-BREAK SPACE}%"


def spread(share: dict[str, float | None]) -> str:
    """Write a mean and, if there is one, a standard deviation of fractions in per cent.

    >>> spread({"mean": 0.4512, "std": 0.011}), spread({"mean": 0.4512, "std": None})
    ('45.1 ± 1.1 %', '45.1 %')
    """
    mean, std = share["mean"], share["std"]
    if mean is None:
        return "–"
    return f"{100 * mean:.1f}" + ("" if std is None else f" ± {100 * std:.1f}") + " %"


def points(gain: float, error: float | None = None) -> str:
    """Write a difference of two fractions, with its standard error if there is one.

    >>> points(0.1234, 0.01), points(-0.05)
    ('+12.3 ± 1.0 points', '−5.0 points')
    """
    size = f"{100 * gain:+.1f}".replace("-", "−")
    return size + (f" ± {100 * error:.1f}" if error is not None else "") + " points"


def radius(value: float | str) -> str:
    """Write a radius, and what it means if it is 0 or infinite.

    >>> radius(1.338), radius(0), radius("inf")
    ('1.34', '0 (pooled)', '∞ (separate)')
    """
    ends = {0.0: " (pooled)", math.inf: " (separate)"}
    return radius_name(value) + ends.get(float(value), "")


def radius_name(value: float | str) -> str:
    """Write a radius.

    >>> radius_name(0.1), radius_name(1e-6), radius_name(16716.4), radius_name("inf")
    ('0.1', '1e-6', '16,716', '∞')
    """
    size = number(float(value), 3)
    return size.rstrip("0").rstrip(".") if "." in size and "e" not in size else size


def radii_by_name(radii: Mapping[str, float | str]) -> str:
    """Write the radius of each name, and only the radius if all have the same.

    >>> radii_by_name({"a": 0.1, "b": 0.1}), radii_by_name({"a": "inf", "b": 0.1, "c": 0.1})
    ('0.1', '0.1 (b, c) and ∞ (a)')
    """
    names: dict[float, list[str]] = {}
    for name, radius in radii.items():
        names.setdefault(float(radius), []).append(name)
    if len(names) == 1:
        return radius_name(*names)
    return joined([f"{radius_name(one)} ({listed(names[one], _NAMED)})" for one in sorted(names)])


def capital(text: str) -> str:
    """Capitalise the first letter only.

    >>> capital("log loss of A")
    'Log loss of A'
    """
    return text[:1].upper() + text[1:]


def joined(words: Sequence[str]) -> str:
    """Enumerate words.

    >>> joined(["curves"]), joined(["curves", "means", "trees"])
    ('curves', 'curves, means and trees')
    """
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def named(kind: str, label: Any) -> str:
    """Name a task at the start of a sentence.

    >>> named("school", 8367), named("shop", "shop 3")
    ('School 8367', 'Shop 3')
    """
    text = str(label)
    return capital(text if text.casefold().startswith(kind.casefold()) else f"{kind} {text}")


def duration(seconds: float) -> str:
    """Write a time.

    >>> duration(1.23), duration(75), duration(7500)
    ('1.2 s', '1 min 15 s', '2 h 5 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
