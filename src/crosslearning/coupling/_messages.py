"""What a joint step says when it goes wrong: the same for members of every kind."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from crosslearning.coupling._result import Coupling, Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crosslearning.coupling._members import Members
    from crosslearning.tether import Tether

__all__ = ["refuse_not_finite", "warn_unless_converged", "warn_unless_resolved"]

_REMEDY = (
    "Nothing was moved. Start from finite parameters; in training, lower the learning rate or "
    "clip the gradients."
)


def refuse_not_finite(squares: NDArray[np.float64], members: Members) -> None:
    """Raise ValueError with the names of the culprits if squared distances are not finite.

    They tell for free whether to look; the search is for the message only.
    """
    if np.isfinite(squares).all():
        return
    culprits, where = members.culprits()
    if culprits:
        raise ValueError(
            f"The parameters of {_listed(culprits)} are NaN or infinite{where and f'; {where}'}. "
            f"{_REMEDY}"
        )
    far = [
        members.tasks[task] + (members.groups[group] and f" in {members.groups[group]}")
        for group, task in np.argwhere(~np.isfinite(squares))
    ]
    raise ValueError(
        f"The parameters of {_listed(far)} are so far from the centre that squares of distances "
        f"overflow. {_REMEDY}"
    )


def warn_unless_converged(coupling: Coupling, stacklevel: int = 2) -> None:
    """Warn the caller that many levels up if the solver did not reach its tolerance."""
    if coupling.status not in (Status.CONVERGED, Status.UNRESOLVED):
        from crosslearning.exceptions import ConvergenceWarning

        warnings.warn(
            f"{coupling.status.value} Relative KKT residual {coupling.kkt_residual:.1e} after "
            f"{coupling.n_iter} iterations.",
            ConvergenceWarning,
            stacklevel=stacklevel + 1,
        )


def warn_unless_resolved(
    coupling: Coupling, tether: Tether, members: Members, group: int, stacklevel: int
) -> None:
    """Warn the caller that many levels up if storing moved a task off its radius."""
    if coupling.status is not Status.UNRESOLVED:
        return
    from crosslearning.exceptions import ResolutionWarning

    radii = np.broadcast_to(np.asarray(tether.epsilon), coupling.distances.shape)
    off = np.abs(coupling.distances - radii)
    worst = int(np.argmax(np.where(coupling.active | (coupling.distances > radii), off, 0.0)))
    storage, name = members.storage(), members.groups[group]
    place = f" of {name}" if name else ""
    warnings.warn(
        f"`epsilon` = {radii[worst]:.3g}{place} is below what {storage.dtypes[group]} resolves at "
        f"the present norm of the parameters, {storage.norms[group]:.3g}: storing the result "
        f"left {members.tasks[worst]} at {coupling.distances[worst]:.3g} from the centre. "
        f"Use float64 or a larger `epsilon`, of at least {storage.resolved_radius[group]:.1g}.",
        ResolutionWarning,
        stacklevel=stacklevel + 1,
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
