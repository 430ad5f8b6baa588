"""Linear heads on frozen features: one per domain, none farther than ε from their centre.

A head is a multinomial logistic regression with a ridge penalty. All heads are fitted jointly by
spectral projected gradient: Barzilai-Borwein steps, the exact joint projection, and a nonmonotone
line search; each radius starts from the solution of the previous one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from crosslearning.coupling import prox_gram
from crosslearning.exceptions import ConvergenceWarning
from crosslearning.tether import Tether

Domains = Sequence[tuple[torch.Tensor, torch.Tensor]]

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
