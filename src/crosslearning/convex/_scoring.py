"""Fisher scoring for variances: parameters of at least 0 that may be 0 exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import nnls

if TYPE_CHECKING:
    from collections.abc import Callable

    from crosslearning.convex._arrays import Array
    from crosslearning.convex._structure import Structured

_LEAST, _MOST = 1e-4, 1e8  # damping, relative to the unit's curvature
_FLAT = 1e-10  # least curvature that a step trusts, relative to that of the unit
_NEAR = 0.3  # gain, in units of log evidence, from which the observed curvature is used


def maximise(
    evaluate: Callable[[Array], Structured],
    start: Structured,
    floor: Array,
    *,
    tol: float,
    max_iter: int,
) -> tuple[Structured, int, bool]:
    """Maximise by damped Newton steps, each the exact solution of a bounded quadratic problem.

    Far from the maximum the curvature is the expected one (Fisher scoring: with balanced tasks
    one step lands at the maximum), near it the observed one, which converges quadratically. A
    step that ends at a bound ends there exactly. Returns the best point, the number of
    evaluations, and whether the slope says that it is a maximum.
    """
    best, damping = start, 0.0
    for n_iter in range(1, max_iter + 1):
        step, gain = _bounded(best, best.expected, floor, damping)
        if gain < _NEAR:
            step, gain = _bounded(best, best.observed, floor, damping)
        if gain <= tol:
            return best, n_iter, True
        trial = evaluate(np.maximum(best.variances + step, floor))
        if trial.value > best.value:
            best, damping = trial, (0.1 * damping if damping > _LEAST else 0.0)
        elif damping > _MOST:
            # Value and slope differ by rounding errors.
            return best, n_iter, gain <= 1e4 * tol
        else:
            damping = max(10.0 * damping, _LEAST)
    return best, max_iter, False


def promised(point: Structured, floor: Array) -> float:
    """Return the gain that one step of Fisher scoring promises."""
    return _bounded(point, point.expected, floor, 0.0)[1]


def _bounded(
    point: Structured, curvature: Array, floor: Array, damping: float
) -> tuple[Array, float]:
    """Maximise slope·d - ½ dᵀ(curvature)d where variances + d are at least the floor: d, gain."""
    unit = point.unit
    values, vectors = np.linalg.eigh(curvature / np.outer(unit, unit))
    roots = np.sqrt(np.maximum(np.abs(values), _FLAT) + damping)
    factor, slope = (vectors * roots).T, point.slope / unit
    room = (point.variances - floor) * unit
    moved = nnls(factor, (vectors / roots).T @ slope + factor @ room)[0]
    scaled = moved - room
    gain = float(slope @ scaled - 0.5 * np.sum((factor @ scaled) ** 2))
    return np.where(moved > 0.0, scaled / unit, floor - point.variances), gain
