"""Training of linear heads on the features of a backbone, in the folder of a training."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import nn

from crosslearning.coupling import smallest_enclosing_ball
from crosslearning.datasets import ImageData
from crosslearning.files import write_json
from crosslearning.images._folder import claim, numbered, prepare_models
from crosslearning.images._runs import count, model_file
from crosslearning.images.contact_sheet import draw_contact_sheet
from crosslearning.images.embedding import features, load_backbone
from crosslearning.images.heads import Heads, fit_heads, objective
from crosslearning.images.networks import Normalised
from crosslearning.images.settings import TrainingSettings
from crosslearning.images.splits import divide
from crosslearning.nn import TaskModels

RIDGES = (1e-3, 1e-2, 1e-1)
_SHARES = (0.03, 0.1, 0.2, 0.4, 0.7)  # of the radius at which heads are separate


def train_heads(
    data: ImageData, folder: Path, settings: TrainingSettings, keep_models: bool, progress: Any
) -> tuple[TrainingSettings, list[pd.DataFrame]]:
    """Train linear heads on the features of a backbone at several radii."""
    backbone = load_backbone(settings.backbone or "")
    claim(folder, settings, data)
    draw_contact_sheet(data, data.pixels(settings.image_size), folder / "contact_sheet.png")
    vectors = features(
        data,
        backbone,
        image_size=settings.image_size,
        progress=lambda done, total: progress({"embedded": done, "images": total}),
    )
    tables = []
    for seed in settings.seeds:
        training = HeadTraining(settings, data, vectors, seed)
        if settings.epsilons is None:
            settings = replace(settings, epsilons=training.default_epsilons())
        if keep_models:
            normalised = backbone.mean.flatten(), backbone.std.flatten()
            prepare_models(folder, settings, data, seed, normalised, vectors.shape[1])
        models = folder / "models" if keep_models else None
        tables.append(_finished_or_run(training, settings, folder, models, progress))
    return settings, tables


class Ends(NamedTuple):
    """A ridge strength, and the two ends of the path of heads that it makes."""

    ridge: float
    pooled: Heads
    separate: Heads

    @property
    def radius(self) -> float:
        """Smallest radius at which heads are separate."""
        return smallest_enclosing_ball(self.separate.thetas.flatten(1).numpy())[1]


class HeadTraining:
    """Heads of all domains at several radii for one seed, with the ridge best on validation."""

    def __init__(
        self, settings: TrainingSettings, data: ImageData, vectors: NDArray[np.float32], seed: int
    ) -> None:
        self.data, self.seed = data, seed
        self.rows = divide(settings, data, seed)
        training = torch.from_numpy(vectors[np.concatenate(self.rows[0])])
        self.mean, std = training.mean(0), training.std(0)
        self.std = torch.where(std > 0, std, 1.0)
        labels = torch.from_numpy(data.category_codes)

        def pair(rows: NDArray[np.intp]) -> tuple[torch.Tensor, torch.Tensor]:
            return (torch.from_numpy(vectors[rows]) - self.mean) / self.std, labels[rows]

        self.parts = [list(map(pair, part)) for part in self.rows]
        self.zeros = torch.zeros(len(data.domains), vectors.shape[1] + 1, len(data.categories))

    @cached_property
    def ends(self) -> Ends:
        """The ridge, and pooled and separate heads with it.

        One ridge for all radii makes a path: heads change with the radius alone, and not at all
        beyond the radius of separate heads. It is chosen for both ends, on the validation images.
        """
        candidates = []
        for ridge in RIDGES:
            pooled = fit_heads(self.parts[0], self.zeros, 0.0, ridge)
            separate = fit_heads(self.parts[0], pooled.thetas, math.inf, ridge)
            candidates.append(Ends(ridge, pooled, separate))
        return min(
            candidates,
            key=lambda one: sum(self._losses(one.pooled, 1) + self._losses(one.separate, 1)),
        )

    def default_epsilons(self) -> tuple[float, ...]:
        """Return both ends, and shares of the radius at which the heads are separate."""
        return (0.0, *(float(f"{share * self.ends.radius:.2g}") for share in _SHARES), math.inf)

    def run(
        self, epsilons: Sequence[float], models: Path | None, on_radius: Callable[[float], object]
    ) -> list[dict[str, Any]]:
        """Fit at every radius, save the networks, and return one row per radius and domain."""
        ends, table = self.ends, []
        start, radius = ends.pooled.thetas, ends.radius
        for epsilon in epsilons:
            began = time.perf_counter()
            if epsilon >= radius:  # separate heads satisfy the bound
                start = ends.separate.thetas
            heads = fit_heads(self.parts[0], start, epsilon, ends.ridge)
            start, seconds = heads.thetas, time.perf_counter() - began
            networks = self._networks(heads, epsilon)
            if models is not None:
                networks.save(model_file(models, epsilon, self.seed))
            table += self._rows(heads, networks, epsilon, seconds)
            on_radius(epsilon)
        return table

    def _losses(self, heads: Heads, part: int) -> list[float]:
        return [objective([pair], theta[None], 0.0)[0] for theta, pair in self._pairs(heads, part)]

    def _pairs(self, heads: Heads, part: int) -> Any:
        return zip(heads.thetas, self.parts[part], strict=True)

    def _networks(self, heads: Heads, epsilon: float) -> TaskModels:
        module = Normalised(nn.Linear(len(self.mean), self.zeros.shape[-1]), self.mean, self.std)
        networks = TaskModels(module, self.data.domains, epsilon=epsilon, center_weight=0.0)
        with torch.no_grad():
            modules: Any = [*dict(networks.items()).values(), networks.center]
            for one, theta in zip(modules, [*heads.thetas, heads.center], strict=True):
                one.inner.weight.copy_(theta[:-1].T)
                one.inner.bias.copy_(theta[-1])
        return networks

    def _rows(
        self, heads: Heads, networks: TaskModels, epsilon: float, seconds: float
    ) -> list[dict[str, Any]]:
        counts = [
            [count(y, (x @ t[:-1] + t[-1]).argmax(1)) for t, (x, y) in self._pairs(heads, k)]
            for k in (1, 2)
        ]
        losses, distances = self._losses(heads, 0), networks.distances()
        run = {"epsilon": epsilon, "seed": self.seed, "seconds": seconds, "ridge": self.ends.ridge}
        return [
            {
                **run,
                "task": domain,
                "images": [len(part[d]) for part in self.rows],
                "validation": counts[0][d],
                "test": counts[1][d],
                "distance": float(distances[d]),
                "pull": float(heads.pull[d]),
                "losses": [losses[d]],
            }
            for d, domain in enumerate(self.data.domains)
        ]


def _finished_or_run(
    training: HeadTraining,
    settings: TrainingSettings,
    folder: Path,
    models: Path | None,
    progress: Any,
) -> pd.DataFrame:
    """Fit the heads of one seed, unless the folder already has them."""
    seed, epsilons = training.seed, settings.epsilons or ()

    def on_radius(epsilon: float) -> None:
        if epsilon in epsilons:
            progress(numbered(settings, {"epsilon": epsilon, "seed": seed}, epoch=1, epochs=1))

    file = folder / "runs" / f"seed-{seed}" / f"heads-seed-{seed}.json"
    stored = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    radii = {float(row["epsilon"]) for row in stored}
    kept = models is None or all(model_file(models, one, seed).exists() for one in epsilons)
    if not (radii >= set(epsilons) and kept):
        stored = training.run(sorted(radii | set(epsilons)), models, on_radius)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, stored)
    table = pd.DataFrame(stored)
    return table[table["epsilon"].isin(epsilons)]
