"""The joint step of members, wherever they are: solve, move, measure, judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crosslearning.coupling._arrays import ArrayMembers, couple_arrays
from crosslearning.coupling._checks import (
    check_center_weight,
    check_start,
    check_stopping,
    check_tether,
)
from crosslearning.coupling._gram import solve_gram
from crosslearning.coupling._members import (
    refuse_not_finite,
    status_as_stored,
    warn_unless_converged,
    warn_unless_resolved,
)
from crosslearning.coupling._result import Coupling
from crosslearning.tether import Tether

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from crosslearning.coupling._gram import GramProjection
    from crosslearning.coupling._members import Members


def couple(
    members: Members,
    tether: Tether | Sequence[Tether],
    *,
    center_weight: float = 1.0,
    start: Sequence[ArrayLike | None] | None = None,
    tol: float = 1e-10,
    max_iter: int = 100,
    tell_resolution: bool = True,
    stacklevel: int = 1,
) -> tuple[Coupling, ...]:
    """Proximal step of a tether for members that can tell their Gram matrix and be moved.

    Every group of members is coupled independently, or none if a task is not finite in one of them.

    Parameters
    ----------
    members : Members
        What to couple; changed in place by :meth:`Members.move`.
    tether : Tether or sequence of Tether
        The radial law, scaled for the step; one for all groups or one for each.
    center_weight : float, default=1
        Weight of the present centre; 0 makes it free.
    start : sequence of array of shape (n_tasks,) or None, optional
        Pulls of the previous step, by group, to start from.
    tol, max_iter
        Largest relative residual and number of Newton steps.
    tell_resolution : bool, default=True
        Whether to warn of a radius that the members' dtype does not resolve. The status tells.
    stacklevel : int, default=1
        Whose line warnings point to: 1 for the caller.

    Returns
    -------
    tuple of Coupling
        One per group.

    Raises
    ------
    ValueError
        If a task is NaN or infinite, with its name. Nothing has been moved then.

    Warns
    -----
    ResolutionWarning
        If storing the result moved a task beyond a radius that is too small for the dtype.
    ConvergenceWarning
        If the solver did not reach its tolerance.
    """
    n_groups, n_tasks = len(members.groups), len(members.tasks)
    given = [tether] * n_groups if isinstance(tether, Tether) else list(tether)
    tethers = [check_tether(one, n_tasks) for one in given]
    starts = [check_start(one, n_tasks) for one in start or [None] * n_groups]
    weight = check_center_weight(center_weight, allow_zero=True)
    check_stopping(tol, max_iter)
    found: list[Coupling]
    if isinstance(members, ArrayMembers):
        found = [couple_arrays(members, tethers[0], weight, starts[0], tol, max_iter)]
    else:
        found = _couple_grams(members, tethers, weight, starts, tol, max_iter)
    for group, (coupling, law) in enumerate(zip(found, tethers, strict=True)):
        warn_unless_converged(coupling, stacklevel + 1)
        if tell_resolution:
            warn_unless_resolved(coupling, law, members, group, stacklevel + 1)
    return tuple(found)


def _couple_grams(
    members: Members,
    tethers: list[Tether],
    weight: float,
    starts: list[NDArray[np.float64] | None],
    tol: float,
    max_iter: int,
) -> list[Coupling]:
    """Move members whose parameters may be anywhere, and measure them where rounding matters."""
    grams = members.gram()
    squares = np.diagonal(grams, axis1=1, axis2=2)
    refuse_not_finite(squares, members)
    steps = [
        solve_gram(gram, tether, weight, start, tol, max_iter)
        for gram, tether, start in zip(grams, tethers, starts, strict=True)
    ]
    members.move(np.array([step.pull for step in steps]), np.array([s.weights for s in steps]))
    distances = np.array([step.distances for step in steps])
    measured = members.storage().blurs(distances)
    if measured:
        distances = members.distances()
    scales = np.sqrt(squares.max(axis=1))
    return [
        _concluded(members, group, *each, measured)
        for group, each in enumerate(zip(steps, tethers, distances, scales, strict=True))
    ]


def _concluded(
    members: Members,
    group: int,
    step: GramProjection,
    tether: Tether,
    distances: NDArray[np.float64],
    scale: float,
    measured: bool,
) -> Coupling:
    excess = float((distances - tether.epsilon).max()) / (float(scale) or 1.0)
    return Coupling(
        pull=step.pull,
        active=step.active,
        distances=distances,
        measured=measured,
        kkt_residual=max(step.kkt_residual, excess),
        n_iter=step.n_iter,
        status=status_as_stored(members, group, step.status, distances, step.active, tether),
    )
