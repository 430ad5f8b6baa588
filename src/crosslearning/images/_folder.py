"""The folder of a training: what its runs share, and what is needed to use its networks."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crosslearning.datasets import ImageData
from crosslearning.files import write_json
from crosslearning.images.contact_sheet import draw_contact_sheet
from crosslearning.images.settings import TrainingSettings

_VERSION = 4  # of the files of runs


def model_file(models: Path, epsilon: float, seed: int) -> Path:
    """File of the networks of a run."""
    return models / f"epsilon-{epsilon!r}-seed-{seed}.safetensors"


def claim(folder: Path, settings: TrainingSettings, data: ImageData) -> None:
    """Record what the runs in the folder share, with a picture, or refuse one of other runs."""
    mine = settings.identity() | {"images": data.fingerprint, "version": _VERSION}
    path, runs = folder / "settings.json", folder / "runs"
    if (folder / "results.json").exists() and not path.exists():
        raise ValueError(f"{folder} holds results of something else. Choose another folder.")
    if not path.exists() or not any(runs.rglob("*-seed-*.*")):
        shutil.rmtree(runs, ignore_errors=True)  # other settings, but no runs yet
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, mine, indent=2)
    try:
        stored = json.loads(path.read_text())
    except ValueError:
        stored = None
    if not isinstance(stored, dict):
        raise ValueError(f"{path} must hold the settings of runs. Choose another folder.")
    for name in mine:
        if stored.get(name) != mine[name]:
            raise ValueError(
                f"{folder} holds runs with other settings: {name} is {stored.get(name)!r} there "
                f"and {mine[name]!r} here. Choose another folder."
            )
    draw_contact_sheet(data, data.pixels(settings.image_size), folder / "contact_sheet.png")


def prepare_models(
    folder: Path,
    settings: TrainingSettings,
    data: ImageData,
    seed: int,
    statistics: Any,
    n_features: int | None = None,
) -> None:
    """Record what is needed to use a seed's networks; forget runs whose networks are gone."""
    about = {"model": settings.model, "image_size": settings.image_size}
    about |= {"backbone": settings.backbone, "features": n_features}
    about |= {"categories": data.categories, "domains": data.domains}
    about |= {"mean": statistics[0].tolist(), "std": statistics[1].tolist()}
    (folder / "models").mkdir(exist_ok=True)
    write_json(folder / "models" / f"seed-{seed}.json", about, indent=2)
    for epsilon in settings.epsilons or ():
        if not model_file(folder / "models", epsilon, seed).exists():
            for finished in (folder / "runs" / f"seed-{seed}").glob(f"*-{epsilon!r}-*.json"):
                finished.unlink()


class Stopwatch:
    """Passes on the progress of a training, and records the time that it has taken so far.

    Processes that resume an interrupted training add to what is recorded.
    """

    def __init__(self, folder: Path, progress: Callable[[dict[str, Any]], object]) -> None:
        self._file, self._progress = folder / "runs" / "seconds.json", progress
        self._last = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Time until the last progress."""
        return float(json.loads(self._file.read_text())) if self._file.exists() else 0.0

    def __call__(self, now: dict[str, Any]) -> None:
        """Record the time since the last call."""
        before, self._last = self._last, time.perf_counter()
        self._file.parent.mkdir(parents=True, exist_ok=True)
        write_json(self._file, self.seconds + self._last - before)
        self._progress(now)


def numbered(settings: TrainingSettings, run: dict[str, Any]) -> dict[str, int]:
    """Return the number of a run among all runs."""
    order = [(epsilon, seed) for seed in settings.seeds for epsilon in settings.epsilons or ()]
    return {"run": 1 + order.index((run["epsilon"], run["seed"])), "runs": len(order)}
