"""Inner products of the differences to the centre, and distances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from crosslearning.nn.workspace import Workspace

__all__ = ["gram_of_differences", "measure"]


def gram_of_differences(work: Workspace) -> tuple[NDArray[np.float64], float]:
    """Gram matrix ⟨z_i - z_g, z_j - z_g⟩ of the tasks, and the norm of the first of them.

    Subtracted first, multiplied in chunks of columns, and summed over the chunks in float64.
    """
    shape = work.n_tasks, work.n_tasks
    product = torch.empty(shape, dtype=work.dtype, device=work.flat.device)
    total = torch.zeros(shape, dtype=torch.float64, device=work.sums)
    square = torch.zeros((), dtype=torch.float64, device=work.sums)
    for chunk in work.chunks():
        difference = work.differences(chunk)
        torch.mm(difference, difference.T, out=product)
        total += product.to(work.sums)
        square += _squared_norms(chunk[0], work)
    gram: NDArray[np.float64] = total.cpu().numpy()
    return 0.5 * (gram + gram.T), float(square) ** 0.5


def measure(work: Workspace) -> NDArray[np.float64]:
    """Distances of the tasks to the centre as they are stored."""
    squares = torch.zeros(work.n_tasks, dtype=torch.float64, device=work.sums)
    for chunk in work.chunks():
        squares += _squared_norms(work.differences(chunk), work)
    distances: NDArray[np.float64] = squares.sqrt().cpu().numpy()
    return distances


def _squared_norms(rows: torch.Tensor, work: Workspace) -> torch.Tensor:
    norms = torch.linalg.vector_norm(rows, dim=-1, dtype=work.dtype)
    return norms.to(device=work.sums, dtype=torch.float64).square()
