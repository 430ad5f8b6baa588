"""Solve for the centre, given or free, of points in the unit ball."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from crosslearning.coupling._newton import CenterFunction, CenterPoint, minimise
from crosslearning.tether import Array, Tether

SAFETY = 1e-2  # the solver aims below the requested tolerance
_ROUNDING = 1e-14  # pull of a task exactly on its bound, by rounding
_LIGHT = 1e-2  # a lighter centre is approached through heavier ones
_NO_PULL = 1e-12  # if all pulls are below this, a free centre is not unique
_FIRST_WEIGHT = 1e-2
_LAST_WEIGHT = 1e-8
_MAX_ROUNDS = 60


def solve(
    function: CenterFunction, start: Array | None, tol: float, max_iter: int
) -> tuple[CenterPoint, int]:
    """Minimise over the centre, from the origin or from the pulls of a previous step."""
    points = function.points
    at_origin = function.tether._law(np.sqrt(np.vecdot(points, points))).pull
    if at_origin.max() <= _ROUNDING:
        origin = function.at(np.zeros(points.shape[1]))
        return origin._replace(pull=np.zeros(len(points))), 0
    goal = SAFETY * tol
    center, n_iter = _first_center(function, at_origin if start is None else start), 0
    for weight in _ever_lighter(function.weight):
        heavier = function if weight == function.weight else replace(function, weight=weight)
        point, n_steps = minimise(heavier, center, goal, max(1, max_iter - n_iter))
        center, n_iter = point.center, n_iter + n_steps
    if function.weight == 0 and function.tether.is_ball and point.pull.max() < _NO_PULL:
        nearest = nearest_to_mean(function, goal, max(1, max_iter - n_iter))
        if nearest is not None:
            return nearest[0], n_iter + nearest[1]
    return point, n_iter


def _ever_lighter(weight: float) -> list[float]:
    """Weights that decrease to a small one, with which alone Newton steps would zigzag."""
    if not 0 < weight < _LIGHT:
        return [weight]
    return [float(w) for w in np.geomspace(1.0, weight, 1 + int(np.ceil(-np.log10(weight))))]


def _first_center(function: CenterFunction, pull: Array) -> Array:
    """Return the weighted mean for given pulls."""
    total = function.weight + float(pull.sum())
    return pull @ function.points / total if total > 0 else np.zeros(function.points.shape[1])


def nearest_to_mean(
    function: CenterFunction, tol: float, max_iter: int
) -> tuple[CenterPoint, int] | None:
    """Project the mean (the origin) onto the intersection of the balls; None if it is empty."""
    # Method of multipliers: each round minimises a function of the centre with a small weight on
    # the mean and radii shortened by the current forces.
    radii = np.broadcast_to(np.asarray(function.tether.epsilon), len(function.points))
    center = np.zeros(function.points.shape[1])
    shift = np.zeros(len(radii))  # weight times the multiplier of ‖z_i - c‖ ≤ ε_i
    weight, gap, total_iter = _FIRST_WEIGHT, np.inf, 0
    for _ in range(_MAX_ROUNDS):
        shifted = replace(function, tether=Tether(radii - shift), weight=weight)
        point, n_iter = minimise(shifted, center, tol, max_iter)
        total_iter += n_iter
        center, distance = point.center, point.distance
        new_shift = np.maximum(distance - radii + shift, 0.0)
        previous, gap = gap, float(np.abs(new_shift - shift).max())
        if gap <= tol:
            break
        # Diverging forces or slow progress: a smaller weight converges faster.
        factor = 0.1 if gap > 0.1 * previous or np.any(new_shift > 0.5 * radii) else 1.0
        if weight * factor < _LAST_WEIGHT:
            break
        weight, shift = weight * factor, np.minimum(new_shift * factor, 0.5 * radii)
    point = function.at(center)
    if np.any(point.distance - radii > tol):
        return None
    return point._replace(pull=np.zeros_like(point.pull)), total_iter


def nearest_center(points: Array, epsilon: float | Array, anchor: Array, fallback: Array) -> Array:
    """Return the point nearest an anchor that is within the radius of every task.

    The tasks are the rows of `points`; `fallback` is returned if there is no such point.
    """
    if len(anchor) == 1:  # an interval
        radii = np.asarray(epsilon)[..., np.newaxis]
        low, high = (points - radii).max(axis=0), (points + radii).min(axis=0)
        return np.clip(anchor, low, high) if low <= high else fallback
    differences = points - anchor
    scale = float(np.linalg.norm(differences, axis=1).max()) or 1.0
    function = CenterFunction(differences / scale, Tether(epsilon).scaled(length=scale), 0.0)
    if not function.at(np.zeros(len(anchor))).pull.any():
        return anchor
    nearest = nearest_to_mean(function, 1e-12, 100)
    return fallback if nearest is None else anchor + scale * nearest[0].center
