"""Convex models under a tether: min Σ_i f_i(θ_i) + Σ_i Σ_b h_b(‖θ_i^b - c^b‖) over all θ_i and c.

The method of multipliers: for fixed forces λ_i on the offsets θ_i - c the problem is smooth, since
the tether enters through its envelope. Semismooth Newton steps find out which bounds hold; from
there on Newton steps in tasks, centre and forces together converge at once.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from crosslearning.convex.solver.losses import Loss
from crosslearning.convex.solver.tethers import BlockTethers, Hold
from crosslearning.convex.sums.rows import times_each
from crosslearning.tether import Array

_STRONGEST = 1e6
_DECREASE = 1e-4  # Armijo's constant
_ROUNDING = 1e-13  # relative error of a value
_SMALLEST_STEP = 1e-6
_STAYING = (1e-13, 1e-6, 1e-3, 1.0)  # weights on the present centre, in curvatures
_PATIENCE = 0.1  # forces that change by more of their last change ask for a stronger envelope
_STRONGER, _WEAKER, _WEAKEST = 10.0, 1e-2, 1e-8
_PROGRESS = 0.9  # largest residual after a step in everything, in residuals before it
_INNER = 0.5  # accuracy of the smooth problem, in changes of the forces


@dataclass(frozen=True, eq=False)
class SmoothProblem:
    """Minimise Σ f_i(θ_i) + σ_i e_i(θ_i - c + λ_i / σ_i); e_i is the envelope of h / σ_i."""

    loss: Loss
    coupling: BlockTethers
    forces: Array
    unseen: Array  # directions, its columns, in which the centre stays
    fixed_center: bool
    strength: float = 1.0  # σ_i in curvatures of the task

    @cached_property
    def sigma(self) -> Array:
        return self.strength * self.loss.curvature[:, None]

    @cached_property
    def law(self) -> BlockTethers:
        return self.coupling.scaled(self.sigma[:, 0])

    def at(self, thetas: Array, center: Array, loss_gradient: Array | None = None) -> "SmoothPoint":
        """Evaluate, with the gradient of the loss if there is none yet."""
        hold = self.law.hold(thetas - center + self.forces / self.sigma)
        if loss_gradient is None:
            loss_gradient = self.loss.gradient(thetas)
        return SmoothPoint(self, thetas, center, hold, loss_gradient)


@dataclass(frozen=True, eq=False)
class SmoothPoint:
    """A place in the smooth problem."""

    problem: SmoothProblem
    thetas: Array
    center: Array
    hold: Hold
    loss_gradient: Array

    @cached_property
    def value(self) -> float:
        losses = self.problem.loss.value(self.thetas).sum()
        return float(losses + self.problem.sigma[:, 0] @ self.hold.value)

    @cached_property
    def forces(self) -> Array:
        """Forces that the envelopes exert here: the multipliers to take next."""
        return self.problem.sigma * self.hold.moves

    @cached_property
    def task_gradient(self) -> Array:
        return self.loss_gradient + self.forces

    @cached_property
    def center_gradient(self) -> Array:
        return -self.net(self.forces)

    @cached_property
    def gradient_norm(self) -> float:
        """Largest component of the gradient in the tasks plus that in the centre."""
        return float(np.abs(self.task_gradient).max() + np.abs(self.center_gradient).max())

    @cached_property
    def force_change(self) -> float:
        """How far the forces are from those exerted, as the tasks would feel it."""
        return float(np.abs(self.forces - self.problem.forces).max()) / self.problem.strength

    @cached_property
    def residual(self) -> float:
        """Residual of the optimality conditions of the original problem, given the forces."""
        unbalanced = np.abs(self.loss_gradient + self.problem.forces).max()
        net = np.abs(self.net(self.problem.forces)).max()
        return max(float(unbalanced), float(net), self.force_change)

    def with_problem(self, **changes: Any) -> "SmoothPoint":
        return replace(self.problem, **changes).at(self.thetas, self.center, self.loss_gradient)

    def net(self, forces: Array) -> Array:
        """Sum of the forces on the centre, unless that is fixed."""
        net: Array = forces.sum(axis=0)
        return np.zeros_like(net) if self.problem.fixed_center else net


def descend(point: SmoothPoint) -> SmoothPoint | None:
    """Newton step for the smooth problem with backtracking; None if there is no progress.

    Where the function of the centre has no curvature, as under tension in one dimension, Newton
    steps are endless; weights on staying, ever larger, shorten them.
    """
    A = point.problem.loss.hessian(point.thetas)
    E = point.problem.sigma[:, :, None] * point.hold.hessian()
    gradients = point.task_gradient, point.center_gradient
    steps = (_solved(point, A, E, *gradients, staying=staying) for staying in _STAYING)
    searched = (_line_search(point, *step) for step in steps)
    return next((further for further in searched if further is not None), None)


def _line_search(point: SmoothPoint, step: Array, center_step: Array) -> SmoothPoint | None:
    slope = float(np.vdot(point.task_gradient, step) + point.center_gradient @ center_step)
    length = 1.0
    while length > _SMALLEST_STEP:
        thetas, center = point.thetas + length * step, point.center + length * center_step
        further = point.problem.at(thetas, center)
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

    With the release R, dλ = σ (R - I) (dθ - dc) + R (exerted - λ).
    """
    problem = point.problem
    release = point.hold.release()
    A = problem.loss.hessian(point.thetas)
    E = problem.sigma[:, :, None] * (release - np.eye(release.shape[1]))
    forces = problem.forces + times_each(release, point.forces - problem.forces)
    net = -point.net(forces)
    step, center_step = _solved(point, A, E, point.loss_gradient + forces, net)
    further = replace(problem, forces=-point.loss_gradient - times_each(A, step))
    return further.at(point.thetas + step, point.center + center_step)


def _solved(
    point: SmoothPoint, A: Array, E: Array, g: Array, net: Array, *, staying: float = _STAYING[0]
) -> tuple[Array, Array]:
    """Solve (A_i + E_i) dθ_i - E_i dc = -g_i and Σ E_i (dc - dθ_i) = -net for dθ and dc.

    Eliminating the tasks leaves Σ A_i (A_i + E_i)⁻¹ E_i for the centre.
    """
    n, p = g.shape
    curvature, diagonal, K = point.problem.loss.curvature, np.arange(p), A + E
    # Directions that neither data nor tether determine: a tiny weight on staying.
    size = np.trace(K, axis1=1, axis2=2)
    K[:, diagonal, diagonal] += (1e-11 * curvature + 1e-15 * size)[:, None]
    if point.problem.fixed_center:
        step = -np.linalg.solve(K, g[:, :, None])[:, :, 0]
        return _visible(point, E, np.asarray(step)), np.zeros(p)
    solved = np.linalg.solve(K, np.concatenate([E, g[:, :, None]], axis=2))
    Y, y = solved[:, :, :p], solved[:, :, p]
    schur = A.reshape(n * p, p).T @ Y.reshape(n * p, p)
    schur[diagonal, diagonal] += staying * curvature.sum()
    right = -net - np.einsum("npq,nq->p", E, y)
    # Where nothing holds or pulls, the centre is free, and rounding errors would carry it far.
    free = net == 0.0
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


@dataclass(frozen=True, eq=False)
class ConvexSolution:
    """Tasks, centre, forces on the tethers, and the relative residual (infinite at a start)."""

    thetas: Array
    center: Array
    forces: Array
    kkt_residual: float = np.inf
    n_iter: int = 0


def solve(
    loss: Loss,
    coupling: BlockTethers,
    start: ConvexSolution,
    unseen: Array,
    goal: float,
    max_iter: int,
    *,
    fixed_center: bool,
) -> ConvexSolution:
    """Minimise from a starting point, until the residual is at most the goal.

    The solution is not certified yet; its forces are exactly 0 where the tethers hold nothing.
    """
    problem = SmoothProblem(loss, coupling, start.forces, unseen, fixed_center)
    point, n_iter, last = problem.at(start.thetas, start.center), 0, np.inf
    while point.residual > goal and n_iter < max_iter:
        change = point.force_change
        if point.gradient_norm <= max(_INNER * change, 0.1 * goal):
            point = point.with_problem(forces=point.forces)
            point, n_steps = _joint_steps(point, goal, max_iter - n_iter)
            if change > _PATIENCE * last:
                stronger = min(_STRONGER * point.problem.strength, _STRONGEST)
                point = point.with_problem(strength=stronger)
            n_iter, last = n_iter + n_steps, change
            continue
        further = descend(point)
        n_iter += 1
        if further is None:
            if point.problem.strength < _WEAKEST:
                break
            # A loss that is nearly flat here wants an envelope that is no steeper.
            further = point.with_problem(strength=_WEAKER * point.problem.strength)
        point = further
    # Rounding leaves some offsets longer than their radius.
    thetas = point.center + coupling.clipped(point.thetas - point.center)
    return ConvexSolution(thetas, point.center, point.forces, point.residual / loss.scale, n_iter)


def _joint_steps(point: SmoothPoint, goal: float, max_steps: int) -> tuple[SmoothPoint, int]:
    """Take joint steps as long as the residual falls."""
    for n_steps in range(max_steps):
        if point.residual <= goal:
            return point, n_steps
        further = joint_step(point)
        if not further.residual <= max(_PROGRESS * point.residual, goal):
            return point, n_steps + 1
        point = further
    return point, max_steps


def certified(
    loss: Loss, coupling: BlockTethers, solution: ConvexSolution, *, fixed_center: bool = False
) -> ConvexSolution:
    """Return the solution with the forces -∇f_i and the residual that its tasks and centre have."""
    gradient, curvature = loss.gradient(solution.thetas), loss.curvature[:, None]
    offsets = solution.thetas - solution.center
    targets = offsets - gradient / curvature
    kept = targets - coupling.scaled(loss.curvature).hold(targets).moves
    misfit = float(np.abs(curvature * (offsets - kept)).max())
    balance = 0.0 if fixed_center else float(np.abs(gradient.sum(axis=0)).max())
    return replace(solution, forces=-gradient, kkt_residual=max(misfit, balance) / loss.scale)
