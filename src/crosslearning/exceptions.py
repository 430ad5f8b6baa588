"""The few warning and error classes of the package."""

from __future__ import annotations

__all__ = ["ConvergenceWarning", "ResolutionWarning"]


class ConvergenceWarning(UserWarning):
    """A solver stopped before its certificate reached the tolerance.

    The result is returned all the same, with its ``status`` and its residual.
    """


class ResolutionWarning(ConvergenceWarning):
    """A radius is below what the dtype of the parameters resolves at their present size."""
