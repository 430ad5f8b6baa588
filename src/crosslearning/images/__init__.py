"""Images of several domains: folders of files, decoded once, split by group, fed to networks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from crosslearning.images.domains import ImageDomains
from crosslearning.images.splits import split, split_codes
from crosslearning.images.statistics import channel_statistics

if TYPE_CHECKING:
    from crosslearning.images.batches import ImageBatches

__all__ = ["ImageBatches", "ImageDomains", "channel_statistics", "split", "split_codes"]


def __getattr__(name: str) -> Any:
    """Import what needs torch when it is asked for."""
    if name == "ImageBatches":
        return import_module("crosslearning.images.batches").ImageBatches
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
