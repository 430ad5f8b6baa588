"""Names of functions, to tell whether two runs use the same ones."""

from __future__ import annotations

from typing import Any

__all__ = ["name_of"]


def name_of(function: Any) -> str | None:
    """Describe a function, a module or a word in a way that is the same in another process.

    Examples
    --------
    >>> from torch import nn
    >>> name_of("accuracy"), name_of(max), name_of(nn.MSELoss()), name_of(None)
    ('accuracy', 'max', 'MSELoss()', None)
    """
    if function is None or isinstance(function, str):
        return function
    name = getattr(function, "__qualname__", None)
    if name is not None:
        return str(name)
    described = repr(function)
    return type(function).__qualname__ if " at 0x" in described else described
