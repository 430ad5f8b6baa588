"""A checked projection problem, and what becomes of its solution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.coupling._certificate import certify
from crosslearning.coupling._checks import check_problem
from crosslearning.coupling._columns import column_blocks
from crosslearning.coupling._result import Projection, Status

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from crosslearning.tether import Tether

__all__ = ["Problem", "Solution"]

_BEYOND = 1.01  # distances beyond this share of the radius are more than a rounding error


@dataclass(frozen=True, eq=False)
class Solution:
    """The pulls and the centre, which is relative to the base of the problem."""

    pull: NDArray[np.float64]
    offset: NDArray[np.float64]
    n_iter: int


@dataclass(frozen=True, eq=False)
class Problem:
    """Tasks `z` and a `base`: the given centre, or with weight 0 the mean of the tasks."""

    z: NDArray[np.floating[Any]]
    tether: Tether
    base: NDArray[np.floating[Any]]
    weight: float

    @classmethod
    def checked(
        cls,
        thetas: ArrayLike,
        tether: Tether,
        center: ArrayLike | None,
        center_weight: float | None,
    ) -> Problem:
        """Build the problem from what a user gave."""
        return cls(*check_problem(thetas, tether, center, center_weight))

    def combination(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ weights_i (z_i - base)."""
        offset = np.empty(self.z.shape[1])
        for b in column_blocks(self.z.shape):
            offset[b] = weights @ (self.z[:, b] - self.base[b].astype(np.float64))
        return offset

    def apply(self, solution: Solution, tol: float, max_iter: int) -> Projection:
        """Move the tasks, in the dtype they came in, and certify what came out."""
        pull, together = solution.pull[:, None], solution.pull == 1.0
        thetas, center = np.empty_like(self.z), np.empty_like(self.z[0])
        for b in column_blocks(self.z.shape):
            new = self.base[b] + solution.offset[b]
            center[b] = new
            # As a move: a task with no pull stays as it is, bit by bit.
            thetas[:, b] = self.z[:, b] - pull * (self.z[:, b] - new)
            thetas[together, b] = new
        proof = certify(thetas, center, self.z, self.tether, self.base, self.weight)
        status = Status.of(proof.kkt_residual, tol + proof.rounding, solution.n_iter, max_iter)
        if status is Status.CONVERGED and np.any(
            proof.distances > _BEYOND * np.asarray(self.tether.epsilon)
        ):
            status = Status.UNRESOLVED
        return Projection(
            thetas=thetas,
            center=center,
            pull=solution.pull,
            active=proof.taut & (solution.pull > 0),
            distances=proof.distances,
            kkt_residual=proof.kkt_residual,
            n_iter=solution.n_iter,
            status=status,
        )
