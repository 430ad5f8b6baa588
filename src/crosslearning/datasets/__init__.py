"""Packaged data with tasks; origin and licence are in ``data/NOTICES.md``."""

from crosslearning.datasets.images import ImageData, Pictures32, load_pictures32
from crosslearning.datasets.tables import TableData, load_ames, load_hsb82

__all__ = ["ImageData", "Pictures32", "TableData", "load_ames", "load_hsb82", "load_pictures32"]
