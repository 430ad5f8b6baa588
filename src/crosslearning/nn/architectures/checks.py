"""Checks of the numbers that describe a network."""

from __future__ import annotations

from numbers import Real

__all__ = ["check_count", "check_dropout"]


def check_count(name: str, value: object) -> None:
    """Refuse a number of units, classes or channels that is not a positive whole number."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"`{name}` must be a whole number of at least 1; got {value!r}.")


def check_dropout(value: object) -> None:
    """Refuse a share that is not from 0 to below 1."""
    if not isinstance(value, Real) or not 0 <= float(value) < 1:
        raise ValueError(
            f"`dropout` is a share, at least 0 and below 1; got {value!r}. Use 0 for none."
        )
