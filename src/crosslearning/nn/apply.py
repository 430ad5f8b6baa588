"""Move tasks and centre in place, from the two numbers per task that the projection returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crosslearning.nn.workspace import Workspace

__all__ = ["move"]


def move(work: Workspace, pull: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
    """Set θ_g = z_g + Σ weights_i (z_i - z_g) and θ_i = z_i + pull_i (θ_g - z_i), in one pass.

    A task with pull 0 is not touched, one with pull 1 is a copy of the centre, bit by bit.

    Parameters
    ----------
    work : Workspace
        Of the matrix to change.
    pull, weights : array of shape (n_tasks,)
        As in :class:`crosslearning.coupling.GramProjection`.
    """
    device, dtype = work.flat.device, work.dtype
    if not pull.any() and not weights.any():
        return
    coefficients = torch.from_numpy(_exact_combination(weights, dtype)).to(device, dtype)
    shares = torch.from_numpy(pull[:, None]).to(device, dtype)
    inside = bool(np.all((pull > 0) & (pull < 1)))
    for chunk in work.chunks():
        width = chunk.shape[1]
        native = chunk.dtype == dtype
        rows = chunk if native else work.rows[:, :width].copy_(chunk)
        center = torch.mv(rows.T, coefficients, out=work.center[:width])
        if inside:  # the usual case, in one call
            rows[:-1].lerp_(center, shares)
        else:
            _move_one_by_one(rows[:-1], center, pull)
        rows[-1].copy_(center)
        if not native:
            chunk.copy_(rows)


def _move_one_by_one(tasks: torch.Tensor, center: torch.Tensor, pull: NDArray[np.float64]) -> None:
    for task, share in zip(tasks, pull.tolist(), strict=True):
        if share == 1.0:
            task.copy_(center)
        elif share > 0.0:
            task.lerp_(center, share)


def _exact_combination(weights: NDArray[np.float64], dtype: torch.dtype) -> NDArray[np.float64]:
    """Coefficients of tasks and centre that sum to 1 in this dtype, exactly.

    A sum that is off by one rounding error would scale the whole centre, step after step in the
    same direction. Rounded to a grid that the dtype holds, the tasks' coefficients change by
    little, and that little only multiplies differences.
    """
    grid = 2.0 * torch.finfo(dtype).eps
    rounded = np.round(weights / grid) * grid
    return np.append(rounded, 1.0 - rounded.sum())
