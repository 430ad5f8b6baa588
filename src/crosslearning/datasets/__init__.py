"""Real data with tasks, shipped with the package; origin and licence in ``data/NOTICES.md``."""

from crosslearning.datasets._table import TableData
from crosslearning.datasets.ames import load_ames
from crosslearning.datasets.hsb82 import load_hsb82

__all__ = ["TableData", "load_ames", "load_hsb82"]
