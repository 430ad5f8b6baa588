"""The joint step of members, wherever they are stored: solve, move, measure, certify."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.coupling._gram import Request, solve_gram
from crosslearning.coupling._members import (
    Members,
    refuse_not_finite,
    status_as_stored,
    warn_unless_converged,
    warn_unless_resolved,
)
from crosslearning.coupling._result import Coupling
from crosslearning.tether import Tether


def couple(
    members: Members,
    tether: Tether | Sequence[Tether],
    *,
    center_weight: float = 1.0,
    start: Sequence[ArrayLike | None] | None = None,
    tol: float = 1e-10,
    max_iter: int = 100,
    tell_resolution: bool = True,
) -> tuple[Coupling, ...]:
    """Take the proximal step of a tether for members that can compute their Gram matrix.

    Every group of members is coupled independently. A task that is NaN or infinite raises a
    ValueError, and nothing is moved.

    Parameters
    ----------
    members : Members
        The members, moved in place by :meth:`Members.move`.
    tether : Tether or sequence of Tether
        The radial law, scaled for the step; one for all groups, or one per group.
    center_weight : float, default=1
        Weight of the current centre; 0 makes it free.
    start : sequence of array of shape (n_tasks,) or None, optional
        Initial pulls by group, such as those of the previous step.
    tol, max_iter
        Largest relative residual, and largest number of Newton steps.
    tell_resolution : bool, default=True
        Whether to warn if the radius is below the resolution of the dtype (see the status).

    Returns
    -------
    tuple of Coupling
        One per group.

    Warns
    -----
    ResolutionWarning
        If the radius is too small for the dtype, so that rounding moved a task off it.
    ConvergenceWarning
        If the solver did not reach its tolerance.
    """
    n_groups, n_tasks = len(members.groups), len(members.tasks)
    tethers = [tether] * n_groups if isinstance(tether, Tether) else list(tether)
    requests = [
        Request.checked(law, center_weight, first, tol, max_iter, n_tasks)
        for law, first in zip(tethers, start or [None] * n_groups, strict=True)
    ]
    couplings = _couple_grams(members, requests)
    for group, (coupling, law) in enumerate(zip(couplings, tethers, strict=True)):
        warn_unless_converged(coupling)
        if tell_resolution:
            warn_unless_resolved(coupling, law, members, group)
    return tuple(couplings)


def _couple_grams(members: Members, requests: list[Request]) -> list[Coupling]:
    """Solve from Gram matrices, move the members, and measure them if rounding matters."""
    grams = members.gram()
    squares = np.diagonal(grams, axis1=1, axis2=2)
    refuse_not_finite(squares, members)
    steps = [solve_gram(gram, *each) for gram, each in zip(grams, requests, strict=True)]
    members.move(np.array([step.pull for step in steps]), np.array([s.weights for s in steps]))
    distances = np.array([step.distances for step in steps])
    measured = members.storage().blurs(distances)
    if measured:
        distances = members.distances()
    scales = np.sqrt(squares.max(axis=1))
    results = []
    for group, (step, stored) in enumerate(zip(steps, distances, strict=True)):
        tether = requests[group].tether
        excess = float((stored - tether.epsilon).max()) / (float(scales[group]) or 1.0)
        coupling = Coupling(
            pull=step.pull,
            active=step.active,
            distances=stored,
            measured=measured,
            kkt_residual=max(step.kkt_residual, excess),
            n_iter=step.n_iter,
            status=status_as_stored(members, group, step.status, stored, step.active, tether),
        )
        results.append(coupling)
    return results
