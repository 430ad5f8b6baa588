"""Newton's method for the function of the centre."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crosslearning.coupling._center_function import CenterFunction, CenterPoint

__all__ = ["minimise"]

_DENSE = 512  # up to so many dimensions a dense factorisation beats conjugate gradients
_DIAMETER = 2.0  # all points are within 1 of the origin
_DECREASE = 1e-4  # Armijo's constant
_SMALLEST_STEP = 1e-6  # shorter ones only occur where rounding hides the descent


def minimise(
    function: CenterFunction, start: NDArray[np.float64], tol: float, max_iter: int
) -> tuple[CenterPoint, int]:
    """Minimise over the centre by Newton steps with backtracking.

    Stops when the centre is within `tol` of the weighted mean that its own pulls define, or when
    rounding allows no further progress.

    Parameters
    ----------
    function : CenterFunction
        What to minimise, with points no farther than 1 from the origin.
    start : array of shape (n_dimensions,)
        First centre.
    tol : float
        Largest ‖gradient‖ / (w + Σ pull), where rounding allows it.
    max_iter : int
        Largest number of steps.

    Returns
    -------
    point : CenterPoint
        The last point.
    n_iter : int
        Number of steps taken.
    """
    point = function.at(start)
    for n_iter in range(max_iter):
        goal = tol * point.total_pull
        if point.gradient_norm <= max(goal, point.gradient_error):
            return point, n_iter
        further = _line_search(function, point, _direction(function, point))
        if further is None:
            return point, n_iter
        point = further
    return point, max_iter


def _direction(function: CenterFunction, point: CenterPoint) -> NDArray[np.float64]:
    if len(point.center) <= _DENSE:
        solved = np.linalg.solve(function.hessian(point), -point.gradient)
        direction = np.asarray(solved, dtype=np.float64)
    else:
        direction = _conjugate_gradients(function, point)
    # Tension along a line has no curvature; but no centre is better than those among the points.
    return direction * min(1.0, _DIAMETER / math.sqrt(direction @ direction))


def _conjugate_gradients(function: CenterFunction, point: CenterPoint) -> NDArray[np.float64]:
    """Inexact Newton direction; the accuracy grows with that of the point: superlinear."""
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
    function: CenterFunction, point: CenterPoint, direction: NDArray[np.float64]
) -> CenterPoint | None:
    """First halved step that decreases the value, or None if rounding forbids any decrease."""
    slope = float(point.gradient @ direction)
    if not slope < 0:
        return None
    significant = -slope > point.value_error
    step = 1.0
    while step > _SMALLEST_STEP:
        further = function.at(point.center + step * direction)
        if significant and further.value <= point.value + _DECREASE * step * slope:
            return further
        # Close to the minimum all values are equal to rounding; gradients still tell.
        level = further.value <= point.value + point.value_error
        if level and further.gradient_norm < 0.5 * point.gradient_norm:
            return further
        step *= 0.5
    return None
