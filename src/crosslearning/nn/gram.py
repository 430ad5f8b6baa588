"""Inner products of the differences to the centre, and distances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    from crosslearning.nn.workspace import Workspace

__all__ = ["gram_of_differences", "measure", "norm_of_parameters"]


def gram_of_differences(work: Workspace) -> NDArray[np.float64]:
    """Gram matrix ⟨z_i - z_g, z_j - z_g⟩ of the tasks.

    Subtracted first, multiplied in chunks of columns, and summed over the chunks in float64.
    """
    shape = work.n_tasks, work.n_tasks
    product = torch.empty(shape, dtype=work.dtype, device=work.flat.device)
    total = torch.zeros(shape, dtype=torch.float64, device=work.sums)
    for chunk in work.chunks():
        difference = work.differences(chunk)
        torch.mm(difference, difference.T, out=product)
        total += product.to(work.sums)
    gram: NDArray[np.float64] = total.cpu().numpy()
    return 0.5 * (gram + gram.T)


def measure(work: Workspace, *, exactly: bool = False) -> NDArray[np.float64]:
    """Distances of the tasks to the centre as they are stored.

    To five digits, or with every sum in float64, which takes three times as long.
    """
    double = exactly and work.sums == work.flat.device
    dtype = torch.float64 if double else work.dtype
    return _norms((work.differences(chunk) for chunk in work.chunks()), work, dtype)


def norm_of_parameters(work: Workspace) -> float:
    """Norm of the first task, which stands for all."""
    return float(_norms((chunk[:1] for chunk in work.chunks()), work, work.dtype)[0])


def _norms(
    chunks: Iterable[torch.Tensor], work: Workspace, dtype: torch.dtype
) -> NDArray[np.float64]:
    """Norms of rows that come in chunks, summed in this dtype in them and in float64 over them."""
    total = torch.zeros(1, dtype=torch.float64, device=work.sums)
    for rows in chunks:
        norms = torch.linalg.vector_norm(rows, dim=1, dtype=dtype)
        total = total + norms.to(device=work.sums, dtype=torch.float64).square()
    result: NDArray[np.float64] = total.sqrt().cpu().numpy()
    return result
