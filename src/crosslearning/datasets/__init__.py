"""Packaged data with tasks; origin and licence are in ``data/NOTICES.md``."""

from crosslearning.datasets.icons65 import Icons65, load_icons65
from crosslearning.datasets.image_data import ImageData
from crosslearning.datasets.tables import TableData, load_ames, load_hsb82

__all__ = ["Icons65", "ImageData", "TableData", "load_ames", "load_hsb82", "load_icons65"]
