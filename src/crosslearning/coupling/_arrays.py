"""Members that are rows of a NumPy array: solved, written, and judged by what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.coupling._center import SAFETY, solve
from crosslearning.coupling._certificate import Certificate, certify, column_blocks
from crosslearning.coupling._gram import GramProjection, Request, solve_gram
from crosslearning.coupling._members import Storage, refuse_not_finite, status_as_stored
from crosslearning.coupling._newton import CenterFunction, minimise
from crosslearning.coupling._result import Coupling, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from crosslearning.tether import Tether

_FEW = 8  # rows
_VISIBLE = 1e-3  # of the largest distance: a Gram matrix knows 10 digits of those above it


class ArrayMembers:
    """Tasks `z` around a `base`: the given centre, or the mean of the tasks if the centre is free.

    The moved ones are written to arrays of their own, `thetas` and `center`, in the dtype of `z`.
    """

    groups = ("",)

    def __init__(self, z: NDArray[np.floating[Any]], base: NDArray[np.floating[Any]]) -> None:
        self.z, self.base = z, base
        self.thetas, self.center = np.empty_like(z), np.empty_like(z[0])
        self._squares = np.zeros(len(z))
        self._room = np.empty(0)

    @property
    def tasks(self) -> list[str]:
        """What messages call the tasks."""
        return [f"task {row}" for row in range(len(self.z))]

    def gram(self) -> NDArray[np.float64]:
        """Inner products of the rows of z - base, subtracted and summed in float64."""
        gram = np.zeros((1, len(self.z), len(self.z)))
        with np.errstate(over="ignore", invalid="ignore"):  # found in the result, and named
            for _, difference in self._differences():
                gram += _gram(difference)
        return gram

    def move(self, pull: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
        """Move the centre by a combination of the differences, and the tasks towards it."""
        self._write(pull[0], lambda _, difference: weights[0] @ difference)

    def place(self, pull: NDArray[np.float64], offset: NDArray[np.float64]) -> None:
        """Move the centre by this offset, and the tasks towards it."""
        self._write(pull, lambda block, _: offset[block])

    def _write(self, pull: NDArray[np.float64], offset: Callable[[slice, Any], Any]) -> None:
        """Write block by block, and measure what was written while it is in the cache."""
        self._squares = np.zeros(len(self.z))
        together = np.flatnonzero(pull == 1.0)
        for block, room in self._differences():
            z, base = self.z[:, block], self.base[block]
            center, thetas = self.center[block], self.thetas[:, block]
            np.add(base, offset(block, room), out=center)
            room -= np.subtract(center, base, dtype=np.float64)
            room *= pull[:, np.newaxis]
            # As a move: a task with no pull stays as it is, bit by bit.
            np.subtract(z, room, out=thetas)
            if together.size:
                thetas[together] = center
            np.subtract(thetas, center, out=room, dtype=np.float64)
            self._squares += np.vecdot(room, room)

    def distances(self) -> NDArray[np.float64]:
        """Distances of the written tasks to the written centre."""
        return np.sqrt(self._squares)[np.newaxis]

    def storage(self) -> Storage:
        """How finely the array stores its rows, as long as the longest of them."""
        norm = max(float(np.linalg.norm(row.astype(np.float64, copy=False))) for row in self.z)
        dtype, size = self.z.dtype, np.array([self.z.shape[1]])
        eps = np.array([np.finfo(dtype).eps], dtype=np.float64)
        return Storage([dtype.name], eps, np.array([norm]), size)

    def culprits(self) -> tuple[list[str], str]:
        """Names of rows that are not finite."""
        return [f"task {row}" for row in np.flatnonzero(~np.isfinite(self.z).all(axis=1))], ""

    def _differences(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Blocks of columns, with the rows of z - base there in room that is used again."""
        for block in column_blocks(*self.z.shape):
            z = self.z[:, block]
            if self._room.size < z.size:
                self._room = np.empty(z.size)
            room = self._room[: z.size].reshape(z.shape)
            yield block, np.subtract(z, self.base[block], out=room, dtype=np.float64)


def _gram(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inner products of rows; row by row where a product of matrices is slower."""
    return rows @ rows.T if len(rows) > _FEW else np.vecdot(rows[:, np.newaxis], rows)


def couple_arrays(members: ArrayMembers, request: Request) -> Coupling:
    """Solve in the smaller of the two spaces, write the result, and judge what was written."""
    tether, weight, start, tol, max_iter = request
    n_tasks, n_parameters = members.z.shape
    if n_parameters < n_tasks:
        function, scale = _function_of_parameters(members, tether, weight)
        point, n_iter = solve(function, start, tol, max_iter)
        members.place(point.pull, point.center * scale)
        return measured(members, point.pull, n_iter, request)
    gram = members.gram()
    squares = np.diagonal(gram, axis1=1, axis2=2)
    refuse_not_finite(squares, members)
    step = solve_gram(gram[0], *request)
    members.move(step.pull[np.newaxis], step.weights[np.newaxis])
    scale = float(squares.max()) ** 0.5 or 1.0
    if step.status is Status.CONVERGED and step.wanted.min() >= _VISIBLE * scale:
        return _judged(
            members, _proof(members, tether, step, scale), step.pull, step.n_iter, request
        )
    result = measured(members, step.pull, step.n_iter, request)
    if result.status in (Status.CONVERGED, Status.UNRESOLVED):
        return result
    # The squares in a Gram matrix hide distances below 1e-8 of the largest one.
    function, scale = _function_of_parameters(members, tether, weight)
    center = (members.center - members.base.astype(np.float64)) / scale
    point, n_iter = minimise(function, center, SAFETY * tol, max(1, max_iter - step.n_iter))
    members.place(point.pull, point.center * scale)
    return measured(members, point.pull, step.n_iter + n_iter, request)


def measured(
    members: ArrayMembers, pull: NDArray[np.float64], n_iter: int, request: Request
) -> Coupling:
    """Judge by a pass over tasks before and after."""
    proof = certify(
        members.thetas, members.center, members.z, request.tether, members.base, request.weight
    )
    return _judged(members, proof, pull, n_iter, request)


def _judged(
    members: ArrayMembers,
    proof: Certificate,
    pull: NDArray[np.float64],
    n_iter: int,
    request: Request,
) -> Coupling:
    """Turn a certificate of what was written into the result."""
    active = proof.taut & (pull > 0)
    limit = request.tol + proof.rounding
    status = Status.of(proof.kkt_residual, limit, n_iter, request.max_iter)
    return Coupling(
        pull=pull,
        active=active,
        distances=proof.distances,
        measured=True,
        kkt_residual=proof.kkt_residual,
        n_iter=n_iter,
        status=status_as_stored(members, 0, status, proof.distances, active, request.tether),
    )


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
    with np.errstate(over="ignore", invalid="ignore"):  # found in the squares, and named
        points = np.asarray(np.subtract(members.z, members.base, dtype=np.float64))
        squares = np.vecdot(points, points)
    refuse_not_finite(squares[np.newaxis], members)
    scale = float(squares.max()) ** 0.5 or 1.0
    points /= scale
    return CenterFunction(points, tether.scaled(length=scale), weight), scale
