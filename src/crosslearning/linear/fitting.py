"""A fit: solve, at the exact ends too, and settle what the problem leaves open."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from crosslearning.linear.coupling import Coupling
from crosslearning.linear.ends import determined_part, independent
from crosslearning.linear.solver import Iterate, Solution, certified, solve
from crosslearning.projection import nearest_center, smallest_enclosing_ball
from crosslearning.tether import Tether

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crosslearning.linear.losses import Loss

__all__ = ["Problem"]

_NO_FORCE = 1e-8  # forces below this share of the scale hold nothing
_MAX_ROUNDS = 100


@dataclass(frozen=True, eq=False)
class Problem:
    """Losses, the weight of each task in the mean, and where the intercepts are.

    Parameters
    ----------
    loss : Loss
        One loss per task.
    weights : array of shape (n_tasks,)
        Weight of each task where a mean of tasks is wanted.
    intercept : slice
        Positions of the intercepts among the parameters; all others are coefficients.
    tol : float
        Relative residual to aim for.
    max_iter : int
        Largest number of Newton steps.
    """

    loss: Loss
    weights: NDArray[np.float64]
    intercept: slice
    tol: float = 1e-10
    max_iter: int = 2000

    @cached_property
    def separate(self) -> Solution:
        """Each task by itself: the right end of the path."""
        thetas = independent(self.loss, self.intercept, max_iter=self.max_iter)
        return self._limit(thetas, self.mean(thetas), Tether())

    @cached_property
    def pooled(self) -> Solution:
        """One model for all: the left end of the path."""
        center = independent(self.loss.pooled(), self.intercept, max_iter=self.max_iter)[0]
        return self._limit(np.tile(center, (self.loss.shape[0], 1)), center, Tether(0.0))

    def mean(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weighted mean of the tasks."""
        mean: NDArray[np.float64] = self.weights @ thetas / self.weights.sum()
        return mean

    def fit(self, coupling: Coupling, start: Iterate | None = None) -> Solution:
        """Solve for a coupling, from a similar solution if there is one."""
        if all(tether == Tether(0.0) for tether in coupling.tethers):
            return self.pooled
        if all(tether == Tether() for tether in coupling.tethers):
            return self.separate
        if start is None:
            start = replace(self.pooled, forces=np.zeros(self.loss.shape))
        solution = solve(self.loss, coupling, start, tol=self.tol, max_iter=self.max_iter)
        return self._settled(coupling, solution)

    def fit_task(self, coupling: Coupling, center: NDArray[np.float64]) -> Solution:
        """Solve for the tasks alone, around a given centre."""
        start = Iterate(np.tile(center, (self.loss.shape[0], 1)), center, np.zeros(self.loss.shape))
        solution = solve(
            self.loss, coupling, start, fixed_center=True, tol=self.tol, max_iter=self.max_iter
        )
        return self._nearest_tasks(coupling, solution)

    def end(self, coupling: Coupling, block: int, start: Iterate | None = None) -> float:
        """Radius of a block from which on its bound does not matter, the others as they are."""
        own = coupling.tethers[block]
        free = Tether(np.inf, own.stiffness, own.tension)
        tethers = (*coupling.tethers[:block], free, *coupling.tethers[block + 1 :])
        solution = self.fit(Coupling(coupling.blocks, tethers), start)
        at = coupling.blocks[block]
        if own.is_ball:
            return smallest_enclosing_ball(solution.thetas[:, at])[1]
        offsets = solution.thetas[:, at] - solution.center[at]
        return float(np.linalg.norm(offsets, axis=1).max())

    def _limit(
        self, thetas: NDArray[np.float64], center: NDArray[np.float64], tether: Tether
    ) -> Solution:
        coupling = Coupling((slice(None),), (tether,))
        return certified(self.loss, coupling, Solution(thetas, center, thetas, np.inf, 0))

    def _settled(self, coupling: Coupling, solution: Solution) -> Solution:
        """Take the tasks nearest the centre, and the centre nearest the mean, if left open."""
        for _ in range(_MAX_ROUNDS):
            solution = self._nearest_tasks(coupling, solution)
            center = self._nearest_center(coupling, solution)
            moved = np.abs(center - solution.center).max()
            solution = replace(solution, center=center)
            if moved <= 1e-12 * (1.0 + np.abs(center).max()):
                break
        unseen = solution.center - self._seen(solution.center)
        return certified(
            self.loss,
            coupling,
            replace(solution, thetas=solution.thetas - unseen, center=solution.center - unseen),
        )

    def _seen(self, center: NDArray[np.float64]) -> NDArray[np.float64]:
        """Part of a centre that some task's data see."""
        everywhere = np.tile(center, (self.loss.shape[0], 1))
        together = self.loss.hessian(everywhere).sum(axis=0, keepdims=True)
        seen: NDArray[np.float64] = determined_part(together, center[None])[0]
        return seen

    def _nearest_center(self, coupling: Coupling, solution: Solution) -> NDArray[np.float64]:
        """Centre nearest the mean of the tasks, in the blocks where no force determines it."""
        center = solution.center.copy()
        for b, tether in zip(coupling.blocks, coupling.tethers, strict=True):
            if np.abs(solution.forces[:, b]).max() <= _NO_FORCE * self.loss.scale:
                points = solution.thetas[:, b]
                center[b] = nearest_center(points, tether.epsilon, self.mean(points), center[b])
        return center

    def _nearest_tasks(self, coupling: Coupling, solution: Solution) -> Solution:
        """Drop from the offsets what neither data nor tether see."""
        H = self.loss.hessian(solution.thetas).copy()
        size = np.trace(H, axis1=1, axis2=2)
        for b, tether in zip(coupling.blocks, coupling.tethers, strict=True):
            held = np.abs(solution.forces[:, b]).max(axis=1) > _NO_FORCE * self.loss.scale
            seen = np.where(held | (not tether.is_ball), size + (size == 0), 0.0)
            at = np.arange(H.shape[1])[b]
            H[:, at, at] += seen[:, None]
        changed = determined_part(H, solution.thetas - solution.center)
        fits = np.all(coupling.clipped(changed) == changed, axis=1)
        thetas = np.where(fits[:, None], solution.center + changed, solution.thetas)
        return replace(solution, thetas=thetas)
