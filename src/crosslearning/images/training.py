"""Training on images at several radii; an interrupted training resumes where it stopped."""

import os
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.distributed.device_mesh import DeviceMesh

import crosslearning
from crosslearning.archive import to_json
from crosslearning.datasets import ImageData
from crosslearning.exceptions import ResolutionWarning
from crosslearning.files import write_json
from crosslearning.images import _results, networks
from crosslearning.images._results import Runs
from crosslearning.images.batches import Augmentation, ImageBatches, channel_statistics
from crosslearning.images.folder import claim, describe_models, model_file
from crosslearning.images.heads import HeadTraining
from crosslearning.images.settings import TrainingSettings
from crosslearning.images.splits import divide
from crosslearning.nn import EpochRecord, TaskModels, sweep
from crosslearning.nn._ranks import Ranks

_STEPS = 500  # between two checkpoints within an epoch

Progress = Callable[[dict[str, Any]], object]
Trained = tuple[TrainingSettings, list[pd.DataFrame], dict[str, Runs]]


def train(
    data: ImageData,
    folder: str | os.PathLike[str],
    settings: TrainingSettings,
    *,
    name: str = "images",
    keep_models: bool = True,
    progress: Progress = lambda _: None,
    command: str = "",
    mesh: DeviceMesh | None = None,
) -> dict[str, Any]:
    """Train a network per domain for every radius and seed, and choose a radius for each domain.

    Radii are chosen by the log loss on validation images, and scored on test images. The same call
    resumes after an interruption. Later calls may add radii and seeds; other changes are refused.

    Parameters
    ----------
    data : ImageData
        Images of `ImageDomains` or `load_pictures32`.
    folder : path
        For ``results.json``, ``contact_sheet.png`` and the files of the runs.
    settings : TrainingSettings
        Network, training and radii.
    name, command : str, optional
        Name of the images, and the command that was typed, for the results.
    keep_models : bool, default=True
        Whether to save the networks of every run in ``models``, for `predict` and `export`.
    progress : callable, optional
        Called after each epoch with a dict: ``epsilon`` and ``seed``, the number ``run`` of
        ``runs``, and ``epoch`` of ``epochs``; with a backbone, first ``embedded`` of ``images``.
    mesh : DeviceMesh, optional
        Spreads the domains over ranks, all of which make the same call; the first writes the
        files. Not for heads on a backbone.

    Returns
    -------
    dict
        The content of ``results.json``.
    """
    if settings.backbone and mesh is not None:
        raise ValueError("Heads on a backbone are solved in one process; train them without ranks.")
    began, folder = time.perf_counter(), Path(folder)
    ranks = Ranks(mesh, len(data.domains))
    for seed in settings.seeds:
        divide(settings, data, seed)  # raises before anything is written
    models = folder / "models" if keep_models else None
    train_all = _train_heads if settings.backbone else partial(_train_networks, ranks)
    settings, tables, baselines = train_all(data, folder, settings, models, progress)
    table = pd.concat(tables)
    runs = Runs.of(table, data.categories, settings.epsilon_by)
    images = {"name": name, "fingerprint": data.fingerprint, "images": len(data)}
    results = _results.assemble(settings, runs, images | {"skipped": data.skipped})
    if settings.weights:
        module = networks.network(settings, len(data.categories))()
        results["notes"] += networks.read_weights(settings.weights, module)[1]
    results["reliability"] = _results.calibration(table, results["chosen"]["epsilons"])
    results["provenance"] = {
        "command": command,
        "versions": {"crosslearning": crosslearning.__version__, "torch": version("torch")},
        "seconds": time.perf_counter() - began,
    }
    if baselines:
        results["baselines"] = _results.baselines(runs, baselines)
    content: dict[str, Any] = to_json(results, digits=6, infinity=True)
    if ranks.is_first:
        write_json(folder / "results.json", content)
    return content


def _train_networks(
    ranks: Ranks,
    data: ImageData,
    folder: Path,
    settings: TrainingSettings,
    models: Path | None,
    progress: Progress,
) -> Trained:
    """Train whole networks; return the settings with radii, a table per seed, and baselines."""
    make = networks.network(settings, len(data.categories))
    epsilons = settings.epsilons or networks.default_epsilons(make, settings.blocks)
    settings = replace(settings, epsilons=epsilons)
    with ranks.first_alone():
        claim(folder, settings, data)
    seeds = [_Seed(settings, data, make, seed, folder, ranks) for seed in settings.seeds]

    def show(run: dict[str, Any], record: EpochRecord, /, **baseline: Any) -> None:
        about = baseline or _numbered(settings, run["epsilon"], run["seed"])
        progress({**run, **about, "epoch": record.epoch, "epochs": settings.epochs})

    tables = []
    for seed in seeds:
        if models is not None:
            with ranks.first_alone():
                describe_models(models, settings, data, seed.seed, seed.statistics)
        tables.append(seed.sweep(show, models=models))
    arguments, baselines = networks.baselines_of(make(), settings.baselines), {}
    for k, (name, changes) in enumerate(arguments.items(), 1):
        on_epoch = partial(show, baseline=name, run=k, runs=len(arguments))
        changes = {"blocks": None} | changes
        scores = [seed.sweep(on_epoch, f"baselines/{name}/", **changes) for seed in seeds]
        baselines[name] = Runs.of(pd.concat(scores), data.categories, settings.epsilon_by)
    return settings, tables, baselines


def _train_heads(
    data: ImageData,
    folder: Path,
    settings: TrainingSettings,
    models: Path | None,
    progress: Progress,
) -> Trained:
    """Fit linear heads on the features of a backbone, which are computed once."""
    backbone = networks.load_backbone(settings.backbone or "")
    claim(folder, settings, data)
    vectors = networks.features(
        data,
        backbone,
        image_size=settings.image_size,
        progress=lambda done, total: progress({"embedded": done, "images": total}),
    )
    tables = []
    for seed in settings.seeds:
        training = HeadTraining(settings, data, vectors, seed)
        settings = replace(settings, epsilons=settings.epsilons or training.default_epsilons())
        if models is not None:
            statistics = backbone.mean.flatten(), backbone.std.flatten()
            describe_models(models, settings, data, seed, statistics, vectors.shape[1])
        for epsilon in settings.epsilons or ():
            fitted, rows = training.fit(epsilon)
            run = {"epsilon": epsilon, "seed": seed}
            tables.append(pd.DataFrame(rows).assign(**run))
            if models is not None:
                fitted.save(model_file(models, epsilon, seed))
            progress({**run, **_numbered(settings, epsilon, seed), "epoch": 1, "epochs": 1})
    return settings, tables, {}


def _numbered(settings: TrainingSettings, epsilon: float, seed: int) -> dict[str, int]:
    """Return the number of a run among all runs."""
    order = [(one, other) for other in settings.seeds for one in settings.epsilons or ()]
    return {"run": 1 + order.index((epsilon, seed)), "runs": len(order)}


@dataclass
class _Seed:
    """The images of one seed's split, and sweeps over radii or baselines with them."""

    settings: TrainingSettings
    data: ImageData
    make: Callable[[], torch.nn.Module]
    seed: int
    folder: Path
    ranks: Ranks

    def __post_init__(self) -> None:
        data, pixels = self.data, self.data.pixels(self.settings.image_size)
        self.rows = divide(self.settings, data, self.seed)
        mean, std = self.statistics = channel_statistics(pixels, np.concatenate(self.rows[0]))
        self.batches = partial(ImageBatches, pixels, labels=data.category_codes, mean=mean, std=std)
        self.sources = [
            dict(zip(data.domains, map(self.batches, part), strict=True)) for part in self.rows
        ]

    def sweep(
        self,
        on_epoch: Callable[[dict[str, Any], EpochRecord], None],
        where: str = "",
        *,
        models: Path | None = None,
        together: bool = False,
        **changes: Any,
    ) -> pd.DataFrame:
        """Train a network per domain at every radius, or one for all domains together."""
        settings = self.settings
        training, test, batch = *self.sources[:2], settings.batch
        if together:  # as many images of each domain as of the largest
            train, validation, _ = self.rows
            rows = [np.resize(part, max(map(len, train))) for part in train]
            training, test = (
                {"all": self.batches(np.concatenate(part))} for part in (rows, validation)
            )
            batch *= len(train)
        cosine = partial(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=settings.epochs)
        with warnings.catch_warnings(), self.ranks.first_alone() if together else nullcontext():
            warnings.simplefilter("ignore", ResolutionWarning)  # noted in the results instead
            table = sweep(
                self.make,
                training,
                torch.nn.CrossEntropyLoss(),
                partial(_optimizer, settings),
                settings.epochs,
                **{"epsilons": settings.epsilons or (), "blocks": settings.blocks} | changes,
                seeds=(self.seed,),
                test=test,
                metric="accuracy",
                batch_size=batch,
                scheduler=cosine if settings.schedule == "cosine" else None,
                augment=Augmentation(flip=settings.flip) if settings.augment else None,
                pooled_epochs=int(settings.pooled_share * settings.epochs),
                checkpoint_every=_STEPS,
                folder=self.folder / "runs" / f"{where}seed-{self.seed}",
                measure=partial(self._measure, models, together),
                on_epoch=on_epoch,
                mesh=None if together else self.ranks.mesh,
            )
        return table.explode(["task", *networks.MEASURED]) if together else table

    def _measure(
        self, folder: Path | None, together: bool, run: dict[str, Any], models: TaskModels, _: Any
    ) -> list[dict[str, Any]]:
        """Save the networks; return a row for `Runs` of each domain, or one with lists over all."""
        if folder is not None:
            models.save(model_file(folder, run["epsilon"], run["seed"]))
        rows = networks.measure(models, self.sources)
        if not together:
            return rows
        lists = {name: [row[name] for row in rows] for name in networks.MEASURED}
        return [{"task": list(self.data.domains), **lists}]


def _optimizer(settings: TrainingSettings, parameters: Iterable[Any]) -> torch.optim.Optimizer:
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "adam":
        return torch.optim.Adam(parameters, rate, weight_decay=decay, fused=True)
    return torch.optim.SGD(parameters, rate, settings.momentum, weight_decay=decay, fused=True)
