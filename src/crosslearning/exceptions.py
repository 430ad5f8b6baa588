"""The few warning and error classes of the package."""

from __future__ import annotations

__all__ = ["ConvergenceWarning"]


class ConvergenceWarning(UserWarning):
    """A solver stopped before its certificate reached the tolerance.

    The result is returned all the same, with its ``status`` and its residual.
    """
