"""One projection: Gram matrices, solve, move, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from crosslearning.coupling import Status
from crosslearning.coupling._checks import is_positive
from crosslearning.coupling._gram import solve_gram
from crosslearning.nn.apply import move
from crosslearning.nn.certificate import BlockCertificate
from crosslearning.nn.finite import check_finite
from crosslearning.nn.gram import gram_of_differences, measure
from crosslearning.nn.resolution import needs_measuring

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

    from crosslearning.nn.blocks import Block
    from crosslearning.nn.buffer import FlatBuffer
    from crosslearning.nn.resolution import PresentNorm
    from crosslearning.nn.workspace import Workspace
    from crosslearning.tether import Tether

__all__ = ["project_blocks", "step_tether"]

_TOLERANCE = 1e-10  # of Newton's method, in the geometry of the Gram matrix
_MAX_ITER = 100
_BEYOND = 1.01  # distances beyond this share of the radius are more than a rounding error


def project_blocks(
    flats: list[FlatBuffer],
    modules: list[nn.Module],
    tethers: list[Tether],
    center_weight: float,
    starts: list[NDArray[np.float64] | None],
    norms: list[PresentNorm],
) -> list[BlockCertificate]:
    """Project all blocks in place, or none if a task is not finite in one of them.

    Parameters
    ----------
    flats : list of FlatBuffer
        One per block, as are `tethers`, the pulls to start from, and `norms`.
    modules : list of Module
        Of the rows.
    tethers : list of Tether
        Scaled for the step.
    center_weight : float
        Weight of the present centre.
    starts : list of array of shape (n_tasks,) or None
        Pulls of the previous projection.
    norms : list of PresentNorm
        They tell how far storing the parameters rounds.

    Returns
    -------
    list of BlockCertificate
    """
    # In an autocast region, products would be taken in bfloat16.
    with torch.no_grad(), torch.autocast(flats[0].flat.device.type, enabled=False):
        grams = [gram_of_differences(flat.workspace) for flat in flats]
        for gram, flat in zip(grams, flats, strict=True):
            check_finite(gram, flat, modules)
        return [
            _project(flat.workspace, gram, tether, center_weight, start, norm)
            for flat, gram, tether, start, norm in zip(
                flats, grams, tethers, starts, norms, strict=True
            )
        ]


def step_tether(block: Block, step_size: float | None) -> Tether:
    """Scale the tether of a block for a step; a bound alone needs no step size."""
    if step_size is not None and not is_positive(step_size):
        raise ValueError(f"`step_size` must be a positive finite number; got {step_size!r}.")
    if block.tether.is_ball:
        return block.tether
    if step_size is None:
        raise ValueError(
            f"`step_size` is required: the tether of block {block.name!r} has a spring or a "
            "tension, which act in proportion to the step. Use project(step_size=lr) with the "
            "learning rate."
        )
    return block.tether.scaled(step_size=step_size)


def _project(
    work: Workspace,
    gram: NDArray[np.float64],
    tether: Tether,
    center_weight: float,
    start: NDArray[np.float64] | None,
    norm: PresentNorm,
) -> BlockCertificate:
    """Project the matrix of a workspace in place, given its Gram matrix of differences."""
    step = solve_gram(gram, tether, center_weight, start, _TOLERANCE, _MAX_ITER)
    move(work, step.pull, step.weights)
    distances = step.distances
    measured = needs_measuring(distances, norm.of(work), work.flat.shape[1], work.flat.dtype)
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
