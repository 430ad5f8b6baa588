"""Warning classes; import them where they are raised, since importing scikit-learn is slow."""

from sklearn import exceptions

__all__ = ["ConvergenceWarning", "ResolutionWarning"]


class ConvergenceWarning(exceptions.ConvergenceWarning):  # type: ignore[misc]
    """A solver stopped before reaching its tolerance; a subclass of scikit-learn's warning.

    The result is still returned, with its ``status`` and residual.
    """


class ResolutionWarning(ConvergenceWarning):
    """The radius is below the resolution of the dtype for parameters of this size."""
