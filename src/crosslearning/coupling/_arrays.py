"""Rows of a NumPy array as members: solve, write the result, and certify what was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from crosslearning.coupling._certificate import Certificate, block_width, certify, column_blocks
from crosslearning.coupling._gram import GramProjection, Request, solve_gram
from crosslearning.coupling._members import (
    Storage,
    exact_combination,
    refuse_not_finite,
    status_as_stored,
)
from crosslearning.coupling._newton import SAFETY, CenterFunction, minimise, solve
from crosslearning.coupling._result import Coupling, Status
from crosslearning.tether import Array, Reals, Tether

_FEW = 64  # rows
_BAND = 8  # rows of a small product
_PIECE = 512  # columns of a small product
_ROW = 1 << 15  # elements of a row that is written
_EPS = float(np.finfo(np.float64).eps)
_VISIBLE = 1e-3  # of the largest distance: above it, distances from a Gram matrix have 10 digits


class ArrayMembers:
    """Tasks `z` around a `base`, the given centre or the mean; results go to `thetas`, `center`."""

    groups = ("",)

    def __init__(self, z: Reals, base: Reals) -> None:
        self.z, self.base = z, base
        self.thetas, self.center = np.empty_like(z), np.empty_like(z[0])
        self._squares = np.zeros(len(z))

    @property
    def tasks(self) -> list[str]:
        """Names of the tasks in messages."""
        return [f"task {row}" for row in range(len(self.z))]

    def gram(self) -> Array:
        """Inner products of the rows of z - base, in float64."""
        n, n_columns = self.z.shape
        gram = np.zeros((n, n))
        wide = min(_up(block_width(n)), _up(n_columns))
        room = np.zeros((n + 1, wide))
        with np.errstate(over="ignore", invalid="ignore"):  # detected in the result
            for block in column_blocks(n_columns, wide):
                z = self.z[:, block]
                here = room[:, : _up(z.shape[1])]
                here[:, z.shape[1] :] = 0.0
                np.subtract(z, self.base[block], out=here[:n, : z.shape[1]], dtype=np.float64)
                gram += _upper_gram(here)
            return (np.triu(gram) + np.triu(gram, 1).T)[np.newaxis]

    def move(self, pull: Array, weights: Array) -> None:
        """Move the centre by a combination of the differences, then the tasks towards it."""
        shares = exact_combination(weights[0], _EPS)

        def others(block: slice, room: Array) -> None:
            np.matmul(shares[:-1], self.z[:, block], out=room)

        self._write(pull[0], shares[-1], others)

    def place(self, pull: Array, offset: Array) -> None:
        """Move the centre by this offset, then the tasks towards it."""
        self._write(pull, 1.0, lambda block, room: np.copyto(room, offset[block]))

    def _write(self, pull: Array, base_share: float, others: Callable[[slice, Any], None]) -> None:
        """Write a block row by row, and measure each row while it is in the cache."""
        self._squares = np.zeros(len(self.z))
        rooms = np.empty((2, min(_ROW, self.z.shape[1])))
        for block in column_blocks(self.z.shape[1], _ROW):
            center = self.center[block]
            new, room = rooms[:, : len(center)]
            others(block, new)
            np.multiply(self.base[block], base_share, out=room, dtype=np.float64)
            np.add(new, room, out=center, casting="same_kind")
            center = center.astype(np.float64, copy=False)
            rows = zip(self.z[:, block], self.thetas[:, block], pull.tolist(), strict=True)
            for i, (z, theta, share) in enumerate(rows):
                if share in (0.0, 1.0):  # exact copies
                    theta[:] = center if share else z
                else:
                    moved = theta if theta.dtype == np.float64 else new
                    # Rounds once only where a task ends close to the centre.
                    np.subtract(z, center, out=moved, dtype=np.float64)
                    np.multiply(moved, 1.0 - share, out=moved)
                    np.add(moved, center, out=theta, casting="same_kind")
                np.subtract(theta, center, out=room)
                self._squares[i] += room @ room

    def distances(self) -> Array:
        """Distances of the written tasks to the written centre."""
        return np.sqrt(self._squares)[np.newaxis]

    def storage(self) -> Storage:
        """Precision of the array, for rows as long as the longest."""
        norm = max(float(np.linalg.norm(row.astype(np.float64, copy=False))) for row in self.z)
        dtype, size = self.z.dtype, np.array([self.z.shape[1]])
        eps = np.array([np.finfo(dtype).eps], dtype=np.float64)
        return Storage([dtype.name], eps, np.array([norm]), size)

    def culprits(self) -> tuple[list[str], str]:
        """Names of the rows that are not finite."""
        return [f"task {row}" for row in np.flatnonzero(~np.isfinite(self.z).all(axis=1))], ""


def _up(width: int) -> int:
    """Round up to a multiple of the piece."""
    return -(-width // _PIECE) * _PIECE


def _upper_gram(rows: Array) -> Array:
    """Inner products of all rows but the last, which is 0; valid on and above the diagonal."""
    # For few rows, BLAS is faster with small products of two different matrices than with a matrix
    # times its own transpose.
    n = len(rows) - 1
    if n > _FEW:
        return rows[:n] @ rows[:n].T
    gram = np.zeros((n, n))
    pieces = rows.reshape(n + 1, -1, _PIECE).transpose(1, 0, 2)
    for i in range(0, n, _BAND):
        band = pieces[:, i : min(i + _BAND, n)] @ pieces[:, i:].transpose(0, 2, 1)
        gram[i : i + _BAND, i:] = band.sum(axis=0)[:, :-1]
    return gram


def couple_arrays(members: ArrayMembers, request: Request) -> Coupling:
    """Solve in the smaller of the two spaces, write the result, and certify it."""
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
    # A Gram matrix cannot resolve distances below 1e-8 of the largest one.
    function, scale = _function_of_parameters(members, tether, weight)
    center = (members.center - members.base.astype(np.float64)) / scale
    point, n_iter = minimise(function, center, SAFETY * tol, max(1, max_iter - step.n_iter))
    members.place(point.pull, point.center * scale)
    return measured(members, point.pull, step.n_iter + n_iter, request)


def measured(members: ArrayMembers, pull: Array, n_iter: int, request: Request) -> Coupling:
    """Certify with a pass over the tasks before and after."""
    proof = certify(
        members.thetas, members.center, members.z, request.tether, members.base, request.weight
    )
    return _judged(members, proof, pull, n_iter, request)


def _judged(
    members: ArrayMembers, proof: Certificate, pull: Array, n_iter: int, request: Request
) -> Coupling:
    """Turn the certificate into the result."""
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
    """Certify by comparing the written distances with those that the Gram matrix implies."""
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
    """Build the function of the centre in parameter space, and its unit, the largest distance."""
    with np.errstate(over="ignore", invalid="ignore"):  # detected in the squares
        points = np.asarray(np.subtract(members.z, members.base, dtype=np.float64))
        squares = np.vecdot(points, points)
    refuse_not_finite(squares[np.newaxis], members)
    scale = float(squares.max()) ** 0.5 or 1.0
    points /= scale
    return CenterFunction(points, tether.scaled(length=scale), weight), scale
