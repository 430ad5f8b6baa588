"""Find the task that went wrong, before a projection hands it on to the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

    from crosslearning.nn.buffer import FlatBuffer

__all__ = ["check_finite"]

_REMEDY = (
    "Nothing was projected. Lower the learning rate or clip the gradients, and start from "
    "parameters that are finite."
)


def check_finite(gram: NDArray[np.float64], buffer: FlatBuffer, modules: list[nn.Module]) -> None:
    """Raise ValueError with the names of the culprits if a Gram matrix is not finite.

    The diagonal tells for free whether to look; the search is for the message only.
    """
    if np.isfinite(gram.diagonal()).all():
        return
    bad = [row for row, values in enumerate(buffer.flat) if not values.isfinite().all()]
    if not bad:
        far = [buffer.owners[row] for row in np.flatnonzero(~np.isfinite(gram.diagonal()))]
        raise ValueError(
            f"The parameters of {', '.join(far)} are so far from the centre that squares of "
            f"distances overflow. {_REMEDY}"
        )
    owners = ", ".join(buffer.owners[row] for row in bad)
    where = _first_bad(buffer, bad[0], modules[bad[0]])
    raise ValueError(f"The parameters of {owners} are NaN or infinite; {where}. {_REMEDY}")


def _first_bad(buffer: FlatBuffer, row: int, module: nn.Module) -> str:
    for slot, parameter in zip(buffer.slots, buffer.parameters(row, module), strict=True):
        if not parameter.isfinite().all():
            gradient = parameter.grad
            also = gradient is not None and not bool(torch.isfinite(gradient).all())
            return f"first in {slot.name!r}" + (", as is its gradient" if also else "")
    raise AssertionError("a row with values that are not finite has a parameter that has them")
