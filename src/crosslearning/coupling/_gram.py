"""The joint step from the Gram matrix of differences alone, and the paper's Algorithm 2."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.coupling._checks import (
    check_center_weight,
    check_gram,
    check_start,
    check_stopping,
    check_tether,
)
from crosslearning.coupling._members import (
    Coupling,
    Members,
    Status,
    refuse_not_finite,
    status_as_stored,
    warn_unless_converged,
    warn_unless_resolved,
)
from crosslearning.coupling._newton import CenterFunction, solve
from crosslearning.tether import Array, Tether

_SMALLEST_JITTER = 4.0 * float(np.finfo(np.float64).eps)
_LARGEST_JITTER = 1e-3  # beyond this, rounding cannot explain an indefinite matrix


class Request(NamedTuple):
    """Validated arguments of a solver; a weight of 0 frees the centre."""

    tether: Tether
    weight: float
    start: Array | None
    tol: float = 1e-10
    max_iter: int = 100

    @classmethod
    def checked(
        cls, tether: Tether, weight: float, start: ArrayLike | None, tol: Any, max_iter: Any, n: int
    ) -> Request:
        """Validate the arguments for `n` tasks."""
        check_stopping(tol, max_iter)
        weight = check_center_weight(weight, allow_zero=True)
        return cls(check_tether(tether, n), weight, check_start(start, n), tol, max_iter)


@dataclass(frozen=True, eq=False)
class GramProjection(Coupling):
    """The result of :func:`prox_gram`: two numbers per task, with which the caller moves the tasks.

    The new centre is ``z_g + Σ weights[i] (z_i - z_g)``, and the new tasks are
    ``(1 - pull[i]) z_i + pull[i] center``. Distances and residual come from the Gram matrix.

    Attributes
    ----------
    weights, wanted : array of shape (n_tasks,)
        Coefficients of the centre, and distances of the original tasks to the new centre.
    """

    weights: Array
    wanted: Array


def prox_gram(
    gram: ArrayLike,
    tether: Tether,
    *,
    center_weight: float = 1.0,
    start: ArrayLike | None = None,
    tol: float = 1e-10,
    max_iter: int = 100,
) -> GramProjection:
    """Take the proximal step of a tether, given the Gram matrix of the differences from the centre.

    The cost does not depend on the number of parameters: sum the Gram matrix over shards, devices
    or clients, call this function, and let each apply the result to its own parameters.

    Parameters
    ----------
    gram : array of shape (n_tasks, n_tasks)
        ``gram[i, j]`` is the inner product of z_i - z_g and z_j - z_g. Subtract first, then
        multiply: inner products of the raw vectors suffer from cancellation.
    tether : Tether
        The radial law.
    center_weight : float, default=1
        Weight of the given centre z_g. 0 makes the centre free; z_g may then be any point in the
        affine hull of the tasks, preferably their mean.
    start, tol, max_iter
        As in :func:`project`.

    Examples
    --------
    >>> import numpy as np
    >>> from crosslearning import Tether
    >>> tasks = np.array([[3.0, 0.0], [-3.0, 0.0]])
    >>> step = prox_gram(tasks @ tasks.T, Tether(epsilon=1.0))
    >>> step.pull
    array([0.66666667, 0.66666667])
    >>> np.round(step.weights @ tasks, 12) + 0.0
    array([0., 0.])
    """
    K = check_gram(gram)
    request = Request.checked(tether, center_weight, start, tol, max_iter, len(K))
    result = solve_gram(K, *request)
    warn_unless_converged(result)
    return result


def solve_gram(
    K: Array, tether: Tether, weight: float, start: Array | None, tol: float, max_iter: int
) -> GramProjection:
    """Solve from a checked Gram matrix, without warnings."""
    scale = math.sqrt(K.diagonal().max())
    if scale == 0:  # all tasks are at the centre
        still = np.zeros(len(K))
        return GramProjection(
            pull=tether.pull(still),
            active=still.astype(bool),
            distances=still,
            measured=False,
            kkt_residual=0.0,
            n_iter=0,
            status=Status.CONVERGED,
            weights=still,
            wanted=still,
        )
    factor = _factor(K / scale**2)
    origin = factor.mean(axis=0) if weight == 0 else 0.0
    function = CenterFunction(factor - origin, tether.scaled(length=scale), weight)
    point, n_iter = solve(function, start, tol, max_iter)
    residual = point.gradient_norm / function.total_weight
    wanted = point.distance * scale
    return GramProjection(
        pull=point.pull,
        active=function.tether.is_taut(point.distance) & (point.pull > 0),
        distances=(1.0 - point.pull) * wanted,
        measured=False,
        kkt_residual=residual,
        n_iter=n_iter,
        status=Status.of(residual, tol, n_iter, max_iter),
        weights=np.linalg.solve(factor.T, origin + point.center),
        wanted=wanted,
    )


def _factor(K: Array) -> Array:
    """Return points whose Gram matrix is K, as rows of a Cholesky factor."""
    # Dependent tasks make K singular. The jitter is no larger than the rounding errors in K, and
    # grows only if K was summed in lower precision.
    jitter = _SMALLEST_JITTER
    while jitter < _LARGEST_JITTER:
        try:
            return np.asarray(np.linalg.cholesky(K + jitter * np.eye(len(K))), dtype=np.float64)
        except np.linalg.LinAlgError:
            jitter *= 10.0
    raise ValueError("`gram` must be positive semidefinite. Compute U @ U.T from differences U.")


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

    Every group of members is coupled independently, and has one result. A task that is NaN or
    infinite raises a ValueError, and nothing is moved.

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
        Whether to warn if the radius is below the resolution of the dtype.

    Warns
    -----
    ConvergenceWarning
        If the solver did not reach its tolerance; a `ResolutionWarning` if rounding moved a task
        off its radius.
    """
    n_groups, n_tasks = len(members.groups), len(members.tasks)
    tethers = [tether] * n_groups if isinstance(tether, Tether) else list(tether)
    requests = [
        Request.checked(law, center_weight, first, tol, max_iter, n_tasks)
        for law, first in zip(tethers, start or [None] * n_groups, strict=True)
    ]
    return couple_checked(members, requests, tell_resolution)


def couple_checked(
    members: Members, requests: Sequence[Request], tell_resolution: bool
) -> tuple[Coupling, ...]:
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
    results = []
    for group, (step, stored) in enumerate(zip(steps, distances, strict=True)):
        tether, scale = requests[group].tether, math.sqrt(squares[group].max()) or 1.0
        excess = float((stored - tether.epsilon).max()) / scale
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
        warn_unless_converged(coupling)
        if tell_resolution:
            warn_unless_resolved(coupling, tether, members, group)
    return tuple(results)


def subgradient_iterates(
    gram: ArrayLike,
    epsilon: ArrayLike,
    *,
    center_weight: float = 1.0,
    step: float = 1.0,
    start: ArrayLike | None = None,
) -> Iterator[tuple[Array, Array]]:
    r"""Iterate Algorithm 2 endlessly; the caller decides when to stop.

    With :math:`\lambda_i = \mu_i / (1 + \mu_i)` and :math:`a = w_g + \sum_i \lambda_i`,

    .. math::

        \partial_i = (1 - \lambda_i)^2 \Bigl\|z_i - \tfrac1a \bigl(w_g z_g
        + \textstyle\sum_j \lambda_j z_j\bigr)\Bigr\|^2 - \varepsilon^2, \qquad
        \mu_i \leftarrow \bigl[\mu_i + \alpha_k \partial_i\bigr]_+, \qquad
        \alpha_k = \frac{\alpha}{k + 1} .

    Parameters
    ----------
    gram : array of shape (n_tasks, n_tasks)
        Inner products of the differences from the given centre. The square root of the largest
        diagonal entry is the unit of length.
    epsilon : float or array of shape (n_tasks,)
        Radius, on the scale of the Gram matrix.
    center_weight : float, default=1
        Weight of the given centre, 1 in the paper. Algorithm 2 does not support a free centre.
    step : float, default=1
        :math:`\alpha`, in units of inverse squared length.
    start : array of shape (n_tasks,), optional
        Initial :math:`\lambda_i` (the pulls), below 1. All 0 by default.

    Yields
    ------
    pull, subgradient : array of shape (n_tasks,)
        :math:`\lambda_i`, and :math:`\partial_i` relative to the squared unit of length.
    """
    K = check_gram(gram)
    weight = check_center_weight(center_weight)
    unit = float(K.diagonal().max()) or 1.0
    K = K / unit
    if not step > 0:
        raise ValueError(f"`step` must be positive; got {step!r}. 1 is a cautious choice.")
    radius = np.broadcast_to(check_tether(Tether(epsilon), len(K)).epsilon, len(K))
    bound = np.where(np.isfinite(radius), radius, 0.0) ** 2 / unit
    checked = check_start(start, len(K))
    pull = np.zeros(len(K)) if checked is None else checked
    mu = pull / np.maximum(1.0 - pull, np.finfo(np.float64).eps)
    mu[np.isinf(radius)] = 0.0
    for k in count():
        pull = mu / (1.0 + mu)
        weights = pull / (weight + pull.sum())
        inner = K @ weights
        square = np.maximum(K.diagonal() - 2.0 * inner + weights @ inner, 0.0)
        subgradient = np.where(np.isfinite(radius), (1.0 - pull) ** 2 * square - bound, -np.inf)
        yield pull, subgradient
        mu = np.maximum(mu + step / (k + 1) * subgradient, 0.0)


def subgradient_pulls(gram: Array, request: Request) -> tuple[Array, int, bool]:
    """Run Algorithm 2 until |⟨∂, μ⟩| ≤ δ; return pulls, iterations and success."""
    tether, weight, start, tol, max_iter = request
    iterates = subgradient_iterates(gram, tether.epsilon, center_weight=weight, start=start)
    for k, (pull, subgradient) in enumerate(islice(iterates, max_iter + 1)):
        mu = pull / (1.0 - pull)
        gap = abs(float(mu[mu > 0] @ subgradient[mu > 0]))  # others may be 0 times infinity
        # The paper's rule alone holds at μ = 0 even if that is infeasible.
        if gap <= tol and subgradient.max() <= tol:
            return pull, k, True
    return pull, max_iter, False
