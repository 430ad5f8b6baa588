"""Numbers and labels formatted for readers."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from crosslearning.wording import listed

__all__ = [
    "capital", "count", "duration", "interval", "joined", "named", "number",
    "percent", "percents", "points", "radii_by_name", "radius", "radius_name", "spread",
]  # fmt: skip

_NAMED = 5  # domains that a list of radii names for each
_LARGE = {1e6: "M", 1e9: "B", 1e12: "T"}


def number(value: float | None, digits: int = 4) -> str:
    """Write a number, 824.6M or 2.5e-9, with some significant digits; integers in full."""
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
    return re.sub("^-", "−", text)


def count(value: int, one: str, many: str | None = None) -> str:
    """Write how many there are: 1 row, 7,185 rows."""
    return f"{value:,}\N{NO-BREAK SPACE}{one if value == 1 else many or one + 's'}"


def interval(low: float | None, high: float | None) -> str:
    """Write an interval with three digits: 0.250 to 1, or –."""
    return "–" if low is None or high is None else f"{number(low, 3)} to {number(high, 3)}"


def percent(share: float | None) -> str:
    """Write a fraction in per cent with three digits: 50.0 %, or –."""
    return "–" if share is None else number(100 * share, 3) + "\N{NO-BREAK SPACE}%"


def percents(shares: Sequence[float]) -> list[str]:
    """Write the shares of a whole in whole per cent that add up to 100: 34%, 33%, 33%."""
    whole = [math.floor(100 * share) for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda k: whole[k] - 100 * shares[k])
    for k in by_remainder[: 100 - sum(whole)]:
        whole[k] += 1
    return [f"{one}%" for one in whole]


def spread(share: dict[str, float | None]) -> str:
    """Write a mean and any standard deviation of fractions in per cent: 45.1 ± 1.1 %."""
    mean, std = share["mean"], share["std"]
    if mean is None:
        return "–"
    return f"{100 * mean:.1f}" + ("" if std is None else f" ± {100 * std:.1f}") + " %"


def points(gain: float, error: float | None = None) -> str:
    """Write a difference of two fractions and any standard error: +12.3 ± 1.0 points."""
    size = f"{100 * gain:+.1f}".replace("-", "−")
    return size + (f" ± {100 * error:.1f}" if error is not None else "") + " points"


def radius(value: float | str) -> str:
    """Write a radius, and what it means if it is 0 or infinite: 1.34, 0 (pooled), ∞ (separate)."""
    ends = {0.0: " (pooled)", math.inf: " (separate)"}
    return radius_name(value) + ends.get(float(value), "")


def radius_name(value: float | str) -> str:
    """Write a radius: 0.1, 1e-6, 16,716, ∞."""
    size = number(float(value), 3)
    return size.rstrip("0").rstrip(".") if "." in size and "e" not in size else size


def radii_by_name(radii: Mapping[str, float | str]) -> str:
    """Write the radius of each name, 0.1 (b, c) and ∞ (a), or the one that all have."""
    names: dict[float, list[str]] = {}
    for name, radius in radii.items():
        names.setdefault(float(radius), []).append(name)
    if len(names) == 1:
        return radius_name(*names)
    return joined([f"{radius_name(one)} ({listed(names[one], _NAMED)})" for one in sorted(names)])


def capital(text: str) -> str:
    """Capitalise the first letter only."""
    return text[:1].upper() + text[1:]


def joined(words: Sequence[str]) -> str:
    """Enumerate words: curves, means and trees."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def named(kind: str, label: Any) -> str:
    """Name a task at the start of a sentence: School 8367, or Shop 3 by its label "shop 3"."""
    text = str(label)
    return capital(text if text.casefold().startswith(kind.casefold()) else f"{kind} {text}")


def duration(seconds: float) -> str:
    """Write a time: 1.2 s, 1 min 15 s, 2 h 5 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
