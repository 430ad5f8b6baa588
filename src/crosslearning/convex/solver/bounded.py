"""A hard bound, in standard deviations between tasks, added to a fit by evidence.

With θ_i = c + δ_i and ‖δ‖_Σ the length in standard deviations between tasks,

    minimise    Σ_i [-log likelihood_i(θ_i) + ½ ‖δ_i‖²_Σ] + ½ Σ_j precision_j c_j²
    subject to  ‖δ_i‖_Σ ≤ ε

where δ_i is 0 in directions that have no variance. At ε = ∞ that is the mode of the posterior.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from crosslearning.convex.solver.losses import Loss, Quadratic
from crosslearning.convex.solver.metric import Metric
from crosslearning.convex.solver.problem import ConvexProblem
from crosslearning.convex.solver.solution import ConvexSolution, certified
from crosslearning.convex.solver.tethers import BlockTethers
from crosslearning.tether import Array, Tether


def bounded(
    loss: Loss,
    metric: Metric,
    precision: Array,
    epsilon: float,
    task_weights: Array,
    start: ConvexSolution,
    *,
    tol: float,
    max_iter: int,
) -> ConvexSolution:
    """Solve from the mode of the posterior, or certify it if it keeps within the bound.

    `loss` is that of the tasks times their weights, `metric` that of the tasks' covariance,
    `precision` that of the centre's prior. The forces returned are in the metric's variables.
    """
    n_tasks = len(task_weights)
    problem = _problem(loss.with_prior(precision).in_variables(metric.matrix), tol, max_iter)
    # The prior is the loss of one more task, which is tied to the centre.
    radii, springs = np.full(n_tasks + 1, epsilon), np.append(task_weights, 1.0)
    radii[-1] = 0.0
    coupling = _coupling(metric, Tether(0.0) if epsilon == 0.0 else Tether(radii, springs))
    thetas = np.vstack([start.thetas, start.center])
    solution = metric.inside(replace(start, thetas=thetas, forces=np.zeros_like(thetas)))
    if np.all(metric.distances(start.thetas - start.center) <= epsilon):
        solution = certified(problem.loss, coupling, solution)
    # The mode too, where a search has left it near; that of squares is exact but for rounding.
    if solution.kkt_residual > (1e3 * tol if isinstance(loss, Quadratic) else tol):
        solution = problem.fit(coupling, solution)
    return _outside(metric, solution, n_tasks)


def bounded_tasks(
    loss: Loss, metric: Metric, epsilon: float, center: Array, *, tol: float, max_iter: int
) -> ConvexSolution:
    """Solve for new tasks alone, around a given centre."""
    problem = _problem(loss.in_variables(metric.matrix), tol, max_iter)
    coupling = _coupling(metric, Tether(epsilon, 1.0))
    return _outside(metric, problem.fit_task(coupling, metric.inverse @ center), loss.shape[0])


def _problem(loss: Loss, tol: float, max_iter: int) -> ConvexProblem:
    n_tasks, P = loss.shape
    equal = np.ones(n_tasks)
    return ConvexProblem(
        loss=loss, weights=equal, shares=equal, intercept=slice(P, P), tol=tol, max_iter=max_iter
    )


def _coupling(metric: Metric, tether: Tether) -> BlockTethers:
    """Tie directions without variance to the centre."""
    n, P = metric.n_free, len(metric.matrix)
    parts = ((slice(0, n), tether), (slice(n, P), Tether(0.0)))
    blocks, tethers = zip(*(part for part in parts if part[0].start < part[0].stop), strict=True)
    return BlockTethers(blocks, tethers)


def _outside(metric: Metric, solution: ConvexSolution, n_tasks: int) -> ConvexSolution:
    thetas, center = solution.thetas[:n_tasks] @ metric.matrix.T, metric.matrix @ solution.center
    return replace(solution, thetas=thetas, center=center, forces=solution.forces[:n_tasks])
