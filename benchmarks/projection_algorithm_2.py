"""How many iterations the paper's Algorithm 2 needs, told by an oracle that knows the solution."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from crosslearning import Tether
from crosslearning.coupling import prox_gram, subgradient_iterates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

CLOSE = 1e-3  # where Algorithm 2 may stop: distance to the exact solution, in units of ε
# Step constants to try, the default first.
STEPS = (1, 3, 10, 20, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)


def pulls_after(gram: Array, epsilon: float, step: float, iterations: int) -> Array:
    """Pulls after so many iterations."""
    iterates = subgradient_iterates(gram, epsilon, step=step)
    return next(islice(iterates, iterations, None))[0]


def iterations_needed(gram: Array, epsilon: float, step: float, limit: int) -> tuple[int, float]:
    """Iterations until all tasks and the centre are close, and their largest distance then."""
    tasks = stand_ins(gram)

    def places(pull: Array, weights: Array) -> Array:
        center = weights @ tasks
        return np.vstack([tasks - pull[:, None] * (tasks - center), center])

    solution = prox_gram(gram, Tether(epsilon))
    exact = places(solution.pull, solution.weights)
    for k, (pull, _) in enumerate(subgradient_iterates(gram, epsilon, step=step)):
        off = places(pull, pull / (1.0 + pull.sum())) - exact
        distance = float(np.einsum("ij,ij->i", off, off).max()) ** 0.5 / epsilon
        if distance <= CLOSE or k == limit:
            break
    return k, distance


def stand_ins(gram: Array) -> Array:
    """N points in N dimensions with this Gram matrix; all distances are those of the tasks."""
    jitter = 4.0 * np.finfo(np.float64).eps * gram.diagonal().max()
    return np.linalg.cholesky(gram + jitter * np.eye(len(gram)))
