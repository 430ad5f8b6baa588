"""Scores of methods on held-out rows: choice of settings, comparison, and words for it."""

from crosslearning.evaluation.compare import compare
from crosslearning.evaluation.comparison import Comparison
from crosslearning.evaluation.scores import Scores

__all__ = ["Comparison", "Scores", "compare"]
