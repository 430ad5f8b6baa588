"""Packaged data with tasks; origin and licence are in ``data/NOTICES.md``."""

from crosslearning.datasets._table import TableData
from crosslearning.datasets.ames import load_ames
from crosslearning.datasets.hsb82 import load_hsb82
from crosslearning.datasets.icons65 import Icons65, load_icons65
from crosslearning.datasets.image_data import ImageData

__all__ = ["Icons65", "ImageData", "TableData", "load_ames", "load_hsb82", "load_icons65"]
