"""Predictions of trained networks for image files."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import nn

from crosslearning.datasets.images import Progress
from crosslearning.images._folder import model_file
from crosslearning.images._listing import ImageFile, image_files
from crosslearning.images._pixel_cache import decode_all
from crosslearning.images.embedding import apply, load_backbone
from crosslearning.images.networks import Normalised, network
from crosslearning.images.settings import TrainingSettings
from crosslearning.nn import TaskModels

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_AT_A_TIME = 256  # bounds the memory of decoded images


class Predictions(NamedTuple):
    """A table with a row for each image, and the reasons why images cannot be read, by path.

    The table has the columns ``path``, ``domain`` (empty if predicted by the centre), ``category``
    and ``probability``, the same with ``_2``, ``_3`` and so on for less probable categories, and
    ``truth``: the name of the image's folder if it is a category, otherwise empty.
    """

    table: pd.DataFrame
    unreadable: dict[str, str]

    @property
    def by_centre(self) -> int:
        """Number of images predicted by the centre."""
        return int((self.table["domain"] == "").sum())

    @property
    def accuracy(self) -> float | None:
        """Share of correct predictions among images in folders of categories, if any."""
        labelled = self.table[self.table["truth"] != ""]
        return float((labelled["category"] == labelled["truth"]).mean()) if len(labelled) else None


def predict(
    folder: str | os.PathLike[str],
    images: Paths,
    *,
    task: str | None = None,
    top: int = 1,
    epsilon: float | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Predictions:
    """Predict the categories of images with the networks that `train` saved.

    Parameters
    ----------
    folder : path
        The folder that `train` wrote.
    images : path or sequence of paths
        Image files, and folders that are searched recursively.
    task : str, optional
        Domain of all images; by default, for each, the nearest parent folder named after a domain.
        Images of other domains are predicted by the centre.
    top : int, default=1
        Number of categories to report, the most probable first.
    epsilon, seed : float and int, optional
        Which networks to use; by default those of the chosen radius and the first seed.
    progress : callable, optional
        Called with the number of images done and the total.
    """
    about, models = open_models(Path(folder), epsilon, seed)
    if not 1 <= top <= len(about["categories"]):
        raise ValueError(
            f"`top` counts categories and must be from 1 to {len(about['categories'])}; got {top}."
        )
    files = image_files(images, about["domains"], task)
    tables: list[pd.DataFrame] = []
    unreadable: dict[str, str] = {}
    for start in range(0, len(files), _AT_A_TIME):
        some = list(decode_all(files[start : start + _AT_A_TIME], about["image_size"], None))
        unreadable |= {file.name: reason for file, reason in some if isinstance(reason, str)}
        if readable := [one for one in some if not isinstance(one[1], str)]:
            tables.append(_table(readable, about, models, top))
        if progress is not None:
            progress(start + len(some), len(files))
    if not tables:
        raise ValueError(f"At least one image must be readable; none of {len(files)} is.")
    return Predictions(pd.concat(tables, ignore_index=True), unreadable)


def open_models(folder: Path, epsilon: float | None, seed: int | None) -> tuple[Any, TaskModels]:
    """Read the description of a seed's networks, and the networks of a radius."""
    models, results = folder / "models", folder / "results.json"
    seeds = sorted(int(path.stem[5:]) for path in models.glob("seed-*.json"))
    if not seeds:
        raise ValueError(f"{folder} holds no networks for images. Train there first.")
    if epsilon is None:
        if not results.exists():
            raise ValueError(
                f"The training in {folder} is not finished. Start it again to resume it."
            )
        epsilon = float(json.loads(results.read_text(encoding="utf-8"))["chosen"]["epsilon"])
    seed = seeds[0] if seed is None else seed
    file = model_file(models, float(epsilon), seed)
    if not file.exists():
        there = ", ".join(sorted(path.stem for path in models.glob("epsilon-*.safetensors")))
        raise ValueError(f"There are no networks {file.stem} in {models}; there are {there}.")
    about = json.loads((models / f"seed-{seed}.json").read_text(encoding="utf-8"))
    n_categories = len(about["categories"])
    if name := about.get("backbone"):
        about["body"] = load_backbone(name)
        zeros = torch.zeros(about["features"])
        module: nn.Module = Normalised(nn.Linear(len(zeros), n_categories), zeros, zeros)
    else:
        settings = TrainingSettings(model=about["model"], image_size=about["image_size"])
        module = network(settings, n_categories)()
    return about, TaskModels.load(file, module)


def network_of(models: TaskModels, domain: str | None, about: Any) -> nn.Module:
    """Network of a domain, or the centre's, from pixels to scores."""
    module = dict(models.items()).get(domain, models.center)
    if "body" in about:
        return nn.Sequential(about["body"], module).eval()
    statistics = (torch.tensor(about[name])[:, None, None] for name in ("mean", "std"))
    return Normalised(module, *statistics).eval()


def _table(some: list[tuple[ImageFile, Any]], about: Any, models: Any, top: int) -> pd.DataFrame:
    """Predict decoded images, those of each domain together."""
    pixels = np.stack([image for _, image in some])
    domains = np.array([file.domain for file, _ in some])
    shares = torch.empty(len(some), len(about["categories"]), dtype=torch.float64)
    for domain in np.unique(domains):
        rows = np.flatnonzero(domains == domain)
        shares[rows] = apply(network_of(models, domain, about), pixels[rows]).softmax(1).double()
    table = pd.DataFrame({"path": [file.name for file, _ in some]})
    table["domain"] = [domain if domain in models else "" for domain in domains.tolist()]
    for rank, (values, codes) in enumerate(zip(*(x.T for x in shares.topk(top)), strict=True), 1):
        ending = "" if rank == 1 else f"_{rank}"
        table[f"category{ending}"] = [about["categories"][code] for code in codes]
        table[f"probability{ending}"] = values.tolist()
    categories = set(about["categories"])
    return table.assign(truth=[f.category if f.category in categories else "" for f, _ in some])
