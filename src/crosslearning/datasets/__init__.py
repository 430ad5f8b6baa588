"""Packaged data with tasks; origin and licence are in ``data/NOTICES.md``."""

from crosslearning.datasets.images import Icons65, ImageData, load_icons65
from crosslearning.datasets.tables import TableData, load_ames, load_hsb82

__all__ = ["Icons65", "ImageData", "TableData", "load_ames", "load_hsb82", "load_icons65"]
