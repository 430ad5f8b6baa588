"""How messages list things."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["listed"]


def listed(items: Iterable[object], most: int = 10) -> str:
    """Name the first few, and show that there are more."""
    names = [str(item) for item in islice(items, most + 1)]
    return ", ".join(names if len(names) <= most else [*names[:most], "…"])
