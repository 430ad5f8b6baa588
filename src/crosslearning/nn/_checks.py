"""Checks of the arguments of architectures."""

from __future__ import annotations

from numbers import Real


def check_counts(*, least: int = 1, **values: object) -> None:
    """Refuse numbers of units, steps or the like that are not whole, or too small."""
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"`{name}` must be a whole number of at least {least}; got {value!r}.")


def check_dropout(value: object) -> None:
    """Refuse a dropout probability that is not in [0, 1)."""
    if not isinstance(value, Real) or not 0 <= float(value) < 1:
        raise ValueError(
            f"`dropout` must be at least 0 and below 1; got {value!r}. Use 0 for none."
        )
