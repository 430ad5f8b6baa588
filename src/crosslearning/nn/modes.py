"""Training and evaluation mode of modules, set for a while."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

__all__ = ["mode"]


@contextmanager
def mode(module: nn.Module, training: bool) -> Iterator[None]:
    """Set the mode of a module and all its parts, and give each its own back."""
    before = [(part, part.training) for part in module.modules()]
    module.train(training)
    try:
        yield
    finally:
        for part, was in before:
            part.training = was
