"""The coupling as a function of the centre, and its minimum, given or free, by Newton's method."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from crosslearning.coupling._certificate import BLOCK, blocks
from crosslearning.tether import Array, Tether

_EPS = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)
_DENSE = 512  # up to this dimension a dense factorisation beats conjugate gradients
_CHEAP = 64  # up to this dimension one more step costs next to nothing
_DIAMETER = 2.0  # all points are within 1 of the origin
_DECREASE = 1e-4  # Armijo's constant
_SMALLEST_STEP = 1e-6  # shorter ones occur only if rounding hides the descent
SAFETY = 1e-2  # the solver aims below the requested tolerance
_ROUNDING = 1e-14  # pull of a task exactly on its bound, by rounding
_LIGHT = 1e-2  # a lighter centre is approached through heavier ones
_NO_PULL = 1e-12  # if all pulls are below this, a free centre is not unique
_FIRST_WEIGHT, _LAST_WEIGHT, _MAX_ROUNDS = 1e-2, 1e-8, 60  # of the method of multipliers


class CenterPoint(NamedTuple):
    """The function at one centre: value, gradient, and distance, pull and slope of each task."""

    center: Array
    distance: Array
    pull: Array
    slope: Array
    total_pull: float
    value: float
    value_error: float
    gradient: Array
    gradient_norm: float
    gradient_error: float


Minimum = tuple[CenterPoint, int]  # with the number of iterations


@dataclass(frozen=True, eq=False)
class CenterFunction:
    r"""Cost of a centre, minimised over the tasks.

    .. math::

        \varphi(c) = \tfrac12 w \|c\|^2 + \sum_i e_i(\|z_i - c\|)

    with :math:`e_i` the envelope of the tether; the origin is the given centre, or the mean of the
    tasks if the centre is free (:math:`w = 0`).
    """

    points: Array
    tether: Tether
    weight: float

    @property
    def total_weight(self) -> float:
        """Weight of the centre plus one per task, a bound on the curvature."""
        return self.weight + len(self.points)

    def at(self, center: Array) -> CenterPoint:
        """Evaluate at a centre."""
        square = np.empty(len(self.points))
        for rows in self._blocks:
            difference = self.points[rows] - center
            np.vecdot(difference, difference, out=square[rows])
        d = np.sqrt(square)
        pull, slope, envelope = self.tether._law(d)
        total = self.weight + float(np.add.reduce(pull))
        anchor = self.weight * float(center @ center)
        gradient = total * center - pull @ self.points
        value = 0.5 * anchor + float(np.add.reduce(envelope))
        value_error = 4.0 * _EPS * (anchor + float(pull @ square))
        norm = math.sqrt(gradient @ gradient)
        error = _EPS * float(d @ np.sign(pull))  # that of a pull (d - ε) / d near 0 is absolute
        return CenterPoint(center, d, pull, slope, total, value, value_error, gradient, norm, error)

    def hessian(self, at: CenterPoint) -> Array:
        """(w + Σ pull_i) I + Σ (slope_i - pull_i) v_i v_iᵀ, v_i the unit vector from z_i to c."""
        ratio = self._radial_excess(at)[:, None]
        result = np.zeros((len(at.center), len(at.center)))
        for rows in self._blocks:
            difference = self.points[rows] - at.center
            result += difference.T @ (ratio[rows] * difference)
        # With a free centre and hardly any pull the Hessian is numerically singular.
        result.ravel()[:: len(result) + 1] += at.total_pull + _EPS * self.total_weight
        return result

    def hessian_product(self, at: CenterPoint, x: Array) -> Array:
        """Hessian times a vector, without forming a matrix."""
        along = self._radial_excess(at) * (at.center @ x - self.points @ x)
        return np.asarray(at.total_pull * x + (along.sum() * at.center - along @ self.points))

    @staticmethod
    def _radial_excess(at: CenterPoint) -> Array:
        return np.asarray((at.slope - at.pull) / np.maximum(at.distance**2, _TINY))

    @cached_property
    def _blocks(self) -> list[slice]:
        """Divide the rows into blocks, to keep temporaries small."""
        n, m = self.points.shape
        return list(blocks(n, max(1, BLOCK // m)))


def minimise(function: CenterFunction, start: Array, tol: float, max_iter: int) -> Minimum:
    """Minimise by Newton steps with backtracking, to `tol` or until rounding stops progress."""
    point = function.at(start)
    for n_iter in range(max_iter):
        goal = tol * point.total_pull
        if point.gradient_norm <= point.gradient_error:
            return point, n_iter
        if point.gradient_norm <= goal:
            return _polished(function, point), n_iter
        further = _line_search(function, point, _direction(function, point))
        if further is None:
            return point, n_iter
        point = further
    return point, max_iter


def _polished(function: CenterFunction, point: CenterPoint) -> CenterPoint:
    """Take one more step if it is cheap: it squares the remaining error."""
    if len(point.center) > _CHEAP:
        return point
    further = function.at(point.center + _direction(function, point))
    return further if further.gradient_norm < point.gradient_norm else point


def _direction(function: CenterFunction, point: CenterPoint) -> Array:
    if len(point.center) <= _DENSE:
        solved = np.linalg.solve(function.hessian(point), -point.gradient)
        direction = np.asarray(solved, dtype=np.float64)
    else:
        direction = _conjugate_gradients(function, point)
    # Tension along a line has no curvature; but the best centre is among the points.
    length = math.sqrt(direction @ direction)
    return direction if length <= _DIAMETER else direction * (_DIAMETER / length)


def _conjugate_gradients(function: CenterFunction, point: CenterPoint) -> Array:
    """Return an inexact Newton direction, accurate enough for superlinear convergence."""
    x, residual, p = np.zeros_like(point.center), -point.gradient, -point.gradient
    square = residual @ residual
    goal = square * min(0.1, (point.gradient_norm / function.total_weight) ** 0.5) ** 2
    for _ in range(len(x)):
        product = function.hessian_product(point, p)
        curvature = p @ product
        if curvature <= 0:  # rounding: the Hessian is positive semidefinite
            break
        step = square / curvature
        x += step * p
        residual -= step * product
        previous, square = square, residual @ residual
        if square <= goal:
            break
        p = residual + (square / previous) * p
    return x if x.any() else -point.gradient * (_DIAMETER / point.gradient_norm)


def _line_search(function: CenterFunction, at: CenterPoint, direction: Array) -> CenterPoint | None:
    """Return the first of the halved steps that decreases the value, or None."""
    slope = float(at.gradient @ direction)
    if not slope < 0:
        return None
    significant, step = -slope > at.value_error, 1.0
    while step > _SMALLEST_STEP:
        further = function.at(at.center + step * direction)
        if significant and further.value <= at.value + _DECREASE * step * slope:
            return further
        # Close to the minimum values are equal up to rounding; compare gradients.
        level = further.value <= at.value + at.value_error
        if level and further.gradient_norm < 0.5 * at.gradient_norm:
            return further
        step *= 0.5
    return None


def solve(function: CenterFunction, start: Array | None, tol: float, max_iter: int) -> Minimum:
    """Minimise over the centre, from the origin or from the pulls of a previous step."""
    points = function.points
    at_origin = function.tether._law(np.sqrt(np.vecdot(points, points))).pull
    if at_origin.max() <= _ROUNDING:
        origin = function.at(np.zeros(points.shape[1]))
        return origin._replace(pull=np.zeros(len(points))), 0
    goal = SAFETY * tol
    pull = at_origin if start is None else start
    total = function.weight + float(pull.sum())
    center = pull @ points / total if total > 0 else np.zeros(points.shape[1])
    n_iter = 0
    for heavier in _ever_lighter(function):
        point, n_steps = minimise(heavier, center, goal, max(1, max_iter - n_iter))
        center, n_iter = point.center, n_iter + n_steps
    if function.weight == 0 and function.tether.is_ball and point.pull.max() < _NO_PULL:
        nearest = nearest_to_mean(function, goal, max(1, max_iter - n_iter))
        if nearest is not None:
            return nearest[0], n_iter + nearest[1]
    return point, n_iter


def _ever_lighter(function: CenterFunction) -> Iterator[CenterFunction]:
    """Decrease the weight of the centre to a small one, at which Newton steps would zigzag."""
    if 0 < function.weight < _LIGHT:
        n_steps = int(np.ceil(-np.log10(function.weight)))
        for weight in np.geomspace(1.0, function.weight, 1 + n_steps)[:-1]:
            yield replace(function, weight=float(weight))
    yield function


def nearest_to_mean(function: CenterFunction, tol: float, max_iter: int) -> Minimum | None:
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
        center, total_iter = point.center, total_iter + n_iter
        new_shift = np.maximum(point.distance - radii + shift, 0.0)
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
    """Return the point nearest an anchor that is within the radius of every row, or `fallback`."""
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
