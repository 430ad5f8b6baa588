"""Newton steps: for the smooth problem, and for tasks, centre and forces together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from crosslearning.convex.solver._augmented_lagrangian import SmoothPoint
from crosslearning.tether import Array

_DECREASE = 1e-4  # Armijo's constant
_ROUNDING = 1e-13  # relative error of a value
_SMALLEST_STEP = 1e-6
_STAYING = (1e-13, 1e-6, 1e-3, 1.0)  # weights on the present centre, in curvatures


def descend(point: SmoothPoint) -> SmoothPoint | None:
    """Newton step for the smooth problem with backtracking; None if there is no progress.

    Where the function of the centre has no curvature, as under tension in one dimension, Newton
    steps are endless; weights on staying, ever larger, shorten them.
    """
    problem = point.problem
    A = problem.loss.hessian(point.thetas)
    E = problem.sigma[:, :, None] * point.hold.hessian()
    for staying in _STAYING:
        direction = _solved(
            point, A, E, point.task_gradient, point.center_gradient, staying=staying
        )
        further = _line_search(point, *direction)
        if further is not None:
            return further
    return None


def _line_search(point: SmoothPoint, step: Array, center_step: Array) -> SmoothPoint | None:
    slope = float(np.vdot(point.task_gradient, step) + point.center_gradient @ center_step)
    length = 1.0
    while length > _SMALLEST_STEP:
        further = point.problem.at(
            point.thetas + length * step, point.center + length * center_step
        )
        if slope < 0 and further.value <= point.value + _DECREASE * length * slope:
            return further
        # Close to the minimum all values are equal to rounding; gradients still tell.
        level = further.value <= point.value + _ROUNDING * abs(point.value)
        if level and further.gradient_norm < 0.5 * point.gradient_norm:
            return further
        length *= 0.5
    return None


def joint_step(point: SmoothPoint) -> SmoothPoint:
    """Newton step for the optimality conditions in tasks, centre and forces, undamped.

    The forces follow λ = σ w - σ prox(w) with w = θ - c + λ / σ. Solved for dλ that reads
    dλ = σ (R - I) (dθ - dc) + R (exerted - λ) with the release R, so that the system in tasks and
    centre has the same form as that of the smooth problem.
    """
    problem = point.problem
    release = point.hold.release()
    A = problem.loss.hessian(point.thetas)
    E = problem.sigma[:, :, None] * (release - np.eye(release.shape[1]))
    missing = (point.forces - problem.forces)[:, :, None]
    forces = problem.forces + np.matmul(release, missing)[:, :, 0]
    net = np.zeros_like(point.center) if problem.fixed_center else -forces.sum(axis=0)
    step, center_step = _solved(point, A, E, point.loss_gradient + forces, net)
    new_forces = -point.loss_gradient - np.matmul(A, step[:, :, None])[:, :, 0]
    further = replace(problem, forces=new_forces)
    return further.at(point.thetas + step, point.center + center_step)


def _solved(
    point: SmoothPoint,
    A: Array,
    E: Array,
    task_gradient: Array,
    center_gradient: Array,
    *,
    staying: float = 1e-13,
) -> tuple[Array, Array]:
    """Solve (A_i + E_i) dθ_i - E_i dc = -g_i and Σ E_i (dc - dθ_i) = -g for dθ and dc.

    Eliminating the tasks leaves Σ A_i (A_i + E_i)⁻¹ E_i for the centre.
    """
    n, p = task_gradient.shape
    curvature = point.problem.loss.curvature
    diagonal = np.arange(p)
    K = A + E
    # Directions that neither data nor tether determine: a tiny weight on staying.
    size = np.trace(K, axis1=1, axis2=2)
    K[:, diagonal, diagonal] += (1e-11 * curvature + 1e-15 * size)[:, None]
    g = task_gradient[:, :, None]
    if point.problem.fixed_center:
        return _visible(point, E, np.asarray(-np.linalg.solve(K, g)[:, :, 0])), np.zeros(p)
    solved = np.linalg.solve(K, np.concatenate([E, g], axis=2))
    Y, y = solved[:, :, :p], solved[:, :, p]
    schur = A.reshape(n * p, p).T @ Y.reshape(n * p, p)
    schur[diagonal, diagonal] += staying * curvature.sum()
    right = -center_gradient - np.einsum("npq,nq->p", E, y)
    # Where nothing holds or pulls, the centre is free, and rounding errors would carry it far.
    free = center_gradient == 0.0
    if free.any():
        free &= ~E.any(axis=(0, 2))
        right[free] = 0.0
        schur[free] = 0.0
        schur[free, free] = 1.0
    center_step = np.asarray(np.linalg.solve(schur, right))
    # What no task's data see, the centre has no reason to change.
    center_step = center_step - point.problem.unseen @ (point.problem.unseen.T @ center_step)
    return _visible(point, E, Y @ center_step - y), center_step


def _visible(point: SmoothPoint, E: Array, step: Array) -> Array:
    """Take rounding errors out of the steps: what neither data nor tether see does not change."""
    unseen = point.problem.unseen
    free = ~(E @ unseen).any(axis=1)
    return np.asarray(step - (step @ unseen * free) @ unseen.T)
