"""One run: a network for each domain, trained at one radius from one seed."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from crosslearning.exceptions import ResolutionWarning
from crosslearning.images import ImageBatches, channel_statistics
from crosslearning.nn import TaskModels, evaluate, fit
from crosslearning.nn.architectures import small_cnn
from crosslearning.paper.alexnet import alexnet256
from crosslearning.paper.office_home.parts import divide
from crosslearning.paper.office_home.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from crosslearning.datasets import ImageData
    from crosslearning.paper.office_home.config import ImagesConfig

__all__ = ["train_run"]

_EXCESS = 1.01  # a realised distance above so many radii is due to rounding
_STEPS = 500  # between two checkpoints inside of an epoch


def train_run(
    config: ImagesConfig,
    data: ImageData,
    pixels: NDArray[np.uint8],
    epsilon: float,
    seed: int,
    *,
    checkpoint: Path,
    after_epoch: Callable[[Any], None],
    model_file: Path | None = None,
) -> Record:
    """Train at one radius and count what the networks take the other images for.

    Parameters
    ----------
    config : ImagesConfig
        Settings.
    data : ImageData
        Images.
    pixels : array of uint8 of shape (n_images, size, size, 3)
        What they look like.
    epsilon, seed : float, int
        Which run.
    checkpoint : path
        Where training goes on if it was interrupted.
    after_epoch : callable
        Called with the record of each epoch.
    model_file : path, optional
        Where to save the networks.

    Returns
    -------
    Record
    """
    parts = divide(config, data, seed)
    sources = _sources(data, pixels, parts)
    models = TaskModels(_network(config, data, seed), data.domains, epsilon=epsilon)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResolutionWarning)  # noted in the record instead
        history = fit(
            models,
            sources[0],
            torch.nn.CrossEntropyLoss(),
            lambda parameters: _optimizer(config, parameters),
            config.epochs,
            batch_size=config.batch,
            scheduler=_scheduler(config),
            callbacks=[after_epoch],
            seed=seed,
            checkpoint=checkpoint,
            checkpoint_every=_STEPS,
        )
    distances = models.distances()
    if model_file is not None:
        model_file.parent.mkdir(exist_ok=True)
        models.save(model_file)
    return Record(
        epsilon=epsilon,
        seed=seed,
        images=np.array([[len(rows) for rows in part] for part in parts]).T,
        validation=_count(models, sources[1], len(data.categories)),
        test=_count(models, sources[2], len(data.categories)),
        distances=distances,
        pulls=history.records[-1].pulls,
        loss=[record.loss for record in history.records],
        seconds=sum(record.seconds for record in history.records),
        unresolved=bool(0 < epsilon < math.inf and distances.max() > _EXCESS * epsilon),
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


def _network(config: ImagesConfig, data: ImageData, seed: int) -> torch.nn.Module:
    build = alexnet256 if config.model == "alexnet256" else small_cnn
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build(len(data.categories), dropout=config.dropout)


def _optimizer(config: ImagesConfig, parameters: Iterable[Any]) -> torch.optim.Optimizer:
    if config.optimizer == "adam":
        return torch.optim.Adam(parameters, config.learning_rate, fused=True)
    return torch.optim.SGD(parameters, config.learning_rate, config.momentum, fused=True)


def _scheduler(config: ImagesConfig) -> Callable[[torch.optim.Optimizer], Any] | None:
    if config.schedule == "constant":
        return None
    return lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config.epochs)


def _count(
    models: TaskModels, sources: dict[str, ImageBatches], n_categories: int
) -> NDArray[np.int64]:
    """Images by domain, truth and prediction."""
    tables = []

    def count(output: torch.Tensor, target: torch.Tensor) -> float:
        pairs = n_categories * target + output.argmax(1)
        table = torch.bincount(pairs, minlength=n_categories**2).reshape(n_categories, -1)
        tables.append(table.numpy())
        return 0.0

    evaluate(models, sources, count)
    return np.stack(tables).astype(np.int64)
