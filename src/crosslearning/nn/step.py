"""One projection of one block: Gram matrix, solve, move, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crosslearning.nn.apply import move
from crosslearning.nn.certificate import BlockCertificate
from crosslearning.nn.gram import measure
from crosslearning.nn.resolution import needs_measuring
from crosslearning.projection import Status
from crosslearning.projection.gram import solve_gram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crosslearning.nn.workspace import Workspace
    from crosslearning.tether import Tether

__all__ = ["project_block"]

_TOLERANCE = 1e-10  # of Newton's method, in the geometry of the Gram matrix
_MAX_ITER = 100
_BEYOND = 1.01  # distances beyond this share of the radius are more than a rounding error


def project_block(
    work: Workspace,
    gram: NDArray[np.float64],
    tether: Tether,
    center_weight: float,
    start: NDArray[np.float64] | None,
    norm: float,
) -> BlockCertificate:
    """Project the matrix of a workspace in place.

    Parameters
    ----------
    work : Workspace
        Of the matrix.
    gram : array of shape (n_tasks, n_tasks)
        Its Gram matrix of differences.
    tether : Tether
        Scaled for the step.
    center_weight : float
        Weight of the present centre.
    start : array of shape (n_tasks,), optional
        Pulls of the previous projection.
    norm : float
        Norm of the parameters, which tells how far storing them rounds.

    Returns
    -------
    BlockCertificate
    """
    step = solve_gram(gram, tether, center_weight, start, _TOLERANCE, _MAX_ITER)
    move(work, step.pull, step.weights)
    distances = step.distances
    measured = needs_measuring(distances, norm, work.flat.shape[1], work.flat.dtype)
    if measured:
        distances = measure(work)
    epsilon = np.asarray(tether.epsilon)
    scale = float(np.sqrt(gram.diagonal().max())) or 1.0
    excess = float(np.maximum(distances - epsilon, 0.0).max()) / scale
    status = step.status
    if status is Status.CONVERGED and np.any(distances > _BEYOND * epsilon):
        status = Status.UNRESOLVED
    return BlockCertificate(
        pull=step.pull,
        active=step.active,
        distances=distances,
        measured=measured,
        kkt_residual=max(step.kkt_residual, excess),
        n_iter=step.n_iter,
        status=status,
    )
