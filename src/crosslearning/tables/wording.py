"""Numbers as a reader wants them."""

from __future__ import annotations

__all__ = ["number"]


def number(value: float, digits: int = 4) -> str:
    """Write a number with so many significant digits, large ones in full.

    Examples
    --------
    >>> number(38.4), number(0.2764, 2), number(712345678.9)
    ('38.40', '0.28', '712,345,679')
    """
    whole = abs(value) >= 10 ** (digits - 1)
    return f"{value:,.0f}" if whole else f"{value:#.{digits}g}"
