"""HTML pages and figures from stored results; nothing is computed but the layout."""

from crosslearning.report.figures import draw
from crosslearning.report.page import write

__all__ = ["draw", "write"]
