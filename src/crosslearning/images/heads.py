"""Linear heads on frozen features: one per domain, none farther than ε from their centre.

A head is a multinomial logistic regression with a ridge penalty. All heads are fitted jointly by
spectral projected gradient: Barzilai-Borwein steps, the exact joint projection, and a nonmonotone
line search; each radius starts from the solution of the previous one.
"""

from __future__ import annotations

import json
import math
import time
import warnings
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

from crosslearning.coupling import prox_gram, smallest_enclosing_ball
from crosslearning.datasets import ImageData
from crosslearning.exceptions import ConvergenceWarning
from crosslearning.files import write_json
from crosslearning.images._folder import claim, model_file, numbered, prepare_models
from crosslearning.images._runs import count
from crosslearning.images.embedding import features, load_backbone
from crosslearning.images.networks import Normalised
from crosslearning.images.settings import TrainingSettings
from crosslearning.images.splits import divide
from crosslearning.nn import TaskModels
from crosslearning.tether import Tether

Domains = Sequence[tuple[torch.Tensor, torch.Tensor]]

RIDGES = (1e-3, 1e-2, 1e-1)
_SHARES = (0.03, 0.1, 0.2, 0.4, 0.7)  # of the radius at which heads are separate
_TOLERANCE = 1e-3  # of the gap
_MOST_STEPS = 1000
_DECREASE, _LOOK_BACK, _SHORTEST = 1e-4, 5, 1e-4  # of the line search


class Heads(NamedTuple):
    """Heads of shape (n_domains, n_features + 1, n_categories), the last row for intercepts."""

    thetas: torch.Tensor
    center: torch.Tensor
    pull: NDArray[np.float64]
    gap: float  # how far the objective is above its minimum at most, relative to its value


def fit_heads(
    data: Domains, start: torch.Tensor, epsilon: float, ridge: float, tol: float = _TOLERANCE
) -> Heads:
    """Minimise the sum over domains of the mean log loss + ridge / 2 · squared norm.

    Intercepts are penalised too: that of a category which a domain lacks would diverge. The
    objective is strongly convex: with a gradient g it is at most |g|² / (2 · ridge) above its
    minimum. A tolerance for g alone would stop weakly penalised heads near their start.
    """
    thetas, _, pull = _project(start, epsilon, None)
    value, gradient = objective(data, thetas, ridge)
    values, step, gap = [value], 1.0, math.inf
    for _ in range(_MOST_STEPS):
        target, _, pull = _project(thetas - step * gradient, epsilon, pull)
        way = target - thetas
        gap = float(way.square().sum()) / (2 * ridge * step**2 * values[-1])
        if gap <= tol:
            break
        slope, share = float(torch.sum(gradient * way)), 1.0
        while True:
            new = thetas + share * way
            value, new_gradient = objective(data, new, ridge)
            allowed = max(values[-_LOOK_BACK:]) + _DECREASE * share * slope
            if value <= allowed or share < _SHORTEST:
                break
            share /= 3
        moved, change = new - thetas, new_gradient - gradient
        along = float(torch.sum(moved * change))
        if along > 0:  # the longer of the two Barzilai-Borwein steps: alternating may stall
            step = float(moved.square().sum()) / along
        else:  # too short for the precision of the gradients
            step *= 10.0
        thetas, gradient = new, new_gradient
        values.append(value)
    else:
        text = f"Heads at ε = {epsilon:.3g} have a gap of {gap:.1e} after {_MOST_STEPS} steps."
        warnings.warn(text, ConvergenceWarning, stacklevel=2)
    thetas, center, _ = _project(thetas, epsilon, None)  # recovers the centre
    return Heads(thetas, center, pull, gap)


def objective(data: Domains, thetas: torch.Tensor, ridge: float) -> tuple[float, torch.Tensor]:
    """Objective and gradient."""
    value, gradient = 0.0, torch.empty_like(thetas)
    for theta, slot, (x, y) in zip(thetas, gradient, data, strict=True):
        logs = torch.addmm(theta[-1], x, theta[:-1]).log_softmax(1)
        value -= float(logs.gather(1, y[:, None]).mean())
        value += 0.5 * ridge * float(theta.square().sum())
        errors = logs.exp_()
        errors[torch.arange(len(y)), y] -= 1
        errors /= len(y)
        torch.addmm(theta[:-1], x.T, errors, beta=ridge, out=slot[:-1])
        torch.add(errors.sum(0), theta[-1], alpha=ridge, out=slot[-1])
    return value, gradient


def _project(
    thetas: torch.Tensor, epsilon: float, start: NDArray[np.float64] | None
) -> tuple[torch.Tensor, torch.Tensor, NDArray[np.float64]]:
    """Project heads onto those within the radius of a free centre."""
    mean = thetas.mean(0)
    differences = (thetas - mean).flatten(1).double()
    gram = (differences @ differences.T).numpy()
    step = prox_gram(gram, Tether(epsilon=epsilon), center_weight=0.0, start=start)
    shift = torch.from_numpy(step.weights) @ differences
    center = mean + shift.to(mean).view_as(mean)
    pull = torch.from_numpy(step.pull).to(mean)[:, None, None]
    return thetas.lerp(center, pull), center, step.pull


def train_heads(
    data: ImageData, folder: Path, settings: TrainingSettings, keep_models: bool, progress: Any
) -> tuple[TrainingSettings, list[pd.DataFrame]]:
    """Train linear heads on the features of a backbone at several radii."""
    backbone = load_backbone(settings.backbone or "")
    claim(folder, settings, data)
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
        pairs = zip(heads.thetas, self.parts[part], strict=True)
        return [objective([pair], theta[None], 0.0)[0] for theta, pair in pairs]

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
        losses, distances = self._losses(heads, 0), networks.distances()
        run = {"epsilon": epsilon, "seed": self.seed, "seconds": seconds, "ridge": self.ends.ridge}

        def row(d: int, theta: torch.Tensor) -> dict[str, Any]:
            validation, test = (
                count(y, (x @ theta[:-1] + theta[-1]).argmax(1))
                for x, y in (part[d] for part in self.parts[1:])
            )
            return run | {
                "task": self.data.domains[d],
                "images": [len(part[d]) for part in self.rows],
                "validation": validation,
                "test": test,
                "distance": float(distances[d]),
                "pull": float(heads.pull[d]),
                "losses": [losses[d]],
            }

        return [row(d, theta) for d, theta in enumerate(heads.thetas)]


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
            run = {"epsilon": epsilon, "seed": seed}
            progress({**run, **numbered(settings, run), "epoch": 1, "epochs": 1})

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
