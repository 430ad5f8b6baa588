"""Hard bounds on groups within groups: how far a unit may be from its parent.

With offsets δ_u of a unit from its parent, and lengths in standard deviations of its level,

    minimise    Σ_i -log likelihood_i(θ_i) + ½ Σ_u ‖δ_u‖² + ½ Σ_j precision_j β_j²
    subject to  ‖δ_u‖ ≤ ε of the level of u

A multiplier μ_u of a bound makes the unit's prior 1 + μ_u times as precise, so that each step is
the posterior of a hierarchy. The multipliers follow from the secular equation
1 / ‖δ_u(μ_u)‖ = 1 / ε, which is nearly linear (Moré and Sorensen, 1983).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from crosslearning.convex.evidence.hierarchy import NestedMarginal
from crosslearning.tether import Array

_LEAST_DAMPING = 0.1


@dataclass(frozen=True, eq=False, kw_only=True)
class BoundedLevels:
    """Means of the units of each level, tasks first, their distances to the parents, and the proof.

    `forces` are those with which units pull at their parents, prior and bound together.
    """

    means: list[Array]
    center: Array
    distances: list[Array]
    forces: list[Array]
    kkt_residual: float


def bounded_levels(
    marginal: NestedMarginal,
    epsilons: Array,
    products: Callable[[Array], Array] | None = None,
    *,
    tol: float,
    max_iter: int,
) -> BoundedLevels:
    """Solve within bounds of each level, tasks first.

    `products` are those of the tasks at some parameters, if they depend on them; that is Newton's
    method, from the posterior of `marginal`.
    """
    levels = range(len(epsilons))
    variances = np.where(np.asarray(epsilons)[:, None] > 0, marginal.variances, 0.0)
    strengths = [np.ones(n) for n in marginal.hierarchy.sizes]  # 1 + multipliers
    residual, thetas, damping = np.inf, marginal.means[0][:, :, 0], 1.0
    for _ in range(max_iter):
        if products is not None:
            marginal = replace(marginal, products=products(thetas))
        shares = tuple(1.0 / strength for strength in strengths)
        marginal = replace(marginal, variances=variances, shares=shares)
        before, thetas = thetas, marginal.means[0][:, :, 0]
        distances = [_distances(marginal, level) for level in levels]
        moved = float(np.abs(thetas - before).max()) / (1.0 + float(np.abs(thetas).max()))
        slack = [_slack(d, e, s) for d, e, s in zip(distances, epsilons, strengths, strict=True)]
        last, residual = residual, max(*slack, moved if products is not None else 0.0)
        if residual <= tol:
            break
        # Units of different levels react to each other, which single steps do not foresee.
        damping = max(0.7 * damping, _LEAST_DAMPING) if residual > last else min(1.1 * damping, 1.0)
        for level in levels:
            further = _strengthened(
                marginal, level, distances[level], float(epsilons[level]), strengths[level]
            )
            strengths[level] = strengths[level] ** (1.0 - damping) * further**damping
    return BoundedLevels(
        means=[means[:, :, 0] for means in marginal.means[:-1]],
        center=marginal.means[-1][0, :, 0],
        distances=distances,
        forces=[d * s for d, s in zip(distances, strengths, strict=True)],
        kkt_residual=residual,
    )


def _scaled_residuals(marginal: NestedMarginal, level: int) -> Array:
    """Offsets in standard deviations, times 1 + μ."""
    return np.asarray(np.sqrt(marginal.variances[level]) * marginal.residuals[level][:, :, 0])


def _distances(marginal: NestedMarginal, level: int) -> Array:
    assert marginal.shares is not None
    lengths = np.linalg.norm(_scaled_residuals(marginal, level), axis=1)
    return np.asarray(marginal.shares[level] * lengths)


def _slack(distances: Array, epsilon: float, strengths: Array) -> float:
    """Relative violation of the bounds, and of complementarity where multipliers are positive."""
    if not 0.0 < epsilon < np.inf:
        return 0.0
    beyond = np.maximum(distances - epsilon, 0.0)
    idle = np.where(strengths > 1.0, np.maximum(epsilon - distances, 0.0), 0.0)
    return float(np.max(beyond + np.minimum(idle, strengths - 1.0))) / epsilon


def _strengthened(
    marginal: NestedMarginal, level: int, distances: Array, epsilon: float, strengths: Array
) -> Array:
    """One step of Newton's method for 1 / distance = 1 / ε, each unit given its parent."""
    if not 0.0 < epsilon < np.inf:
        return strengths
    p = len(marginal.precision)
    root = np.sqrt(marginal.variances[level])
    e = _scaled_residuals(marginal, level) / strengths[:, None]
    # Posterior covariance in standard deviations: c I - c L W L c, with c = 1 / (1 + μ).
    W = marginal.information[level][:, :p, :p]
    pulled = np.matmul(W, (root * e)[:, :, None])[:, :, 0] * root / strengths[:, None]
    bend = np.sum(e * (e - pulled), axis=1) / strengths
    step = np.divide(distances**2, bend, out=np.zeros_like(bend), where=bend > 0)
    return np.asarray(np.maximum(strengths + step * (distances - epsilon) / epsilon, 1.0))
