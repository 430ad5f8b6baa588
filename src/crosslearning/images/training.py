"""Training on images at several radii: no finished run is trained twice, whatever interrupts it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crosslearning
from crosslearning.files import replacing
from crosslearning.images.contact_sheet import draw_contact_sheet
from crosslearning.images.networks import default_epsilons, network
from crosslearning.images.parts import divide
from crosslearning.images.record import Record
from crosslearning.images.results import assemble
from crosslearning.images.runs import train_seed
from crosslearning.images.scores import Sweep
from crosslearning.images.storage import write_results

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    import torch

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

    Interrupted at any moment, the same call goes on where it was. More radii and seeds may be
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
        Whether to save the networks of each run in ``models``.
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
    sweep = _train_all(settings, data, make, folder, keep_models, progress)
    images = {"name": name, "fingerprint": data.fingerprint, "images": len(data)}
    results = assemble(settings, sweep, images) | {
        "provenance": {
            "command": command,
            "versions": {"crosslearning": crosslearning.__version__, "torch": version("torch")},
            "seconds": sum(record.seconds for row in sweep.grid for record in row),
        },
    }
    return write_results(folder, results | more(results), sweep)


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
    stored = _stored(path)
    for name in mine:
        if stored.get(name) != mine[name]:
            raise ValueError(
                f"{folder} holds runs of other settings: {name} is {stored.get(name)!r} there and "
                f"{mine[name]!r} here. Choose another folder."
            )


def _stored(path: Path) -> dict[str, Any]:
    try:
        stored = json.loads(path.read_text())
    except ValueError:
        stored = None
    if not isinstance(stored, dict):
        raise ValueError(f"{path} does not hold settings of runs. Choose another folder.")
    return stored


def _train_all(
    settings: TrainingSettings,
    data: ImageData,
    make: Callable[[], torch.nn.Module],
    folder: Path,
    keep_models: bool,
    progress: Callable[[dict[str, Any]], object],
) -> Sweep:
    """Train seed after seed, and order the runs by radius."""
    pixels = data.pixels(settings.image_size)
    draw_contact_sheet(data, pixels, folder / "contact_sheet.png")
    epsilons = settings.epsilons or ()
    order = [(epsilon, seed) for seed in settings.seeds for epsilon in epsilons]

    def tell(run: dict[str, Any], record: EpochRecord) -> None:
        number = 1 + order.index((run["epsilon"], run["seed"]))
        at = {"run": number, "runs": len(order), "epoch": record.epoch, "epochs": settings.epochs}
        progress({**run, **at})

    runs: dict[tuple[float, int], Record] = {}
    for seed in settings.seeds:
        table = train_seed(
            settings,
            data,
            pixels,
            make,
            epsilons,
            seed,
            folder=folder / "runs" / f"seed-{seed}",
            models=folder / "models" if keep_models else None,
            on_epoch=tell,
        )
        for epsilon, rows in table.groupby("epsilon"):
            runs[float(epsilon), seed] = Record.of(rows, len(data.categories))  # type: ignore[arg-type]
    grid = [[runs[epsilon, seed] for seed in settings.seeds] for epsilon in epsilons]
    return Sweep(data.domains, data.categories, grid)
