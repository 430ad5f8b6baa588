r"""What radius a dtype resolves.

Storing a vector of norm :math:`n` rounds every entry, and moves the vector by about
:math:`r = \tfrac14\,\mathrm{eps}\,n` (float32, norm 24: 7e-7). Task and centre are both rounded, so
that a distance :math:`\varepsilon` is realised as :math:`\sqrt{\varepsilon^2 + 2 r^2}`: 1 % more
than asked for at :math:`\varepsilon = 10\,r`.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch

from crosslearning.exceptions import ResolutionWarning
from crosslearning.nn.gram import norm_of_parameters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crosslearning.nn.blocks import Block
    from crosslearning.nn.workspace import Workspace

__all__ = ["PresentNorm", "needs_measuring", "resolved_radius", "warn_if_unresolved"]

_STORED = 0.25  # rounding of a stored vector, in units of eps times its norm
_RESOLVED = 10.0  # realised within 1 % from so many times the rounding on
_FOURTH_DIGIT = 1e-4
_FRESH = 50  # projections between two looks at a norm, which changes slowly


class PresentNorm:
    """Norm of the parameters of a block, looked at now and then."""

    def __init__(self) -> None:
        self.value = 0.0
        self._age = 0

    def of(self, work: Workspace) -> float:
        """Return the norm, at most so many projections old."""
        if self._age % _FRESH == 0:
            self.value = norm_of_parameters(work)
        self._age += 1
        return self.value


def resolved_radius(norm: float, dtype: torch.dtype) -> float:
    """Smallest radius that is realised to within 1 % around a centre of this norm.

    Examples
    --------
    >>> f"{resolved_radius(24.0, torch.float32):.0e}"
    '7e-06'
    """
    return _RESOLVED * _rounding(norm, dtype)


def needs_measuring(
    distances: NDArray[np.float64], norm: float, n_parameters: int, dtype: torch.dtype
) -> bool:
    """Whether storing the parameters may change the fourth digit of a distance above 0.

    Rounding is random: little of it lies along one direction of many, the rest adds as a square.
    """
    share = _rounding(norm, dtype) / distances[distances > 0]
    change = 4.0 * share / n_parameters**0.5 + share**2
    return bool(np.any(change > _FOURTH_DIGIT))


def warn_if_unresolved(block: Block, norm: float, dtype: torch.dtype, stacklevel: int) -> bool:
    """Warn the caller that many levels up if a radius above 0 is not resolved; say whether."""
    radii = np.atleast_1d(np.asarray(block.tether.epsilon, dtype=np.float64))
    least = resolved_radius(norm, dtype)
    unresolved = radii[(radii > 0) & (radii < least)]
    if not unresolved.size:
        return False
    name = str(dtype).removeprefix("torch.")
    wider = "" if dtype is torch.float64 else "call `models.double()` or "
    warnings.warn(
        f"`epsilon` = {unresolved.min():.3g} (block {block.name!r}) is below what {name} resolves "
        f"at the present norm of the parameters, {norm:.3g}: realised distances may be off by "
        f"more than 1 %. To be held to the radius, {wider}choose an `epsilon` of at least "
        f"{least:.1g}; `models.distances()` tells the real ones.",
        ResolutionWarning,
        stacklevel=stacklevel + 1,
    )
    return True


def _rounding(norm: float, dtype: torch.dtype) -> float:
    return _STORED * torch.finfo(dtype).eps * norm
