"""The warning classes of the package; import them where they are raised.

They extend scikit-learn's, which takes long to import.
"""

from __future__ import annotations

from sklearn import exceptions

__all__ = ["ConvergenceWarning", "ResolutionWarning"]


class ConvergenceWarning(exceptions.ConvergenceWarning):  # type: ignore[misc]
    """A solver stopped before its certificate reached the tolerance; scikit-learn's, too.

    The result is returned all the same, with its ``status`` and its residual.
    """


class ResolutionWarning(ConvergenceWarning):
    """A radius is below what the dtype of the parameters resolves at their present size."""
