"""The runs of one seed: a network for each domain at every radius, in one resumable sweep."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from crosslearning.exceptions import ResolutionWarning
from crosslearning.images.augmentation import Augmentation
from crosslearning.images.batches import ImageBatches
from crosslearning.images.parts import divide
from crosslearning.images.statistics import channel_statistics
from crosslearning.nn import evaluate, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray

    from crosslearning.datasets import ImageData
    from crosslearning.images.settings import TrainingSettings
    from crosslearning.nn import History, TaskModels

__all__ = ["train_seed"]

_STEPS = 500  # between two checkpoints inside of an epoch


def train_seed(
    settings: TrainingSettings,
    data: ImageData,
    pixels: NDArray[np.uint8],
    make: Callable[[], torch.nn.Module],
    epsilons: Iterable[float],
    seed: int,
    *,
    folder: Path,
    models: Path | None,
    on_epoch: Callable[[dict[str, Any], Any], None],
) -> pd.DataFrame:
    """Train at every radius, and count what the networks take the other images for.

    Parameters
    ----------
    settings : TrainingSettings
        How to train.
    data : ImageData
        Images.
    pixels : array of uint8 of shape (n_images, size, size, 3)
        What they look like.
    make : callable
        Makes the network.
    epsilons, seed : iterable of float, int
        Which runs.
    folder : path
        Where finished runs are, and where those that were interrupted go on.
    models : path or None
        Folder for the networks of each run.
    on_epoch : callable
        Called with the run and the record of each epoch.

    Returns
    -------
    DataFrame
        The table of `crosslearning.nn.sweep`, with columns for `Record`.
    """
    parts = divide(settings, data, seed)
    sources = _sources(data, pixels, parts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResolutionWarning)  # noted in the results instead
        return sweep(
            make,
            sources[0],
            torch.nn.CrossEntropyLoss(),
            partial(_optimizer, settings),
            settings.epochs,
            epsilons=epsilons,
            seeds=seed,
            test=sources[1],
            metric="accuracy",
            batch_size=settings.batch,
            scheduler=partial(_cosine, settings) if settings.schedule == "cosine" else None,
            augment=Augmentation(flip=settings.flip) if settings.augment else None,
            folder=folder,
            checkpoint_every=_STEPS,
            measure=partial(_measure, sources, models),
            on_epoch=on_epoch,
        )


def _sources(
    data: ImageData, pixels: NDArray[np.uint8], parts: list[list[NDArray[np.intp]]]
) -> list[dict[str, ImageBatches]]:
    """Batches of each part's domains, normalised by what is trained on."""
    statistics = channel_statistics(pixels, np.concatenate(parts[0]))
    return [
        {
            domain: ImageBatches(pixels, rows, data.category_codes, *statistics)
            for domain, rows in zip(data.domains, part, strict=True)
        }
        for part in parts
    ]


def _optimizer(settings: TrainingSettings, parameters: Iterable[Any]) -> torch.optim.Optimizer:
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "adam":
        return torch.optim.Adam(parameters, rate, weight_decay=decay, fused=True)
    momentum = settings.momentum
    return torch.optim.SGD(parameters, rate, momentum, weight_decay=decay, fused=True)


def _cosine(settings: TrainingSettings, optimizer: torch.optim.Optimizer) -> Any:
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.epochs)


def _measure(
    sources: list[dict[str, ImageBatches]],
    folder: Path | None,
    run: dict[str, Any],
    models: TaskModels,
    history: History,
) -> list[dict[str, Any]]:
    """Save the networks, and return what `Record` needs to know of each domain."""
    if folder is not None:
        folder.mkdir(exist_ok=True)
        models.save(folder / f"epsilon-{run['epsilon']!r}-seed-{run['seed']}.safetensors")
    counts = [_count(models, part) for part in sources[1:]]
    seconds = sum(record.seconds for record in history.records)
    return [
        {
            "images": [len(part[domain]) for part in sources],
            "validation": counts[0][k],
            "test": counts[1][k],
            "losses": [float(record.losses[k]) for record in history.records],
            "seconds": seconds,
        }
        for k, domain in enumerate(sources[0])
    ]


def _count(models: TaskModels, sources: dict[str, ImageBatches]) -> list[list[list[int]]]:
    """For each domain, how many images of one category were taken for another, if any."""
    tables: list[list[list[int]]] = []

    def count(output: torch.Tensor, target: torch.Tensor) -> float:
        pairs = torch.stack([target, output.argmax(1)]).cpu().numpy()
        different, counts = np.unique(pairs, axis=1, return_counts=True)
        tables.append(np.vstack([different, counts]).T.tolist())
        return 0.0

    evaluate(models, sources, count)
    return tables
