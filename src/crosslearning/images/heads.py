"""Linear heads on frozen features: one per domain, none farther than ε from their centre.

All heads, logistic regressions with a ridge penalty, are fitted jointly by spectral projected
gradient: Barzilai-Borwein steps, the exact joint projection, and a nonmonotone line search.
"""

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from crosslearning.coupling import project, smallest_enclosing_ball
from crosslearning.datasets import ImageData
from crosslearning.exceptions import ConvergenceWarning
from crosslearning.images.networks import Normalised, measure
from crosslearning.images.settings import TrainingSettings
from crosslearning.images.splits import divide
from crosslearning.nn import TaskModels
from crosslearning.nn._data import Pair

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
    minimum. A tolerance for g alone would stop weakly penalised heads near their start. Heads are
    float64, since float32 does not resolve small radii; products have the dtype of the features.
    """
    thetas, _, pull = _project(start.double(), epsilon, None)
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
    """Objective and gradient, computed in the dtype of the features."""
    dtype, thetas = thetas.dtype, thetas.to(data[0][0].dtype)
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
    return value, gradient.to(dtype)


def _project(
    thetas: torch.Tensor, epsilon: float, start: NDArray[np.float64] | None
) -> tuple[torch.Tensor, torch.Tensor, NDArray[np.float64]]:
    """Project heads onto those within the radius of a free centre."""
    step = project(thetas.flatten(1).numpy(), epsilon, start=start)
    heads, center = torch.from_numpy(step.thetas), torch.from_numpy(step.center)
    return heads.view_as(thetas), center.view_as(thetas[0]), step.pull


class HeadTraining:
    """Heads of all domains at several radii for one seed, with the ridge best on validation."""

    def __init__(
        self, settings: TrainingSettings, data: ImageData, vectors: NDArray[np.float32], seed: int
    ) -> None:
        self.domains = data.domains
        inputs, labels = torch.from_numpy(vectors), torch.from_numpy(data.category_codes)
        self.parts = [
            {
                domain: Pair(inputs[rows], labels[rows])
                for domain, rows in zip(data.domains, part, strict=True)
            }
            for part in divide(settings, data, seed)
        ]
        training = torch.cat([pair.x for pair in self.parts[0].values()])
        self.mean, std = training.mean(0), training.std(0)
        self.std = torch.where(std > 0, std, 1.0)
        self.train, self.validation = (
            [((pair.x - self.mean) / self.std, pair.y) for pair in part.values()]
            for part in self.parts[:2]
        )
        shape = len(data.domains), vectors.shape[1] + 1, len(data.categories)
        self.ridge, self.start, self.separate = self._ends(torch.zeros(shape))
        self.radius = smallest_enclosing_ball(self.separate.flatten(1).numpy())[1]

    def _ends(self, zeros: torch.Tensor) -> tuple[float, torch.Tensor, torch.Tensor]:
        """Choose one ridge for all radii on validation images; return pooled and separate heads."""
        candidates, losses = [], []  # with one ridge, heads change with the radius alone
        for ridge in RIDGES:
            pooled = fit_heads(self.train, zeros, 0.0, ridge).thetas
            separate = fit_heads(self.train, pooled, math.inf, ridge).thetas
            candidates.append((ridge, pooled, separate))
            losses.append(sum(objective(self.validation, h, 0.0)[0] for h in (pooled, separate)))
        return candidates[np.argmin(losses)]

    def default_epsilons(self) -> tuple[float, ...]:
        """Return both ends, and shares of the radius at which the heads are separate."""
        return (0.0, *(float(f"{share * self.radius:.2g}") for share in _SHARES), math.inf)

    def fit(self, epsilon: float) -> tuple[TaskModels, list[dict[str, Any]]]:
        """Fit at a radius, starting from the last one; return networks and a row per domain."""
        if epsilon >= self.radius:  # separate heads satisfy the bound
            self.start = self.separate
        heads = fit_heads(self.train, self.start, epsilon, self.ridge)
        self.start = heads.thetas
        linear = nn.Linear(len(self.mean), heads.center.shape[1])
        module = Normalised(linear, self.mean, self.std)
        networks = TaskModels(module, self.domains, epsilon=epsilon, center_weight=0.0)
        with torch.no_grad():
            modules: Any = [*dict(networks.items()).values(), networks.center]
            for one, theta in zip(modules, [*heads.thetas, heads.center], strict=True):
                one.inner.weight.copy_(theta[:-1].T)
                one.inner.bias.copy_(theta[-1])
        measured = measure(networks, self.parts)
        columns = self.domains, networks.distances().tolist(), heads.pull.tolist(), measured
        return networks, [
            {"task": domain, "distance": distance, "pull": pull, **more}
            for domain, distance, pull, more in zip(*columns, strict=True)
        ]
