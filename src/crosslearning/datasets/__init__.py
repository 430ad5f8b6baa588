"""Packaged data with tasks (origin and licence in ``data/NOTICES.md``), and folders of images."""

from crosslearning.datasets._table import TableData
from crosslearning.datasets.ames import load_ames
from crosslearning.datasets.hsb82 import load_hsb82
from crosslearning.datasets.icons65 import Icons65, load_icons65
from crosslearning.datasets.image_data import ImageData
from crosslearning.datasets.image_domains import ImageDomains
from crosslearning.datasets.splits import split, split_codes
from crosslearning.datasets.statistics import channel_statistics

__all__ = [
    "Icons65",
    "ImageData",
    "ImageDomains",
    "TableData",
    "channel_statistics",
    "load_ames",
    "load_hsb82",
    "load_icons65",
    "split",
    "split_codes",
]
