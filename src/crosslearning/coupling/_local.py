"""Arrays at hand: solved over the tasks or over the parameters, and judged by what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crosslearning.coupling._center import SAFETY, solve
from crosslearning.coupling._center_function import CenterFunction
from crosslearning.coupling._certificate import Certificate, certify
from crosslearning.coupling._gram import GramProjection, solve_gram
from crosslearning.coupling._members import status_as_stored
from crosslearning.coupling._messages import refuse_not_finite
from crosslearning.coupling._newton import minimise
from crosslearning.coupling._result import Coupling, Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crosslearning.coupling._array_members import ArrayMembers
    from crosslearning.tether import Tether

__all__ = ["couple_arrays", "judged"]

_VISIBLE = 1e-3  # of the largest distance: a Gram matrix knows 10 digits of those above it


def couple_arrays(
    members: ArrayMembers,
    tether: Tether,
    weight: float,
    start: NDArray[np.float64] | None,
    tol: float,
    max_iter: int,
) -> Coupling:
    """Solve in the smaller of the two spaces, write the result, and judge what was written."""
    n_tasks, n_parameters = members.z.shape
    if n_parameters < n_tasks:
        function, scale = _function_of_parameters(members, tether, weight)
        point, n_iter = solve(function, start, tol, max_iter)
        members.place(point.pull, point.center * scale)
        return _measured(members, tether, weight, point.pull, n_iter, tol, max_iter)
    gram = members.gram()
    squares = np.diagonal(gram, axis1=1, axis2=2)
    refuse_not_finite(squares, members)
    step = solve_gram(gram[0], tether, weight, start, tol, max_iter)
    members.move(step.pull[np.newaxis], step.weights[np.newaxis])
    scale = float(squares.max()) ** 0.5 or 1.0
    if step.status is Status.CONVERGED and step.wanted.min() >= _VISIBLE * scale:
        proof = _proof(members, tether, step, scale)
        return judged(members, proof, tether, step.pull, step.n_iter, tol, max_iter)
    result = _measured(members, tether, weight, step.pull, step.n_iter, tol, max_iter)
    if result.status in (Status.CONVERGED, Status.UNRESOLVED):
        return result
    # The squares in a Gram matrix hide distances below 1e-8 of the largest one.
    function, scale = _function_of_parameters(members, tether, weight)
    center = (members.center - members.base.astype(np.float64)) / scale
    budget = max(1, max_iter - step.n_iter)
    point, n_iter = minimise(function, center, SAFETY * tol, budget)
    members.place(point.pull, point.center * scale)
    return _measured(members, tether, weight, point.pull, step.n_iter + n_iter, tol, max_iter)


def judged(
    members: ArrayMembers,
    proof: Certificate,
    tether: Tether,
    pull: NDArray[np.float64],
    n_iter: int,
    tol: float,
    max_iter: int,
) -> Coupling:
    """Turn a certificate of what was written into the result."""
    active = proof.taut & (pull > 0)
    status = Status.of(proof.kkt_residual, tol + proof.rounding, n_iter, max_iter)
    return Coupling(
        pull=pull,
        active=active,
        distances=proof.distances,
        measured=True,
        kkt_residual=proof.kkt_residual,
        n_iter=n_iter,
        status=status_as_stored(members, 0, status, proof.distances, active, tether),
    )


def _measured(
    members: ArrayMembers,
    tether: Tether,
    weight: float,
    pull: NDArray[np.float64],
    n_iter: int,
    tol: float,
    max_iter: int,
) -> Coupling:
    """Judge by a pass over tasks before and after."""
    proof = certify(members.thetas, members.center, members.z, tether, members.base, weight)
    return judged(members, proof, tether, pull, n_iter, tol, max_iter)


def _proof(
    members: ArrayMembers, tether: Tether, step: GramProjection, scale: float
) -> Certificate:
    """Judge by the Gram matrix and the distances of what was written.

    The distances of the tasks to their new centre are known from the Gram matrix, and determine
    that centre. What was written must have the distances that follow from it.
    """
    distances = members.distances()[0]
    size = float(np.linalg.norm(members.base)) + scale
    return Certificate(
        infeasibility=max(float((distances - tether.epsilon).max()), 0.0) / scale,
        imbalance=step.kkt_residual,
        misplacement=float(np.abs(distances - step.distances).max()) / scale,
        distances=distances,
        taut=tether.is_taut(step.wanted),
        rounding=4.0 * float(np.finfo(members.z.dtype).eps) * size / scale,
    )


def _function_of_parameters(
    members: ArrayMembers, tether: Tether, weight: float
) -> tuple[CenterFunction, float]:
    """Build the function of the centre over all parameters, in units of the largest distance."""
    points = members.differences()
    squares = np.vecdot(points, points)
    refuse_not_finite(squares[np.newaxis], members)
    scale = float(squares.max()) ** 0.5 or 1.0
    points /= scale
    return CenterFunction(points, tether.scaled(length=scale), weight), scale
