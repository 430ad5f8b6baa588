"""The smallest ball that encloses given points."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.coupling._checks import check_vectors
from crosslearning.coupling._newton import CenterFunction, minimise
from crosslearning.tether import Array, Indices, Tether

_NEAR = 1e-4  # relative accuracy of the radius at which the active-set method takes over
_ROUNDING = 1e-13


def smallest_enclosing_ball(points: ArrayLike) -> tuple[Array, float]:
    """Return the centre and radius of the smallest ball that contains all points.

    The points are rows of shape (n_points, n_dimensions). For ε of at least the radius, tasks at
    these points are independent.

    Examples
    --------
    >>> smallest_enclosing_ball([[0.0, 0.0], [6.0, 0.0], [3.0, 1.0]])
    (array([3., 0.]), 3.0)
    """
    # Projections find the points that support the ball; an active-set method makes it exact.
    array = check_vectors(points, "points", "point").astype(np.float64)
    base = array.mean(axis=0)
    array -= base
    scale = float(np.linalg.norm(array, axis=1).max()) or 1.0
    array /= scale
    if array.shape[1] == 1:
        center = 0.5 * (array.min(axis=0) + array.max(axis=0))
        return base + scale * center, scale * float(np.abs(array - center).max())
    wide = array.shape[1] > array.shape[0]
    if wide:
        basis, triangle = np.linalg.qr(array.T)
        array = triangle.T
    center = _supported_center(array, _near_optimal_weights(array))
    radius = float(np.linalg.norm(array - center, axis=1).max())
    return base + scale * (basis @ center if wide else center), scale * radius


def _near_optimal_weights(points: Array) -> Array:
    """Return convex weights of a nearly optimal centre, most of them 0."""
    # ψ(ε) = min_c ‖(d - ε)₊‖ is convex: Newton's method for ψ = 0 approaches ε from below.
    center, radius, growth = np.zeros(points.shape[1]), 0.0, np.inf
    weights = np.full(len(points), 1.0 / len(points))
    while growth > _NEAR * radius:
        function = CenterFunction(points, Tether(radius), weight=0.0)
        point, _ = minimise(function, center, 1e-10, 100)
        excess = np.maximum(point.distance - radius, 0.0)
        if not excess.any():
            break
        center, weights = point.center, point.pull / point.pull.sum()
        growth = float(excess @ excess / excess.sum())
        radius += growth
    return weights


def _supported_center(points: Array, weights: Array) -> Array:
    """Active-set method: the centre is a convex combination of the points it is farthest from.

    Starts from as many points as determine a ball, drops those with no weight, and adds the
    farthest point outside until there is none; each round increases the radius of the support.
    """
    support = np.argsort(-weights)[: min(points.shape[1] + 1, np.count_nonzero(weights))]
    weights = weights[support] / weights[support].sum()
    for _ in range(10 * len(points)):
        support, weights, center = _balanced(points, support, weights)
        distance = np.linalg.norm(points - center, axis=1)
        farthest = int(distance.argmax())
        if distance[farthest] <= distance[support].max() * (1.0 + _ROUNDING):
            break
        support, weights = np.append(support, farthest), np.append(weights, 0.0)
    return center


def _balanced(points: Array, support: Indices, weights: Array) -> tuple[Indices, Array, Array]:
    """Shrink the support until its circumcentre is a convex combination of it."""
    while True:
        change, center = _towards_circumcenter(points[support], weights)
        limits = np.full(len(change), np.inf)
        np.divide(weights, -change, out=limits, where=change < 0)
        first = int(limits.argmin())
        if center is not None and limits[first] >= 1.0:
            return support, weights + change, center
        weights = np.maximum(weights + limits[first] * change, 0.0)
        support, weights = np.delete(support, first), np.delete(weights, first)


def _towards_circumcenter(points: Array, weights: Array) -> tuple[Array, Array | None]:
    """Return the change of the weights towards the circumcentre, and the latter if it exists."""
    # It solves 2 D Dᵀ λ = diag(D Dᵀ) with the differences D from the first point.
    D = points[1:] - points[0]
    square = np.einsum("ij,ij->i", D, D)
    U, singular, Vt = np.linalg.svd(D, full_matrices=len(D) > D.shape[1])
    rank = int(np.sum(singular > _ROUNDING * max(D.shape) * singular.max(initial=0.0)))
    coordinates = U.T @ square
    if np.linalg.norm(coordinates[rank:]) > 1e-9 * np.linalg.norm(square):
        change = U[:, rank:] @ coordinates[rank:]
        return np.append(-change.sum(), change), None
    half = coordinates[:rank] / (2.0 * singular[:rank])
    target = U[:, :rank] @ (half / singular[:rank])
    change = target - weights[1:]
    return np.append(-change.sum(), change), points[0] + half @ Vt[:rank]
