"""Results in, one HTML page or figures out; computes nothing but layout."""

from crosslearning.report.figures import draw
from crosslearning.report.page import write

__all__ = ["draw", "write"]
