"""How messages list things."""

from collections.abc import Iterable
from itertools import islice

__all__ = ["listed"]


def listed(items: Iterable[object], most: int = 10) -> str:
    """Name the first few, and show that there are more."""
    names = [str(item) for item in islice(items, most + 1)]
    return ", ".join(names if len(names) <= most else [*names[:most], "…"])
