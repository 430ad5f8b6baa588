"""Variances at the maximum of the evidence: by groups of parameters, and a full covariance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize, nnls

from crosslearning.convex.deadline import check_deadline
from crosslearning.convex.evidence._point import EvidencePoint, VariancePoint, grouped
from crosslearning.tether import Array, Flags, Indices

_LEAST, _MOST = 1e-4, 1e8  # damping, relative to the unit's curvature
_FLAT = 1e-10  # least curvature that a step trusts, relative to that of the unit
_REMEMBERED, _LEAST_BEND = 4, 1e-3  # moves, and curvature along them relative to the expected one
_NEAR = 0.3  # gain, in units of log evidence, from which the observed curvature is used


def groups(structure: str, columns: Indices, blocks: Indices, *, intercept: bool) -> Indices:
    """Return the number of each parameter's group, given its column and each column's block.

    "diagonal" has one group per column, else there is one for the coefficients of each block and
    one for the intercepts, which are those of the last column.
    """
    if structure == "diagonal":
        return columns
    block = blocks[columns]
    level = (columns == columns.max()) & intercept & (columns.max() > 0)
    return np.unique(np.where(level, block.max() + 1, block), return_inverse=True)[1]


Point = TypeVar("Point", bound=EvidencePoint, covariant=True)


@dataclass(frozen=True, eq=False)
class Structured(Generic[Point]):
    """The log evidence as a function of some variances.

    `variances` are those of groups of parameters, level by level, then variances t of the centre;
    `group` is as in `EvidencePoint`. What is `fixed` may not move. `at` evaluates the model at the
    roots of all S, one after the other, and the t of each parameter.
    """

    variances: Array
    fixed: Flags
    group: Indices
    at: Callable[[Array, Array], Point]

    @cached_property
    def point(self) -> Point:
        each = self.variances[self.group]
        return self.at(np.sqrt(each[:-1]).ravel(), each[-1])

    @property
    def value(self) -> float:
        return self.point.value

    @cached_property
    def slope(self) -> Array:
        each = np.append(self.point.slope_of_variances, self.point.slope_of_ratio)
        slope = np.bincount(self.group.ravel(), each, len(self.variances))
        return np.where(self.fixed, 0.0, slope)

    @cached_property
    def unit(self) -> Array:
        """Inverse of the distance by which a variance has to move to matter."""
        curvature = self._fixed(0.5 * grouped(self.point.expected_parts[0], self.group))
        return np.sqrt(np.maximum(np.diagonal(curvature), np.finfo(np.float64).tiny))

    @cached_property
    def expected(self) -> Array:
        return self._fixed(self.point.expected(self.group) + self._between)

    @cached_property
    def observed(self) -> Array:
        """Observed curvature, which need not be positive."""
        return self._fixed(self.point.observed(self.group) - self._between)

    @cached_property
    def _between(self) -> Array:
        return self.point.between(self.group)

    def _fixed(self, curvature: Array) -> Array:
        fixed = self.fixed[:, None] | self.fixed
        return np.where(fixed, np.diag(self.fixed.astype(np.float64)), curvature)


def maximise(
    evaluate: Callable[[Array], Structured[Point]],
    start: Structured[Point],
    floor: Array,
    *,
    tol: float,
    max_iter: int,
) -> tuple[Structured[Point], int, bool]:
    """Maximise by damped Newton steps, each the exact solution of a bounded quadratic problem.

    Far from the maximum the curvature is the expected one (Fisher scoring: with balanced tasks
    one step lands at the maximum), near it the observed one, which converges quadratically. If
    that is not positive or leads down, since it leaves out how a mode moves, the expected one is
    corrected by how the slope changed along earlier steps. A step that ends at a bound ends there
    exactly. Returns the best point, the number of evaluations, and whether the slope says that it
    is a maximum.
    """
    best, damping, observing = start, 0.0, True
    moves: list[tuple[Array, Array]] = []
    for n_iter in range(1, max_iter + 1):
        check_deadline()
        curvature = best.expected if observing else _corrected(best.expected, moves)
        step, gain = _bounded(best, curvature, floor, damping)
        near = observing and gain < _NEAR
        if near:
            observing = near = bool(np.linalg.eigvalsh(best.observed)[0] > 0.0)
            curvature = best.observed if near else _corrected(best.expected, moves)
            step, gain = _bounded(best, curvature, floor, damping)
        if gain <= tol:
            return best, n_iter, True
        trial = evaluate(np.maximum(best.variances + step, floor))
        if trial.value > best.value:
            moved = trial.variances - best.variances, best.slope - trial.slope
            moves = [*moves[1 - _REMEMBERED :], moved]
            best, damping = trial, (0.1 * damping if damping > _LEAST else 0.0)
        elif near and damping == 0.0:
            observing = False
        elif damping > _MOST:
            # Value and slope differ by rounding errors.
            return best, n_iter, gain <= 1e4 * tol
        else:
            damping = max(10.0 * damping, _LEAST)
    return best, max_iter, False


def _corrected(curvature: Array, moves: list[tuple[Array, Array]]) -> Array:
    """Make a curvature agree with how much the slope fell along each move (BFGS)."""
    for step, fall in moves:
        expected, bend = curvature @ step, float(step @ fall)
        promise = float(step @ expected)
        if bend > _LEAST_BEND * promise > 0.0:
            along = np.outer(expected, expected) / promise
            curvature = curvature - along + np.outer(fall, fall) / bend
    return curvature


def promised(point: Structured[Point], floor: Array) -> float:
    """Return the gain that one step of Fisher scoring promises."""
    return _bounded(point, point.expected, floor, 0.0)[1]


def _bounded(
    point: Structured[Point], curvature: Array, floor: Array, damping: float
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


def full_covariance(
    at: Callable[[Array, Array], VariancePoint],
    variances: Array,
    ratio: Array,
    group: Indices,
    *,
    fixed_ratio: Flags,
    tol: float,
    max_iter: int,
) -> tuple[Array, Array, int, bool]:
    """Maximise evidence - κ/2 (log det K + tr K⁻¹), where S = D^½ K D^½.

    D are the variances of the diagonal structure, those of 0 stay 0; κ, the number of parameters
    plus 1, counts as that many tasks that agree with the diagonal. L-BFGS over the Cholesky factor
    of K and log t; `group` holds the number of each parameter's t. Returns a root of S, a vector
    where S is 0, all t, the number of evaluations, and whether the optimiser has converged.
    """
    free = np.flatnonzero(variances > 0)
    n = len(free)
    if not n:
        return np.sqrt(variances), ratio, 0, True
    rows, columns = np.tril_indices(n)
    on_diagonal = rows == columns
    deviations = np.sqrt(variances[free])
    strength = n + 1.0

    def unpacked(x: Array) -> tuple[Array, Array]:
        factor = np.zeros((n, n))
        entries = x[: len(rows)]
        factor[rows, columns] = np.where(on_diagonal, np.exp(entries), entries)
        root = np.zeros((len(variances), len(variances)))
        root[np.ix_(free, free)] = deviations[:, None] * factor
        return factor, root

    def negative(x: Array) -> tuple[float, Array]:
        check_deadline()
        factor, root = unpacked(x)
        t = np.exp(x[len(rows) :])
        point = at(root, t[group])
        inverse = solve_triangular(factor, np.eye(n), lower=True)
        prior = -strength * (np.log(np.diagonal(factor)).sum() + 0.5 * np.sum(inverse**2))
        pull = strength * (inverse.T @ inverse - np.eye(n)) @ inverse.T
        slopes = deviations[:, None] * (point.slope_of_covariance @ root)[np.ix_(free, free)]
        slope = (2.0 * slopes + pull)[rows, columns]
        slope = np.where(on_diagonal, slope * factor[rows, columns], slope)
        by_ratio = np.where(fixed_ratio, 0.0, np.bincount(group, point.slope_of_ratio, len(t)) * t)
        return -(point.value + prior), -np.append(slope, by_ratio)

    start = np.append(np.zeros(len(rows)), np.log(ratio))
    try:
        best = minimize(
            negative,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_iter, "ftol": 1e-12, "gtol": 1e3 * tol},
        )
    except np.linalg.LinAlgError:  # rows leave no noise, and S grows beyond rounding
        return np.sqrt(variances), ratio, 1, True
    ratio = np.exp(best.x[len(rows) :])
    return unpacked(best.x)[1], ratio, int(best.nfev), bool(best.success)
