"""Fisher scoring for variances: parameters of at least 0 that may be 0 exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from scipy.optimize import nnls

if TYPE_CHECKING:
    from collections.abc import Callable

    from crosslearning.convex._arrays import Array

_LEAST, _MOST = 1e-4, 1e8  # damping, relative to the unit's curvature
_FLAT = 1e-10  # least curvature that a step trusts, relative to that of the unit
_NEAR = 0.3  # gain, in units of log evidence, from which the observed curvature is used


class Point(Protocol):
    """Value of a function of some variances, with its slope and the expected information."""

    @property
    def variances(self) -> Array:
        """Where it was evaluated."""

    @property
    def value(self) -> float:
        """The log evidence."""

    @property
    def slope(self) -> Array:
        """Its gradient."""

    @property
    def unit(self) -> Array:
        """Inverse of the distance by which each variance has to move to matter."""

    @property
    def expected(self) -> Array:
        """Expected curvature."""

    @property
    def observed(self) -> Array:
        """Observed curvature, which need not be positive."""


P = TypeVar("P", bound=Point)


class Maximum(NamedTuple, Generic[P]):
    """The best point, the number of evaluations, and whether the slope says that it is one."""

    point: P
    n_iter: int
    converged: bool


def maximise(
    evaluate: Callable[[Array], P], start: P, floor: Array, *, tol: float, max_iter: int
) -> Maximum[P]:
    """Maximise by damped Newton steps, each the exact solution of a bounded quadratic problem.

    Far from the maximum the curvature is the expected one (Fisher scoring: with balanced tasks
    one step lands at the maximum), near it the observed one, which converges quadratically. A
    step that ends at a bound ends there exactly.
    """
    best, damping = start, 0.0
    for n_iter in range(1, max_iter + 1):
        step, gain = _step(best, floor, damping)
        if gain <= tol:
            return Maximum(best, n_iter, converged=True)
        trial = evaluate(np.maximum(best.variances + step, floor))
        better = trial.value - best.value
        if better > 0.0:
            best, damping = trial, (0.1 * damping if damping > _LEAST else 0.0)
        elif damping > _MOST:
            # Value and slope differ by rounding errors.
            return Maximum(best, n_iter, converged=gain <= 1e4 * tol)
        else:
            damping = max(10.0 * damping, _LEAST)
    return Maximum(best, max_iter, converged=False)


def promised(point: Point, floor: Array) -> float:
    """Return the gain that one step of Fisher scoring promises."""
    return _bounded(point, point.expected, floor, 0.0)[1]


def _step(point: Point, floor: Array, damping: float) -> tuple[Array, float]:
    """Return the step, and the gain that it promises."""
    step, gain = _bounded(point, point.expected, floor, damping)
    if gain < _NEAR:
        step, gain = _bounded(point, point.observed, floor, damping)
    return step, gain


def _bounded(point: Point, curvature: Array, floor: Array, damping: float) -> tuple[Array, float]:
    """Maximise slope·d - ½ dᵀ(curvature)d where variances + d are at least the floor."""
    unit = point.unit
    values, vectors = np.linalg.eigh(curvature / np.outer(unit, unit))
    roots = np.sqrt(np.maximum(np.abs(values), _FLAT) + damping)
    factor, slope = (vectors * roots).T, point.slope / unit
    room = (point.variances - floor) * unit
    moved = nnls(factor, (vectors / roots).T @ slope + factor @ room)[0]
    scaled = moved - room
    gain = float(slope @ scaled - 0.5 * np.sum((factor @ scaled) ** 2))
    return np.where(moved > 0.0, scaled / unit, floor - point.variances), gain
