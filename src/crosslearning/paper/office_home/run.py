"""The sweep over radii and seeds: no finished run is trained twice, whatever interrupts it."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crosslearning
from crosslearning.files import replacing
from crosslearning.paper.office_home.contact_sheet import draw_contact_sheet
from crosslearning.paper.office_home.progress import Clock, Progress
from crosslearning.paper.office_home.record import Record, record_name
from crosslearning.paper.office_home.results import assemble
from crosslearning.paper.office_home.scores import Sweep
from crosslearning.paper.office_home.storage import write_results

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from crosslearning.datasets import ImageData
    from crosslearning.paper.office_home.config import ImagesConfig

__all__ = ["run"]

_VERSION = 1  # of the files of runs


def run(
    config: ImagesConfig,
    data: ImageData,
    folder: str | os.PathLike[str],
    *,
    name: str = "images",
    keep_models: bool = False,
    progress: Callable[[Progress], object] = lambda _: None,
    command: str = "",
    reported: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Train at every radius from every seed, and store what comes out in ``folder``.

    Every run trains on the training part without the validation images, which choose the radius,
    and its networks are then tested. So one sweep serves both, and no accuracy is measured on
    images that had a say.

    Interrupted at any moment, the same call goes on where it was. More radii and seeds may be
    asked for later; runs that are finished are read.

    Parameters
    ----------
    config : ImagesConfig
        Settings.
    data : ImageData
        Images.
    folder : path
        Gets ``results.json``, ``results.csv``, ``contact_sheet.png`` and a file for each run.
    name : str, default="images"
        What the images are called in the results.
    keep_models : bool, default=False
        Whether to save the networks of each run in ``models``.
    progress : callable, optional
        Called with a `Progress` after each epoch.
    command : str, optional
        What was typed, to be kept with the results.
    reported : dict, optional
        Numbers of others to be kept beside the results.

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
    _claim(folder, config, data)
    grid = _train_all(config, data, folder, keep_models, progress)
    sweep = Sweep(data.domains, data.categories, grid)
    images = {"name": name, "fingerprint": data.fingerprint, "images": len(data)}
    results = assemble(config, sweep, images) | {
        "reported": reported,
        "provenance": {
            "command": command,
            "versions": {"crosslearning": crosslearning.__version__, "torch": version("torch")},
            "seconds": sum(record.seconds for row in grid for record in row),
        },
    }
    return write_results(folder, results, sweep)


def _claim(folder: Path, config: ImagesConfig, data: ImageData) -> None:
    """Write down what the runs in the folder share, or refuse a folder of other runs."""
    mine = config.identity() | {"images": data.fingerprint, "version": _VERSION}
    path, runs = folder / "settings.json", folder / "runs"
    if (folder / "results.json").exists() and not path.exists():
        raise ValueError(f"{folder} holds results of something else. Choose another folder.")
    runs.mkdir(parents=True, exist_ok=True)
    if not path.exists() or not any(runs.iterdir()):
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(mine, indent=2) + "\n")
    stored = _settings(path)
    for name in mine:
        if stored.get(name) != mine[name]:
            raise ValueError(
                f"{folder} holds runs of other settings: {name} is {stored.get(name)!r} there and "
                f"{mine[name]!r} here. Choose another folder."
            )


def _settings(path: Path) -> dict[str, Any]:
    try:
        stored = json.loads(path.read_text())
    except ValueError:
        stored = None
    if not isinstance(stored, dict):
        raise ValueError(f"{path} holds no settings of runs. Choose another folder.")
    return stored


def _train_all(
    config: ImagesConfig,
    data: ImageData,
    folder: Path,
    keep_models: bool,
    progress: Callable[[Progress], object],
) -> list[list[Record]]:
    """Read the runs that are finished and train the others."""
    from crosslearning.paper.office_home.training import train_run

    pixels = data.pixels(config.image_size)
    draw_contact_sheet(data, pixels, folder / "contact_sheet.png")
    clock = Clock(len(config.radii) * len(config.seeds), config.epochs, progress)

    def finished(epsilon: float, seed: int) -> Record:
        stem = record_name(epsilon, seed)
        path, checkpoint = (folder / "runs" / f"{stem}.{kind}" for kind in ("json", "checkpoint"))
        model = folder / "models" / f"{stem}.safetensors" if keep_models else None
        if not path.exists() or (model and not model.exists()):
            train_run(
                config,
                data,
                pixels,
                epsilon,
                seed,
                checkpoint=checkpoint,
                after_epoch=lambda record: clock.epoch(epsilon, seed, record.epoch),
                model_file=model,
            ).write(path)
        checkpoint.unlink(missing_ok=True)
        clock.finish()
        return Record.read(path, len(data.categories))

    return [[finished(radius, seed) for seed in config.seeds] for radius in config.radii]
