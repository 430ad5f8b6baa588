"""Project the rows of an array, or take the proximal step of a tether, and certify the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.coupling._certificate import Certificate, block_width, blocks, certify
from crosslearning.coupling._checks import check_problem, is_positive
from crosslearning.coupling._gram import GramProjection, Request, solve_gram, subgradient_pulls
from crosslearning.coupling._inner_products import PIECE, InnerProducts, symmetric
from crosslearning.coupling._members import (
    Coupling,
    Projection,
    Status,
    Storage,
    exact_combination,
    refuse_not_finite,
    status_as_stored,
    warn_unless_converged,
    warn_unless_resolved,
)
from crosslearning.coupling._newton import SAFETY, CenterFunction, minimise, solve
from crosslearning.tether import Array, Reals, Tether

_DEFAULTS = {"newton": (1e-10, 100), "subgradient": (1e-6, 20_000)}
_ROW = 1 << 15  # elements of a row that is written
_EPS = float(np.finfo(np.float64).eps)
_VISIBLE = 1e-3  # of the largest distance: above it, distances from a Gram matrix have 10 digits


def project(
    thetas: ArrayLike,
    epsilon: ArrayLike,
    *,
    center: ArrayLike | None = None,
    center_weight: float | None = None,
    method: Literal["newton", "subgradient"] = "newton",
    start: ArrayLike | None = None,
    tol: float | None = None,
    max_iter: int | None = None,
) -> Projection:
    r"""Move tasks and centre as little as possible so that all tasks are within ε of the centre.

    .. math::

        \min_{\theta, \theta_g} \sum_i \|\theta_i - z_i\|^2 + w_g \|\theta_g - z_g\|^2
        \quad\text{subject to}\quad \|\theta_i - \theta_g\| \le \varepsilon

    Parameters
    ----------
    thetas : array of shape (n_tasks, n_parameters)
        The tasks :math:`z_i`. float32 and float64 keep their dtype, but the problem is solved in
        float64.
    epsilon : float or array of shape (n_tasks,)
        Radius, one for all tasks or one per task. 0 gives the weighted mean.
    center : array of shape (n_parameters,), optional
        The given centre :math:`z_g`. By default the centre is free (:math:`w_g = 0`); if it is not
        unique, the feasible one nearest the mean of the tasks is taken.
    center_weight : float, optional
        :math:`w_g`, at least 1e-9; 1 by default, as in the paper.
    method : {"newton", "subgradient"}, default="newton"
        Newton's method, exact in a few steps; or the paper's Algorithm 2, a dual subgradient
        method that is orders of magnitude slower and needs a given centre.
    start : array of shape (n_tasks,), optional
        Initial pulls, such as those of a similar projection.
    tol : float, optional
        For Newton, the largest relative KKT residual, 1e-10 by default. For Algorithm 2, its δ
        relative to the square of the largest distance to the centre, 1e-6 by default.
    max_iter : int, optional
        Largest number of iterations; 100 for Newton, 20,000 for Algorithm 2 by default.

    Warns
    -----
    ConvergenceWarning
        If the tolerance was not reached, or ε is below the resolution of the dtype; see ``status``.

    Examples
    --------
    >>> result = project([[4.0, 0.0], [0.0, 0.0], [-1.0, 0.0]], epsilon=2.0)
    >>> result.thetas
    array([[ 3.5,  0. ],
           [ 0. ,  0. ],
           [-0.5,  0. ]])
    >>> result.center
    array([1.5, 0. ])
    >>> result.active
    array([ True, False,  True])
    """
    if method not in tuple(_DEFAULTS):
        raise ValueError(f"`method` must be 'newton' or 'subgradient'; got {method!r}.")
    default_tol, default_max_iter = _DEFAULTS[method]
    tol = default_tol if tol is None else tol
    max_iter = default_max_iter if max_iter is None else max_iter
    z, tether, base, weight = check_problem(thetas, Tether(epsilon), center, center_weight)
    members = ArrayMembers(z, base)
    request = Request.checked(tether, weight, start, tol, max_iter, len(z))
    return _projection(members, request, couple_arrays if method == "newton" else _algorithm_2)


def prox(
    thetas: ArrayLike,
    tether: Tether,
    *,
    center: ArrayLike | None = None,
    center_weight: float | None = None,
    step_size: float = 1.0,
    start: ArrayLike | None = None,
    tol: float = 1e-10,
    max_iter: int = 100,
) -> Projection:
    r"""Take the proximal step of a tether: a projection, or a step with a spring or a tension.

    .. math::

        \min_{\theta, \theta_g} \tfrac12 \sum_i \|\theta_i - z_i\|^2
        + \tfrac12 w_g \|\theta_g - z_g\|^2 + \eta \sum_i h(\|\theta_i - \theta_g\|)

    Parameters
    ----------
    thetas, center, center_weight, start, tol, max_iter
        As in :func:`project`.
    tether : Tether
        The law :math:`h`.
    step_size : float, default=1
        :math:`\eta`, the learning rate of the preceding gradient step. It scales spring and tension
        but not the radius.

    Notes
    -----
    With tension alone and tasks on a line, a free centre may not be unique, like the median of two
    values; one of the minimisers is returned.

    Examples
    --------
    >>> from crosslearning import Tether
    >>> prox([[4.0], [-4.0]], Tether(stiffness=1.0)).thetas
    array([[ 2.],
           [-2.]])
    """
    if not is_positive(step_size):
        raise ValueError(f"`step_size` must be a positive finite number; got {step_size!r}.")
    z, tether, base, weight = check_problem(thetas, tether, center, center_weight)
    tether = tether.scaled(step_size=step_size)
    request = Request.checked(tether, weight, start, tol, max_iter, len(z))
    return _projection(ArrayMembers(z, base), request, couple_arrays)


def _projection(
    members: ArrayMembers, request: Request, solver: Callable[[ArrayMembers, Request], Coupling]
) -> Projection:
    result = solver(members, request)
    warn_unless_converged(result)
    warn_unless_resolved(result, request.tether, members, 0)
    return Projection(**vars(result), thetas=members.thetas, center=members.center)


def _algorithm_2(members: ArrayMembers, request: Request) -> Coupling:
    """Solve approximately by the paper's dual subgradient method."""
    if request.weight == 0:
        raise ValueError(
            "The paper's Algorithm 2 needs a given centre; got none. Pass `center`, or use "
            "method='newton' for a free centre."
        )
    gram = members.gram()
    refuse_not_finite(np.diagonal(gram, axis1=1, axis2=2), members)
    pull, n_iter, done = subgradient_pulls(gram[0], request)
    members.move(pull[np.newaxis], (pull / (request.weight + pull.sum()))[np.newaxis])
    result = measured(members, pull, n_iter, request)
    return replace(result, status=Status.CONVERGED if done else Status.MAX_ITER)


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
        wide = -(-min(block_width(n), n_columns) // PIECE) * PIECE
        room = np.zeros((n + 1, wide))
        products = InnerProducts(room)
        with np.errstate(over="ignore", invalid="ignore"):  # detected in the result
            for block in blocks(n_columns, wide):
                z = self.z[:, block]
                width = z.shape[1]
                np.subtract(z, self.base[block], out=room[:n, :width], dtype=np.float64)
                gram += products.upper(width)
            return symmetric(gram)[np.newaxis]

    def move(self, pull: Array, weights: Array) -> None:
        """Move the centre by a combination of the differences, then the tasks towards it."""
        shares, z = exact_combination(weights[0], _EPS), self.z
        self._write(pull[0], shares[-1], lambda b, out: np.matmul(shares[:-1], z[:, b], out=out))

    def place(self, pull: Array, offset: Array) -> None:
        """Move the centre by this offset, then the tasks towards it."""
        self._write(pull, 1.0, lambda b, out: np.copyto(out, offset[b]))

    def _write(self, pull: Array, base_share: float, others: Callable[[slice, Any], None]) -> None:
        """Write a block row by row, and measure each row while it is in the cache."""
        self._squares = np.zeros(len(self.z))
        rooms = np.empty((2, min(_ROW, self.z.shape[1])))
        for block in blocks(self.z.shape[1], _ROW):
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


def couple_arrays(members: ArrayMembers, request: Request) -> Coupling:
    """Solve in the smaller of the two spaces, write the result, and certify it."""
    n_tasks, n_parameters = members.z.shape
    if n_parameters < n_tasks:
        function, scale = _in_parameter_space(members, request)
        point, n_iter = solve(function, request.start, request.tol, request.max_iter)
        members.place(point.pull, point.center * scale)
        return measured(members, point.pull, n_iter, request)
    gram = members.gram()
    squares = np.diagonal(gram, axis1=1, axis2=2)
    refuse_not_finite(squares, members)
    step = solve_gram(gram[0], *request)
    members.move(step.pull[np.newaxis], step.weights[np.newaxis])
    scale = float(squares.max()) ** 0.5 or 1.0
    if step.status is Status.CONVERGED and step.wanted.min() >= _VISIBLE * scale:
        proof = _proof(members, request.tether, step, scale)
        return _judged(members, proof, step.pull, step.n_iter, request)
    result = measured(members, step.pull, step.n_iter, request)
    if result.status in (Status.CONVERGED, Status.UNRESOLVED):
        return result
    # A Gram matrix cannot resolve distances below 1e-8 of the largest one.
    function, scale = _in_parameter_space(members, request)
    center = (members.center - members.base.astype(np.float64)) / scale
    left = max(1, request.max_iter - step.n_iter)
    point, n_iter = minimise(function, center, SAFETY * request.tol, left)
    members.place(point.pull, point.center * scale)
    return measured(members, point.pull, step.n_iter + n_iter, request)


def measured(members: ArrayMembers, pull: Array, n_iter: int, request: Request) -> Coupling:
    """Certify with a pass over the tasks before and after."""
    z, base, tether = members.z, members.base, request.tether
    proof = certify(members.thetas, members.center, z, tether, base, request.weight)
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


def _proof(members: ArrayMembers, tether: Tether, step: GramProjection, unit: float) -> Certificate:
    """Certify by comparing the written distances with those that the Gram matrix implies."""
    distances = members.distances()[0]
    size = float(np.linalg.norm(members.base)) + unit
    return Certificate(
        infeasibility=max(float((distances - tether.epsilon).max()), 0.0) / unit,
        imbalance=step.kkt_residual,
        misplacement=float(np.abs(distances - step.distances).max()) / unit,
        distances=distances,
        taut=tether.is_taut(step.wanted),
        rounding=4.0 * float(np.finfo(members.z.dtype).eps) * size / unit,
    )


def _in_parameter_space(members: ArrayMembers, request: Request) -> tuple[CenterFunction, float]:
    """Build the function of the centre in parameter space, and its unit, the largest distance."""
    with np.errstate(over="ignore", invalid="ignore"):  # detected in the squares
        points = np.asarray(np.subtract(members.z, members.base, dtype=np.float64))
        squares = np.vecdot(points, points)
    refuse_not_finite(squares[np.newaxis], members)
    scale = float(squares.max()) ** 0.5 or 1.0
    points /= scale
    return CenterFunction(points, request.tether.scaled(length=scale), request.weight), scale
