"""Solve for the centre, given or free, among points within 1 of the origin."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crosslearning.coupling._free_center import nearest_to_mean
from crosslearning.coupling._newton import minimise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crosslearning.coupling._center_function import CenterFunction, CenterPoint

__all__ = ["SAFETY", "solve"]

SAFETY = 1e-2  # the solver aims below the tolerance that it promises
_ROUNDING = 1e-14  # pulls that a task exactly on its bound may show
_LIGHT = 1e-2  # the least weight of a centre that is solved for at once
_NO_PULL = 1e-12  # all pulls below this: a free centre that nothing holds


def solve(
    function: CenterFunction, start: NDArray[np.float64] | None, tol: float, max_iter: int
) -> tuple[CenterPoint, int]:
    """Minimise the function of the centre from the origin, or from the pulls of a previous step.

    Parameters
    ----------
    function : CenterFunction
        Relative to the given centre, or to the mean of the tasks for a free one.
    start : array of shape (n_tasks,), optional
        Pulls to start from.
    tol, max_iter
        As in :func:`minimise`; the tolerance is tightened a little.

    Returns
    -------
    point : CenterPoint
        The minimiser; of several the one nearest the mean of the tasks.
    n_iter : int
        Number of Newton steps.
    """
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
    """Weights on the way to a light one, with which alone Newton steps zigzag between bounds."""
    if not 0 < weight < _LIGHT:
        return [weight]
    return [float(w) for w in np.geomspace(1.0, weight, 1 + int(np.ceil(-np.log10(weight))))]


def _first_center(function: CenterFunction, pull: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted mean under given pulls."""
    total = function.weight + float(pull.sum())
    return pull @ function.points / total if total > 0 else np.zeros(function.points.shape[1])
