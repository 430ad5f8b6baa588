"""Tasks without a tether: each by itself, and where the data leave parameters open."""

from __future__ import annotations

import numpy as np

from crosslearning.convex.solver.losses import Loss
from crosslearning.tether import Array, Flags

_RANK = 1e-13  # eigenvalues of a Gram matrix below this share of the largest are rounding
_TOL = 1e-10  # largest component of a gradient, relative to its size at 0
_DECREASE = 1e-4  # Armijo's constant
_ROUNDING = 1e-13  # relative error of a value


def independent(loss: Loss, intercept: slice, max_iter: int) -> Array:
    """Minimise each task's loss by itself: Newton steps with one step length per task.

    Where the data leave parameters open, those with the least coefficients are taken, as ordinary
    least squares does. A separable classification has no minimum; its parameters grow until the
    gradient is negligible.
    """
    thetas = np.zeros(loss.shape)
    value, gradient = loss.value(thetas), loss.gradient(thetas)
    goal = _TOL * np.maximum(np.abs(gradient).max(axis=1), 1e-4 * loss.scale)
    for _ in range(max_iter):
        unfinished = np.abs(gradient).max(axis=1) > goal
        if not unfinished.any():
            break
        step = -_least_norm_solution(loss.hessian(thetas), gradient, intercept)
        step[~unfinished] = 0.0
        slope = np.einsum("np,np->n", gradient, step)
        length = np.ones(len(thetas))
        for _ in range(30):
            further = thetas + length[:, None] * step
            new = loss.value(further)
            too_high = new > value + _DECREASE * length * slope + _ROUNDING * np.abs(value)
            if not too_high.any():
                break
            length[too_high] *= 0.5
        thetas, value, gradient = further, new, loss.gradient(further)
    return thetas


def determined_part(H: Array, offsets: Array) -> Array:
    """Part of each offset that the data see: its projection onto the range of H_i."""
    values, vectors = np.linalg.eigh(H)
    significant = vectors * _significant(values)[:, None, :]
    coordinates = np.matmul(significant.transpose(0, 2, 1), offsets[:, :, None])
    return np.asarray(np.matmul(significant, coordinates)[:, :, 0])


def undetermined(H: Array) -> Flags:
    """Which of the H_i have directions that the data do not see."""
    values = np.asarray(np.linalg.eigvalsh(H), dtype=np.float64)
    return np.asarray(~_significant(values).all(axis=1))


def unseen_directions(loss: Loss) -> Array:
    """Orthonormal directions, as columns, that no task's data see; most often there are none."""
    together = loss.hessian(np.zeros(loss.shape)).sum(axis=0, keepdims=True)
    values, vectors = np.linalg.eigh(together)
    return np.asarray(vectors[0][:, ~_significant(values)[0]])


def _least_norm_solution(H: Array, g: Array, intercept: slice) -> Array:
    """Solve H x = g for each task; of several solutions the one with the least coefficients."""
    at = np.arange(H.shape[1])[intercept]
    rest = np.setdiff1d(np.arange(H.shape[1]), at)
    inverse = _pseudo_inverse(H[:, at[:, None], at])
    coupling = H[:, rest[:, None], at]
    onto = inverse @ coupling.transpose(0, 2, 1)  # intercepts that go with each coefficient
    alone = np.matmul(inverse, g[:, at, None])
    right = g[:, rest, None] - coupling @ alone
    coefficients = _pseudo_inverse(H[:, rest[:, None], rest] - coupling @ onto) @ right
    result = np.empty_like(g)
    result[:, rest] = coefficients[:, :, 0]
    result[:, at] = (alone - onto @ coefficients)[:, :, 0]
    return result


def _pseudo_inverse(H: Array) -> Array:
    values, vectors = np.linalg.eigh(H)
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=_significant(values))
    return np.asarray((vectors * inverse[:, None, :]) @ vectors.transpose(0, 2, 1))


def _significant(values: Array) -> Flags:
    """Which eigenvalues, in ascending order, are more than rounding errors of the largest."""
    return np.asarray(values > _RANK * values.shape[1] * np.maximum(values[:, -1:], 0.0))
