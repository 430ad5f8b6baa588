"""Which images are trained on, which choose the radius, and which test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crosslearning.images.splits import split

if TYPE_CHECKING:
    from crosslearning.datasets import ImageData
    from crosslearning.datasets.image_data import Indices
    from crosslearning.images.settings import TrainingSettings

__all__ = ["PARTS", "divide"]

PARTS = ("train", "validation", "test")


def divide(settings: TrainingSettings, data: ImageData, seed: int) -> list[list[Indices]]:
    """Images of each domain: to train on, to validate on, to test on.

    The training part is thinned out first; the validation images are taken from what is left. So
    a single run measures both accuracies, and the test images never choose anything.

    Parameters
    ----------
    settings : TrainingSettings
        Has the shares.
    data : ImageData
        The images.
    seed : int
        Seed of the choice.

    Returns
    -------
    list of list of array
        For each of the parts, the indices of each domain's images.
    """
    training, test = split(data, settings.train, seed=seed, train_fraction=settings.train_fraction)
    train, validation = split(data, 1 - settings.validation, seed=seed, within=training)
    parts = [_by_domain(data, rows) for rows in (train, validation, test)]
    for name, part in zip(PARTS, parts, strict=True):
        for domain, rows in zip(data.domains, part, strict=True):
            if not len(rows):
                raise ValueError(
                    f"Domain {domain!r} has no images in the {name} part. Every domain needs some "
                    "to train, to validate and to test: add images or leave the domain out."
                )
    return parts


def _by_domain(data: ImageData, rows: Indices) -> list[Indices]:
    codes = data.domain_codes[rows]
    return [rows[np.equal(codes, k)] for k in range(len(data.domains))]
