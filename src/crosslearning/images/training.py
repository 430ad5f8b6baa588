"""Training on images at several radii: no finished run is trained twice, whatever interrupts it."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

import crosslearning
from crosslearning.exceptions import ResolutionWarning
from crosslearning.images import _results
from crosslearning.images._baselines import baselines_of, judged
from crosslearning.images._folder import claim, numbered, prepare_models
from crosslearning.images._runs import Runs, count, model_file
from crosslearning.images.batches import Augmentation, ImageBatches
from crosslearning.images.contact_sheet import draw_contact_sheet
from crosslearning.images.head_training import train_heads
from crosslearning.images.networks import default_epsilons, network
from crosslearning.images.splits import divide
from crosslearning.images.statistics import channel_statistics
from crosslearning.nn import evaluate, sweep
from crosslearning.nn._ranks import Ranks

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    from torch.distributed.device_mesh import DeviceMesh

    from crosslearning.datasets import ImageData
    from crosslearning.datasets.images import Pixels
    from crosslearning.images.settings import TrainingSettings
    from crosslearning.nn import EpochRecord, History, TaskModels

_MEASURED = "images", "validation", "test", "losses", "seconds"
_STEPS = 500  # between two checkpoints inside of an epoch


def train(
    data: ImageData,
    folder: str | os.PathLike[str],
    settings: TrainingSettings,
    *,
    name: str = "images",
    keep_models: bool = True,
    progress: Callable[[dict[str, Any]], object] = lambda _: None,
    command: str = "",
    mesh: DeviceMesh | None = None,
    more: Callable[[dict[str, Any]], dict[str, Any]] = lambda _: {},
) -> dict[str, Any]:
    """Train a network for each domain at every radius from every seed, and choose a radius.

    Validation images, apart from those trained on, choose the radius; test images judge it.
    Interrupted at any moment, the same call resumes where it was, and later calls may ask for more
    radii and seeds. A folder of runs of other settings or images is refused.

    Parameters
    ----------
    data : ImageData
        Images of `ImageDomains` or `load_icons65`.
    folder : path
        Gets ``results.json``, ``results.csv``, ``contact_sheet.png`` and files of the runs.
    settings : TrainingSettings
        Network, training and radii.
    name, command : str, optional
        What the images are called in the results, and what was typed.
    keep_models : bool, default=True
        Whether to save the networks of each run in ``models``, and beside them, for each seed,
        what it takes to use them. A run whose networks are gone is trained again.
    progress : callable, optional
        Called after each epoch with a dict: ``epsilon`` and ``seed`` of the run, ``run``, its
        number of ``runs``, and ``epoch`` of ``epochs``; before, with a backbone, with the number
        of images that are ``embedded``, of ``images``.
    mesh : DeviceMesh, optional
        Spreads the domains over ranks, which all call it alike; the first writes. Not for heads
        on a backbone.
    more : callable, optional
        Returns what else to keep with the results, given these.

    Returns
    -------
    dict
        The content of ``results.json``.
    """
    folder = Path(folder)
    for seed in settings.seeds:
        divide(settings, data, seed)  # which may be refused, and then before anything is written
    ranks = Ranks(mesh, len(data.domains))
    others: dict[str, Runs] = {}
    if settings.backbone is None:
        settings, tables, others = _train_networks(
            data, folder, settings, keep_models, progress, ranks
        )
    elif mesh is None:
        settings, tables = train_heads(data, folder, settings, keep_models, progress)
    else:
        raise ValueError("Heads on a backbone are solved in one process; train them without ranks.")
    runs = Runs.of(pd.concat(tables), data.categories)
    images = {"name": name, "fingerprint": data.fingerprint, "images": len(data)}
    results = _results.assemble(settings, runs, images)
    results["provenance"] = {
        "command": command,
        "versions": {"crosslearning": crosslearning.__version__, "torch": version("torch")},
        "seconds": runs.seconds.sum(),
    }
    if others:
        results["baselines"] = judged(runs, others)
    results |= more(results)
    return _results.write(folder, results, runs) if ranks.is_first else results


def _train_networks(
    data: ImageData,
    folder: Path,
    settings: TrainingSettings,
    keep_models: bool,
    progress: Any,
    ranks: Ranks,
) -> tuple[TrainingSettings, list[pd.DataFrame], dict[str, Runs]]:
    """Train whole networks; return the settings with radii, a table for each seed, baselines."""
    make = network(settings, len(data.categories))
    settings = replace(
        settings, epsilons=settings.epsilons or default_epsilons(make, settings.blocks)
    )
    with ranks.first_alone():
        claim(folder, settings, data)
        pixels = data.pixels(settings.image_size)
        draw_contact_sheet(data, pixels, folder / "contact_sheet.png")

    def train_all(tell: Any, keep: bool, where: str = "", **changes: Any) -> list[pd.DataFrame]:
        return [
            _sweep(settings, data, pixels, make, seed, folder, keep, tell, ranks, where, **changes)
            for seed in settings.seeds
        ]

    def tell(run: dict[str, Any], record: EpochRecord) -> None:
        progress(numbered(settings, run, epoch=record.epoch, epochs=settings.epochs))

    tables = train_all(tell, keep_models)
    wanted = baselines_of(make(), settings.baselines)
    others = {}
    for k, (name, changes) in enumerate(wanted.items(), 1):
        told = partial(_tell_baseline, progress, settings.epochs, k, len(wanted), name)
        found = train_all(told, False, f"baselines/{name}/", **changes)
        others[name] = Runs.of(pd.concat(found), data.categories)
    return settings, tables, others


def _tell_baseline(
    progress: Any, epochs: int, k: int, n: int, name: str, run: Any, record: EpochRecord
) -> None:
    of = {"run": k, "runs": n, "epoch": record.epoch, "epochs": epochs}
    progress({**run, "baseline": name, **of})


def _sweep(
    settings: TrainingSettings,
    data: ImageData,
    pixels: Pixels,
    make: Callable[[], torch.nn.Module],
    seed: int,
    folder: Path,
    keep_models: bool,
    on_epoch: Callable[[dict[str, Any], EpochRecord], None],
    ranks: Ranks,
    where: str,
    together: bool = False,
    **changes: Any,
) -> pd.DataFrame:
    """Train a network for each domain at every radius from one seed, or as the changes have it."""
    parts = divide(settings, data, seed)
    statistics = channel_statistics(pixels, np.concatenate(parts[0]))

    def batches(rows: Any) -> ImageBatches:
        return ImageBatches(pixels, rows, data.category_codes, *statistics)

    sources = [dict(zip(data.domains, map(batches, part), strict=True)) for part in parts]
    measure: Any = partial(_measure, sources, folder / "models" if keep_models else None)
    training, test, batch = *sources[:2], settings.batch
    if together:  # as many images of each domain as of the largest, as if they took turns
        most = max(map(len, parts[0]))
        training = {"all": batches(np.concatenate([np.resize(rows, most) for rows in parts[0]]))}
        test, batch = {"all": batches(np.concatenate(parts[1]))}, batch * len(data.domains)
        measure = partial(_measure_together, measure, data.domains)
    if keep_models:
        with ranks.first_alone():
            prepare_models(folder, settings, data, seed, statistics)
    cosine = partial(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=settings.epochs)
    with warnings.catch_warnings(), ranks.first_alone() if together else nullcontext():
        warnings.simplefilter("ignore", ResolutionWarning)  # noted in the results instead
        table = sweep(
            make,
            training,
            torch.nn.CrossEntropyLoss(),
            partial(_optimizer, settings),
            settings.epochs,
            **{"epsilons": settings.epsilons or (), "blocks": settings.blocks} | changes,
            seeds=seed,
            test=test,
            metric="accuracy",
            batch_size=batch,
            scheduler=cosine if settings.schedule == "cosine" else None,
            augment=Augmentation(flip=settings.flip) if settings.augment else None,
            checkpoint_every=_STEPS,
            folder=folder / "runs" / f"{where}seed-{seed}",
            measure=measure,
            on_epoch=on_epoch,
            mesh=None if together else ranks.mesh,
        )
    return table.explode(["task", *_MEASURED]) if together else table


def _optimizer(settings: TrainingSettings, parameters: Iterable[Any]) -> torch.optim.Optimizer:
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "adam":
        return torch.optim.Adam(parameters, rate, weight_decay=decay, fused=True)
    return torch.optim.SGD(parameters, rate, settings.momentum, weight_decay=decay, fused=True)


def _measure(
    sources: list[dict[str, ImageBatches]],
    folder: Path | None,
    run: dict[str, Any],
    models: TaskModels,
    history: History,
) -> list[dict[str, Any]]:
    """Save the networks, and return what `Runs` needs to know of each domain."""
    if folder is not None:
        models.save(model_file(folder, run["epsilon"], run["seed"]))
    images = [[len(part[domain]) for part in sources] for domain in sources[0]]
    losses = np.stack([np.broadcast_to(one.losses, len(images)) for one in history.records], 1)
    seconds = [sum(record.seconds for record in history.records)] * len(images)
    validation, test = (_count(models, part) for part in sources[1:])
    rows = zip(images, validation, test, losses.tolist(), seconds, strict=True)
    return [dict(zip(_MEASURED, row, strict=True)) for row in rows]


def _measure_together(measure: Any, domains: Sequence[str], *about: Any) -> list[dict[str, Any]]:
    """Measure the one network, which has one row, on all domains."""
    rows = measure(*about)
    return [{"task": list(domains)} | {name: [row[name] for row in rows] for name in _MEASURED}]


def _count(models: TaskModels, sources: dict[str, ImageBatches]) -> list[list[list[int]]]:
    """For each domain [truth, predicted, count], for the counts that are not 0."""
    tables: list[list[list[int]]] = []

    def note(output: torch.Tensor, target: torch.Tensor) -> float:
        tables.append(count(target.cpu(), output.argmax(1).cpu()))
        return 0.0

    evaluate(models, sources, note)
    ranks = models._ranks
    return [one for part in ranks.objects(tables)[: ranks.size] for one in part]
