"""HTML pages and figures from stored results; nothing is computed but the layout."""

from crosslearning.report.page import draw, write

__all__ = ["draw", "write"]
