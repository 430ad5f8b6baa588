"""Scores on held-out rows: choice of settings, comparison, and sentences about them."""

from typing import TYPE_CHECKING

from crosslearning.extras import lazy

if TYPE_CHECKING:
    from crosslearning.evaluation.comparison import Comparison
    from crosslearning.evaluation.scores import Scores
    from crosslearning.evaluation.scoring import compare

__all__ = ["Comparison", "Scores", "compare"]

# The sentences alone do not need scikit-learn.
__getattr__, __dir__ = lazy(
    globals(), {"comparison": "Comparison", "scores": "Scores", "scoring": "compare"}
)
