"""The linear models as CVXPY and Clarabel see them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
from scipy.sparse import block_diag

if TYPE_CHECKING:
    from linear_instance import Instance

STATEMENTS = ("task by task", "vectorised", "compressed")


@dataclass(eq=False)
class Rival:
    """An instance stated anew for CVXPY by every call; remembers what came out."""

    instance: Instance
    statement: str
    solver_seconds: list[float] = field(default_factory=list)
    status: str = ""
    objective: float = np.nan

    @cached_property
    def tasks(self) -> list[tuple[Any, Any, float]]:
        """Matrix, targets and share of the ridge term of each task."""
        rows, X, _ = self.instance.parts
        tasks = []
        for own in (rows.tasks == task for task in range(rows.n_tasks)):
            matrix, target = X[own], rows.y[own]
            if self.statement == "compressed":
                rotation, matrix = np.linalg.qr(matrix)
                target = rotation.T @ target
            tasks.append((matrix, target, np.mean(own)))
        return tasks

    def __call__(self) -> None:
        n, p = self.instance.parts[2].loss.shape
        thetas, center = cp.Variable((n, p)), cp.Variable((1, p))
        size = 1 if self.statement == "task by task" else n
        groups = [self._group(thetas, center, slice(i, i + size)) for i in range(0, n, size)]
        cost, bounds = sum(group[0] for group in groups), [b for group in groups for b in group[1]]
        problem = cp.Problem(cp.Minimize(cost), bounds)
        problem.solve(solver=cp.CLARABEL)
        self.status = problem.status
        self.solver_seconds.append(problem.solver_stats.solve_time)
        self.objective = self.instance.objective(thetas.value, center.value)

    def _group(self, thetas: Any, center: Any, at: slice) -> tuple[Any, list[Any]]:
        """Cost and bounds of some tasks."""
        matrices, targets, shares = zip(*self.tasks[at], strict=True)
        root = np.tile(np.sqrt(shares)[:, None], thetas.shape[1] - 1)
        cost = 0.5 * cp.sum_squares(cp.multiply(root, thetas[at, :-1]))
        scores = block_diag(matrices, format="csr") @ cp.vec(thetas[at], order="C")
        target = np.concatenate(targets)
        logistic = cp.sum(cp.logistic(scores)) - target @ scores
        cost += logistic if self.instance.binary else 0.5 * cp.sum_squares(scores - target)
        offsets = thetas[at] - np.ones((len(shares), 1)) @ center
        tethers = zip(self.instance.coupling.blocks, self.instance.coupling.tethers, strict=True)
        return cost, [cp.norm(offsets[:, b], axis=1) <= t.epsilon for b, t in tethers]
