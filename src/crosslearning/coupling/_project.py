"""Project vectors, or take the proximal step of a tether."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.coupling._arrays import ArrayMembers, couple_arrays, measured
from crosslearning.coupling._checks import check_problem, is_positive
from crosslearning.coupling._dual_subgradient import subgradient_pulls
from crosslearning.coupling._gram import Request
from crosslearning.coupling._members import (
    refuse_not_finite,
    warn_unless_converged,
    warn_unless_resolved,
)
from crosslearning.coupling._result import Coupling, Projection, Status
from crosslearning.tether import Tether

_DEFAULTS = {"newton": (1e-10, 100), "subgradient": (1e-6, 20_000)}


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
        The tasks :math:`z_i`. float32 and float64 keep their dtype, integers become float64; the
        problem is solved in float64.
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
        If the tolerance was not reached, or if ε is below the resolution of the dtype. The result
        is still returned, with its ``status``.

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
    if method == "newton":
        return _newton(members, request)
    result = _algorithm_2(members, request)
    warn_unless_converged(result)
    return _projection(members, result)


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
    thetas : array of shape (n_tasks, n_parameters)
        The tasks :math:`z_i`, as in :func:`project`.
    tether : Tether
        The law :math:`h`.
    center, center_weight, start, tol, max_iter
        As in :func:`project`.
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
    return _newton(ArrayMembers(z, base), request)


def _newton(members: ArrayMembers, request: Request) -> Projection:
    """Solve by Newton's method."""
    result = couple_arrays(members, request)
    warn_unless_converged(result)
    warn_unless_resolved(result, request.tether, members, 0)
    return _projection(members, result)


def _projection(members: ArrayMembers, result: Coupling) -> Projection:
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
    pull, n_iter, done = subgradient_pulls(gram[0], *request)
    members.move(pull[np.newaxis], (pull / (request.weight + pull.sum()))[np.newaxis])
    result = measured(members, pull, n_iter, request)
    return replace(result, status=Status.CONVERGED if done else Status.MAX_ITER)
