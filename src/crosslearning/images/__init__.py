"""Images of several domains: folders of files, decoded once, split by group; and training on them.

What needs torch is imported when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from crosslearning.images.domains import ImageDomains
from crosslearning.images.settings import TrainingSettings
from crosslearning.images.splits import split

if TYPE_CHECKING:
    from crosslearning.images.batches import Augmentation, ImageBatches, channel_statistics
    from crosslearning.images.networks import features
    from crosslearning.images.predicting import Predictions, export, predict
    from crosslearning.images.training import train

__all__ = [
    "Augmentation", "ImageBatches", "ImageDomains", "Predictions", "TrainingSettings",
    "channel_statistics", "export", "features", "predict", "split", "train",
]  # fmt: skip

_WITH_TORCH = {
    **dict.fromkeys(("Augmentation", "ImageBatches", "channel_statistics"), "batches"),
    **dict.fromkeys(("Predictions", "export", "predict"), "predicting"),
    "features": "networks",
    "train": "training",
}


def __getattr__(name: str) -> Any:
    """Import what needs torch when it is asked for."""
    if name in _WITH_TORCH:
        return getattr(import_module(f"crosslearning.images.{_WITH_TORCH[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
