"""Images of several domains, decoded once and split by group; and training, which needs torch."""

from typing import TYPE_CHECKING

from crosslearning.extras import lazy
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

__getattr__, __dir__ = lazy(
    globals(),
    {
        "batches": "Augmentation ImageBatches channel_statistics",
        "networks": "features",
        "predicting": "Predictions export predict",
        "training": "train",
    },
)
