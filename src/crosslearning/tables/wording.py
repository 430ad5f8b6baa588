"""Numbers as a reader wants them."""

from __future__ import annotations

__all__ = ["number"]


def number(value: float, digits: int = 4) -> str:
    """Write a number with so many significant digits, or as a whole number below a million.

    Examples
    --------
    >>> number(-0.0), number(38.4), number(0.2764, 2), number(12345.6), number(712345678.9)
    ('0', '38.40', '0.28', '12,346', '7.123e+08')
    """
    value += 0.0  # no minus before a zero
    whole = value == 0 or 10 ** (digits - 1) <= abs(value) < 1e6
    return f"{value:,.0f}" if whole else f"{value:#.{digits}g}"
