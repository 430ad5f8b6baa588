"""Scores on held-out rows: choice of settings, comparison, and sentences about them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crosslearning.evaluation.comparison import Comparison
    from crosslearning.evaluation.scores import Scores
    from crosslearning.evaluation.scoring import compare

__all__ = ["Comparison", "Scores", "compare"]

_MODULES = {"Comparison": "comparison", "Scores": "scores", "compare": "scoring"}


def __getattr__(name: str) -> Any:
    """Import lazily: the sentences alone do not need scikit-learn."""
    if name in __all__:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
