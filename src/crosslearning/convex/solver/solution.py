"""Convex models under a tether: min Σ_i f_i(θ_i) + Σ_i Σ_b h_b(‖θ_i^b - c^b‖) over all θ_i and c.

The method of multipliers: the offsets θ_i - c are given forces λ_i, and for fixed forces the
problem is smooth, because the tether enters through its envelope. Newton steps for the smooth
problem find out which bounds hold; from there on Newton steps in tasks, centre and forces together
converge at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crosslearning.convex.solver._augmented_lagrangian import SmoothPoint, descend, joint_step
from crosslearning.convex.solver.losses import Loss
from crosslearning.convex.solver.tethers import BlockTethers
from crosslearning.tether import Array

_PATIENCE = 0.1  # forces that change by more of their last change ask for a stronger envelope
_STRONGER, _WEAKER, _WEAKEST = 10.0, 1e-2, 1e-8
_PROGRESS = 0.9  # largest residual after a step in everything, in residuals before it
_INNER = 0.5  # accuracy of the smooth problem, in changes of the forces


@dataclass(frozen=True, eq=False)
class ConvexSolution:
    """Tasks, centre, forces that the tasks exert on their tethers, and the proof.

    That is the relative residual of the optimality conditions; infinite where it is a start.
    """

    thetas: Array
    center: Array
    forces: Array
    kkt_residual: float = np.inf
    n_iter: int = 0


def solve(point: SmoothPoint, goal: float, max_iter: int) -> ConvexSolution:
    """Minimise from a starting point, until the residual is at most the goal; warm starts pay.

    The solution is not certified yet, because the problem may leave something open; its forces
    are those that the tethers exert, exactly 0 where they hold nothing.
    """
    loss, coupling = point.problem.loss, point.problem.coupling
    n_iter, last = 0, np.inf
    while point.residual > goal and n_iter < max_iter:
        change = point.force_change
        if point.gradient_norm <= max(_INNER * change, 0.1 * goal):
            point, n_steps = _joint_steps(point.with_own_forces(), goal, max_iter - n_iter)
            if change > _PATIENCE * last:
                point = point.with_strength(_STRONGER)
            n_iter, last = n_iter + n_steps, change
            continue
        further = descend(point)
        n_iter += 1
        if further is None:
            if point.problem.strength < _WEAKEST:
                break
            # A loss that is nearly flat here wants an envelope that is no steeper.
            further = point.with_strength(_WEAKER)
        point = further
    # Rounding leaves some offsets longer than their radius.
    thetas = point.center + coupling.clipped(point.thetas - point.center)
    return ConvexSolution(thetas, point.center, point.forces, point.residual / loss.scale, n_iter)


def _joint_steps(point: SmoothPoint, goal: float, max_steps: int) -> tuple[SmoothPoint, int]:
    """Newton steps in everything at once, as long as the residual falls."""
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
    """Return the solution with the forces -∇f_i and the residual that its tasks and centre have.

    Each task must be the proximal step of its tether from where its force would carry it, and
    the forces must add up to 0.
    """
    gradient = loss.gradient(solution.thetas)
    curvature = loss.curvature[:, None]
    offsets = solution.thetas - solution.center
    targets = offsets - gradient / curvature
    kept = targets - coupling.scaled(loss.curvature).hold(targets).moves
    misfit = float(np.abs(curvature * (offsets - kept)).max())
    balance = 0.0 if fixed_center else float(np.abs(gradient.sum(axis=0)).max())
    return replace(solution, forces=-gradient, kkt_residual=max(misfit, balance) / loss.scale)
