"""The runs of one seed: a network for each domain at every radius, in one resumable sweep."""

from __future__ import annotations

import json
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from crosslearning.exceptions import ResolutionWarning
from crosslearning.files import replacing
from crosslearning.images.batches import Augmentation, ImageBatches
from crosslearning.images.splits import divide
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
    seed: int,
    folder: Path,
    keep_models: bool,
    on_epoch: Callable[[dict[str, Any], Any], None],
) -> pd.DataFrame:
    """Train at every radius; return the table of `crosslearning.nn.sweep` for `Runs`."""
    parts = divide(settings, data, seed)
    statistics = channel_statistics(pixels, np.concatenate(parts[0]))
    sources = [
        {
            domain: ImageBatches(pixels, rows, data.category_codes, *statistics)
            for domain, rows in zip(data.domains, part, strict=True)
        }
        for part in parts
    ]
    runs, models = folder / "runs" / f"seed-{seed}", folder / "models" if keep_models else None
    if models is not None:
        _describe(models / f"seed-{seed}.json", settings, data, statistics)
        for epsilon in settings.epsilons or ():
            if not _file(models, epsilon, seed).exists():  # deleted, so the run is not finished
                for finished in runs.glob(f"*-{epsilon!r}-seed-{seed}.json"):
                    finished.unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResolutionWarning)  # noted in the results instead
        return sweep(
            make,
            sources[0],
            torch.nn.CrossEntropyLoss(),
            partial(_optimizer, settings),
            settings.epochs,
            epsilons=settings.epsilons or (),
            seeds=seed,
            test=sources[1],
            metric="accuracy",
            batch_size=settings.batch,
            scheduler=partial(_cosine, settings) if settings.schedule == "cosine" else None,
            augment=Augmentation(flip=settings.flip) if settings.augment else None,
            folder=runs,
            checkpoint_every=_STEPS,
            measure=partial(_measure, sources, models),
            on_epoch=on_epoch,
        )


def _describe(path: Path, settings: TrainingSettings, data: ImageData, statistics: Any) -> None:
    """Write down what it takes to use the networks of a seed on other images."""
    mean, std = (values.tolist() for values in statistics)
    about = {
        "model": settings.model,
        "image_size": settings.image_size,
        "categories": data.categories,
        "domains": data.domains,
        "mean": mean,
        "std": std,
    }
    path.parent.mkdir(exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def _file(models: Path, epsilon: float, seed: int) -> Path:
    return models / f"epsilon-{epsilon!r}-seed-{seed}.safetensors"


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
    """Save the networks, and return what `Runs` needs to know of each domain."""
    if folder is not None:
        models.save(_file(folder, run["epsilon"], run["seed"]))
    validation, test = (_count(models, part) for part in sources[1:])
    return [
        {
            "images": [len(part[domain]) for part in sources],
            "validation": validation[k],
            "test": test[k],
            "losses": [float(record.losses[k]) for record in history.records],
            "seconds": sum(record.seconds for record in history.records),
        }
        for k, domain in enumerate(sources[0])
    ]


def _count(models: TaskModels, sources: dict[str, ImageBatches]) -> list[list[list[int]]]:
    """For each domain [truth, predicted, count], for the counts that are not 0."""
    tables: list[list[list[int]]] = []

    def count(output: torch.Tensor, target: torch.Tensor) -> float:
        pairs = torch.stack([target, output.argmax(1)]).cpu().numpy()
        different, counts = np.unique(pairs, axis=1, return_counts=True)
        tables.append(np.vstack([different, counts]).T.tolist())
        return 0.0

    evaluate(models, sources, count)
    return tables
