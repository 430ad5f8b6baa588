"""Results in, one HTML page out; computes nothing but layout."""

from crosslearning.report.page import write

__all__ = ["write"]
