"""The coupling as a function of the centre, and Newton's method for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from crosslearning.tether import Array, Tether

_EPS = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)
_BLOCK = 1 << 18  # elements of a temporary block; stays within the second-level cache

_ALL = [slice(None)]

_DENSE = 512  # up to this dimension a dense factorisation beats conjugate gradients
_CHEAP = 64  # up to this dimension one more step costs next to nothing
_DIAMETER = 2.0  # all points are within 1 of the origin
_DECREASE = 1e-4  # Armijo's constant
_SMALLEST_STEP = 1e-6  # shorter ones occur only if rounding hides the descent


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
        square = self._squares(center)
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
        first, *others = self._blocks()
        difference = self.points[first] - at.center
        result: Array = difference.T @ (ratio[first] * difference)
        for rows in others:
            difference = self.points[rows] - at.center
            result += difference.T @ (ratio[rows] * difference)
        # With a free centre and hardly any pull the Hessian is numerically singular.
        result.ravel()[:: len(result) + 1] += at.total_pull + _EPS * self.total_weight
        return result

    def hessian_product(self, at: CenterPoint, x: Array) -> Array:
        """Hessian times a vector, without forming a matrix."""
        along = self._radial_excess(at) * (at.center @ x - self.points @ x)
        product: Array = at.total_pull * x
        product += along.sum() * at.center - along @ self.points
        return product

    @staticmethod
    def _radial_excess(at: CenterPoint) -> Array:
        excess: Array = (at.slope - at.pull) / np.maximum(at.distance**2, _TINY)
        return excess

    def _squares(self, center: Array) -> Array:
        if self.points.size <= _BLOCK:
            difference = self.points - center
            return np.asarray(np.vecdot(difference, difference))
        square = np.empty(len(self.points))
        for rows in self._blocks():
            difference = self.points[rows] - center
            np.vecdot(difference, difference, out=square[rows])
        return square

    def _blocks(self) -> list[slice]:
        """Divide the rows into blocks, to keep temporaries small."""
        n, m = self.points.shape
        if n * m <= _BLOCK:
            return _ALL
        step = max(1, _BLOCK // m)
        return [slice(i, i + step) for i in range(0, n, step)]


def minimise(
    function: CenterFunction, start: Array, tol: float, max_iter: int
) -> tuple[CenterPoint, int]:
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
    x = np.zeros_like(point.center)
    residual = -point.gradient
    p = residual.copy()
    square = residual @ residual
    forcing = min(0.1, (point.gradient_norm / function.total_weight) ** 0.5)
    goal = square * forcing**2
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


def _line_search(
    function: CenterFunction, point: CenterPoint, direction: Array
) -> CenterPoint | None:
    """Return the first of the halved steps that decreases the value, or None."""
    slope = float(point.gradient @ direction)
    if not slope < 0:
        return None
    significant = -slope > point.value_error
    step = 1.0
    while step > _SMALLEST_STEP:
        further = function.at(point.center + step * direction)
        if significant and further.value <= point.value + _DECREASE * step * slope:
            return further
        # Close to the minimum values are equal up to rounding; compare gradients.
        level = further.value <= point.value + point.value_error
        if level and further.gradient_norm < 0.5 * point.gradient_norm:
            return further
        step *= 0.5
    return None
