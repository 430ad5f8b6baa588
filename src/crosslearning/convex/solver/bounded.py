"""Hard bounds, in standard deviations between tasks, added to a fit by evidence.

With offsets δ of tasks from the centre c, and lengths ‖δ‖_Σ in standard deviations between tasks,

    minimise    Σ_i [-log likelihood_i(θ_i) + ½ ‖δ_i‖²_Σ] + ½ Σ_j precision_j c_j²
    subject to  ‖δ_i‖_Σ ≤ ε

where δ_i is 0 in directions that have no variance. Of groups within groups, offsets are those of
units from their parents, and each level has its bound.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from crosslearning.convex.evidence.marginal import Marginal
from crosslearning.convex.solver.augmented_lagrangian import ConvexSolution, certified
from crosslearning.convex.solver.losses import Loss, Quadratic
from crosslearning.convex.solver.problem import ConvexProblem
from crosslearning.convex.solver.tethers import BlockTethers, Metric
from crosslearning.convex.sums.rows import times_each
from crosslearning.tether import Array, Tether

_LEAST_DAMPING = 0.1


@dataclass(frozen=True, eq=False)
class Bounded:
    """Means of the units of each level, tasks first, the centre, and the proof."""

    means: list[Array]
    center: Array
    forces: list[Array]  # of units on their parents, prior and bound, in standard deviations
    kkt_residual: float


def bounded(
    loss: Loss,
    metric: Metric,
    precision: Array,  # of the prior of the centre
    epsilon: float,
    thetas: Array,
    center: Array,
    *,
    tol: float,
    max_iter: int,
) -> Bounded:
    """Solve from the mode of the posterior, or certify it if it keeps within the bound."""
    n_tasks = len(thetas)
    problem = _problem(loss.with_prior(precision), metric, tol, max_iter)
    # The prior is the loss of one more task, which is tied to the centre.
    radii = np.append(np.full(n_tasks, epsilon), 0.0)
    coupling = _coupling(metric, Tether(0.0) if epsilon == 0.0 else Tether(radii, 1.0))
    everyone = np.vstack([thetas, center]) @ metric.inverse.T
    solution = ConvexSolution(everyone, everyone[-1], np.zeros_like(everyone))
    if np.all(metric.distances(thetas - center) <= epsilon):
        solution = certified(problem.loss, coupling, solution)
    # The mode too, where a search has left it near; that of squares is exact but for rounding.
    if solution.kkt_residual > (1e3 * tol if isinstance(loss, Quadratic) else tol):
        solution = problem.fit(coupling, solution)
    return _outside(metric, solution, n_tasks)


def bounded_tasks(
    loss: Loss, metric: Metric, epsilon: float, center: Array, *, tol: float, max_iter: int
) -> Bounded:
    """Solve for new tasks alone, around a given centre."""
    problem = _problem(loss, metric, tol, max_iter)
    coupling = _coupling(metric, Tether(epsilon, 1.0))
    return _outside(metric, problem.fit_task(coupling, metric.inverse @ center), loss.shape[0])


def _problem(loss: Loss, metric: Metric, tol: float, max_iter: int) -> ConvexProblem:
    equal, end = np.ones(loss.shape[0]), loss.shape[1]
    loss = loss.in_variables(metric.matrix)
    return ConvexProblem(loss, equal, equal, slice(end, end), tol, max_iter)


def _coupling(metric: Metric, tether: Tether) -> BlockTethers:
    """Tie directions without variance to the centre."""
    n, P = metric.n_free, len(metric.matrix)
    parts = ((slice(0, n), tether), (slice(n, P), Tether(0.0)))
    blocks, tethers = zip(*(part for part in parts if part[0].start < part[0].stop), strict=True)
    return BlockTethers(blocks, tethers)


def _outside(metric: Metric, solution: ConvexSolution, n_tasks: int) -> Bounded:
    thetas, center = solution.thetas[:n_tasks] @ metric.matrix.T, metric.matrix @ solution.center
    forces = np.linalg.norm(solution.forces[:n_tasks, : metric.n_free], axis=1)
    return Bounded([thetas], center, [np.asarray(forces)], solution.kkt_residual)


def bounded_levels(
    marginal: Marginal,
    epsilons: Array,
    products: Callable[[Array], Array] | None = None,
    *,
    tol: float,
    max_iter: int,
) -> Bounded:
    """Solve within bounds of each level, by Newton's method if `products` depend on parameters."""
    roots = np.where(np.asarray(epsilons)[:, None] > 0, marginal.roots, 0.0)
    strengths = [np.ones(n) for n in marginal.hierarchy.sizes[:-1]]  # 1 + multipliers
    residual, thetas, damping = np.inf, marginal.means[0], 1.0
    for _ in range(max_iter):
        at = marginal.products if products is None else products(thetas)
        shares = tuple(1.0 / strength for strength in strengths)
        marginal = replace(marginal, products=at, roots=roots, shares=shares)
        before, thetas = thetas, marginal.means[0]
        levels = zip(roots, marginal.residuals, shares, strict=True)
        offsets = [root * g * share[:, None] for root, g, share in levels]  # in sds
        distances = [np.asarray(np.linalg.norm(rows, axis=1)) for rows in offsets]
        moved = float(np.abs(thetas - before).max()) / (1.0 + float(np.abs(thetas).max()))
        slack = [_slack(d, e, s) for d, e, s in zip(distances, epsilons, strengths, strict=True)]
        last, residual = residual, max(*slack, moved if products is not None else 0.0)
        if residual <= tol:
            break
        # Units of different levels react to each other, which single steps do not foresee.
        damping = max(0.7 * damping, _LEAST_DAMPING) if residual > last else min(1.1 * damping, 1.0)
        for level in range(len(epsilons)):
            W, epsilon = marginal.information[level][:, :-1, :-1], float(epsilons[level])
            further = _strengthened(W, roots[level], offsets[level], epsilon, strengths[level])
            strengths[level] = strengths[level] ** (1.0 - damping) * further**damping
    forces = [d * s for d, s in zip(distances, strengths, strict=True)]
    return Bounded(marginal.means[:-1], marginal.center.beta, forces, residual)


def _slack(distances: Array, epsilon: float, strengths: Array) -> float:
    """Relative violation of the bounds, and of complementarity where multipliers are positive."""
    if not 0.0 < epsilon < np.inf:
        return 0.0
    beyond = np.maximum(distances - epsilon, 0.0)
    idle = np.where(strengths > 1.0, np.maximum(epsilon - distances, 0.0), 0.0)
    return float(np.max(beyond + np.minimum(idle, strengths - 1.0))) / epsilon


def _strengthened(W: Array, root: Array, e: Array, epsilon: float, strengths: Array) -> Array:
    """One step of Newton's method for 1 / ‖e‖ = 1 / ε, each unit given its parent."""
    if not 0.0 < epsilon < np.inf:
        return strengths
    # Posterior covariance in standard deviations: c I - c L W L c, with c = 1 / (1 + μ).
    pulled = times_each(W, root * e) * root / strengths[:, None]
    bend = np.sum(e * (e - pulled), axis=1) / strengths
    distances = np.linalg.norm(e, axis=1)
    step = np.divide(distances**2, bend, out=np.zeros_like(bend), where=bend > 0)
    return np.asarray(np.maximum(strengths + step * (distances - epsilon) / epsilon, 1.0))
