"""Training on images at several radii: no finished run is trained twice, whatever interrupts it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

import crosslearning
from crosslearning.files import replacing
from crosslearning.images import _results
from crosslearning.images._runs import Runs
from crosslearning.images._seed import train_seed
from crosslearning.images.contact_sheet import draw_contact_sheet
from crosslearning.images.networks import default_epsilons, network
from crosslearning.images.splits import divide

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from crosslearning.datasets import ImageData
    from crosslearning.images.settings import TrainingSettings
    from crosslearning.nn import EpochRecord

__all__ = ["train"]

_VERSION = 2  # of the files of runs


def train(
    data: ImageData,
    folder: str | os.PathLike[str],
    settings: TrainingSettings,
    *,
    name: str = "images",
    keep_models: bool = True,
    progress: Callable[[dict[str, Any]], object] = lambda _: None,
    command: str = "",
    more: Callable[[dict[str, Any]], dict[str, Any]] = lambda _: {},
) -> dict[str, Any]:
    """Train a network for each domain at every radius from every seed, and choose a radius.

    Every run trains on the training part without the validation images, which choose the radius,
    and its networks are then tested. So one sweep serves both, and no accuracy is measured on
    images that had a say.

    Interrupted at any moment, the same call resumes where it was. More radii and seeds may be
    asked for later; runs that are finished are read.

    Parameters
    ----------
    data : ImageData
        Images of `ImageDomains` or `load_icons65`.
    folder : path
        Gets ``results.json``, ``results.csv``, ``contact_sheet.png`` and files of the runs.
    settings : TrainingSettings
        Network, training and radii.
    name : str, default="images"
        What the images are called in the results.
    keep_models : bool, default=True
        Whether to save the networks of each run in ``models``, and beside them, for each seed,
        what it takes to use them: network, image size, categories, and mean and standard
        deviation to normalise with. A run whose networks are gone is trained again.
    progress : callable, optional
        Called after each epoch with a dict: ``epsilon`` and ``seed`` of the run, ``run``, its
        number of ``runs``, and ``epoch`` of ``epochs``.
    command : str, optional
        What was typed, to be kept with the results.
    more : callable, optional
        Returns what else to keep with the results, given these.

    Returns
    -------
    dict
        The content of ``results.json``.

    Raises
    ------
    ValueError
        If the folder holds runs of other settings or other images.
    """
    folder = Path(folder)
    make = network(settings, len(data.categories))
    for seed in settings.seeds:
        divide(settings, data, seed)  # which may be refused, and then before anything is written
    settings = replace(settings, epsilons=settings.epsilons or default_epsilons(make))
    _claim(folder, settings, data)
    pixels = data.pixels(settings.image_size)
    draw_contact_sheet(data, pixels, folder / "contact_sheet.png")
    tell = _progress(settings, progress)
    tables = [
        train_seed(settings, data, pixels, make, seed, folder, keep_models, tell)
        for seed in settings.seeds
    ]
    runs = Runs.of(pd.concat(tables), data.categories)
    images = {"name": name, "fingerprint": data.fingerprint, "images": len(data)}
    results = _results.assemble(settings, runs, images)
    results["provenance"] = {
        "command": command,
        "versions": {"crosslearning": crosslearning.__version__, "torch": version("torch")},
        "seconds": runs.seconds.sum(),
    }
    return _results.write(folder, results | more(results), runs)


def _claim(folder: Path, settings: TrainingSettings, data: ImageData) -> None:
    """Write down what the runs in the folder share, or refuse a folder of other runs."""
    mine = settings.identity() | {"images": data.fingerprint, "version": _VERSION}
    path, runs = folder / "settings.json", folder / "runs"
    if (folder / "results.json").exists() and not path.exists():
        raise ValueError(f"{folder} holds results of something else. Choose another folder.")
    if not path.exists() or not any(runs.rglob("*-seed-*.*")):
        shutil.rmtree(runs, ignore_errors=True)  # of other settings, and nothing in it
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(mine, indent=2) + "\n")
    try:
        stored = json.loads(path.read_text())
    except ValueError:
        stored = None
    if not isinstance(stored, dict):
        raise ValueError(f"{path} does not hold settings of runs. Choose another folder.")
    for name in mine:
        if stored.get(name) != mine[name]:
            raise ValueError(
                f"{folder} holds runs of other settings: {name} is {stored.get(name)!r} there and "
                f"{mine[name]!r} here. Choose another folder."
            )


def _progress(
    settings: TrainingSettings, progress: Callable[[dict[str, Any]], object]
) -> Callable[[dict[str, Any], EpochRecord], None]:
    """Tell of each epoch which run of how many it belongs to."""
    order = [(epsilon, seed) for seed in settings.seeds for epsilon in settings.epsilons or ()]

    def tell(run: dict[str, Any], record: EpochRecord) -> None:
        number = 1 + order.index((run["epsilon"], run["seed"]))
        at = {"run": number, "runs": len(order), "epoch": record.epoch, "epochs": settings.epochs}
        progress({**run, **at})

    return tell
