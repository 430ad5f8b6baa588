"""Errors of held-out rows; see :mod:`crosslearning.convex.residuals`."""

from crosslearning.convex.residuals import Residuals, calibrated

__all__ = ["Residuals", "calibrated"]
