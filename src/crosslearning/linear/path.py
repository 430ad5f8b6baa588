"""Solutions for a sequence of radii, each started from the one before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.convex.blocks import BLOCKS, coupling_of, per_block
from crosslearning.linear.logistic import CrossLogisticRegression
from crosslearning.linear.ridge import CrossRidge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from crosslearning.convex.blocks import PerBlock
    from crosslearning.linear._base import CrossLinearModel

__all__ = ["CrossPath", "cross_logistic_path", "cross_ridge_path", "radii"]


@dataclass(frozen=True, eq=False)
class CrossPath:
    """Solutions along a path of radii; the first axis of every array runs over the radii.

    Attributes
    ----------
    epsilons : list of float or dict
        The radii.
    coef, intercept, center_coef, center_intercept : array
        As in the estimators.
    distances, forces : array of shape (n_epsilons, n_tasks), or (n_epsilons, n_blocks, n_tasks)
        Distances to the centre and forces, the latter shape for radii by block.
    objective, kkt_residual, n_iter : array of shape (n_epsilons,)
        Value, relative residual and Newton steps.
    tasks : array of shape (n_tasks,)
        Labels.
    """

    epsilons: list[PerBlock]
    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    center_coef: NDArray[np.float64]
    center_intercept: NDArray[np.float64]
    distances: NDArray[np.float64]
    forces: NDArray[np.float64]
    objective: NDArray[np.float64]
    kkt_residual: NDArray[np.float64]
    n_iter: NDArray[np.int64]
    tasks: NDArray[Any]


def radii(end: float, n_epsilons: int, smallest: float) -> list[float]:
    """0, a geometric sequence up to the right end of the path, and infinity."""
    if not (n_epsilons >= 2 and 0 < smallest < 1):
        raise ValueError(
            "`n_epsilons` must be at least 2 and `smallest` between 0 and 1; got "
            f"{n_epsilons!r} and {smallest!r}."
        )
    if end <= 0:
        return [0.0, np.inf]
    return [0.0, *np.geomspace(smallest * end, end, n_epsilons).tolist(), np.inf]


def cross_ridge_path(
    X: ArrayLike,
    y: ArrayLike,
    tasks: ArrayLike | None = None,
    *,
    epsilons: Sequence[PerBlock] | None = None,
    n_epsilons: int = 20,
    smallest: float = 1e-3,
    sample_weight: ArrayLike | None = None,
    **parameters: Any,
) -> CrossPath:
    """Ridge regressions for related tasks, from pooled to separate.

    Parameters
    ----------
    X, y, tasks, sample_weight
        As in :meth:`CrossRidge.fit`.
    epsilons : sequence of float or dict, optional
        Radii, in an order in which neighbours are similar. By default 0, `n_epsilons` in geometric
        progression up to the radius from which on the tasks are independent, and infinity.
    n_epsilons : int, default=20
        Number of positive finite radii.
    smallest : float, default=1e-3
        Smallest of them, as a share of the largest.
    **parameters
        Other parameters of :class:`CrossRidge`, such as ``alpha``.

    Returns
    -------
    CrossPath

    Examples
    --------
    >>> from crosslearning.datasets import load_hsb82
    >>> pupils = load_hsb82()
    >>> path = cross_ridge_path(pupils.X, pupils.y, pupils.tasks, n_epsilons=5)
    >>> path.coef.shape
    (7, 160, 3)
    >>> bool((np.diff(path.objective) < 1e-6).all())
    True
    """
    model = CrossRidge(**parameters)
    return _path(model, X, y, tasks, sample_weight, epsilons, n_epsilons, smallest)


def cross_logistic_path(
    X: ArrayLike,
    y: ArrayLike,
    tasks: ArrayLike | None = None,
    *,
    epsilons: Sequence[PerBlock] | None = None,
    n_epsilons: int = 20,
    smallest: float = 1e-3,
    sample_weight: ArrayLike | None = None,
    **parameters: Any,
) -> CrossPath:
    """Logistic regressions for related tasks, from pooled to separate.

    Parameters
    ----------
    X, y, tasks, sample_weight
        As in :meth:`CrossLogisticRegression.fit`.
    epsilons, n_epsilons, smallest
        As in :func:`cross_ridge_path`.
    **parameters
        Other parameters of :class:`CrossLogisticRegression`.

    Returns
    -------
    CrossPath
    """
    model = CrossLogisticRegression(**parameters)
    return _path(model, X, y, tasks, sample_weight, epsilons, n_epsilons, smallest)


def _path(
    model: CrossLinearModel,
    X: ArrayLike,
    y: ArrayLike,
    tasks: ArrayLike | None,
    sample_weight: ArrayLike | None,
    epsilons: Sequence[PerBlock] | None,
    n_epsilons: int,
    smallest: float,
) -> CrossPath:
    model._validate_params()
    rows = model._check_rows(X, y, tasks, sample_weight)
    design = model._design()
    scaling = design.scaling(rows)
    model._check_metric()
    model.metric_, _ = model._learned(design, rows, scaling)
    problem = design.problem(rows, scaling).with_ridge(model.alpha).in_variables(model.metric_)
    if epsilons is None:
        free = coupling_of(np.inf, model.stiffness, model.tension, problem)
        end = max(problem.end(free, b) for b in range(len(free.blocks)))
        epsilons = radii(end, n_epsilons, smallest)
    if per_block(*epsilons):  # then a number is a radius of each block
        epsilons = [e if isinstance(e, dict) else dict.fromkeys(BLOCKS, e) for e in epsilons]
    results: list[dict[str, Any]] = []
    solution = None
    for epsilon in reversed(epsilons):  # from separate on fewer steps are needed
        coupling = coupling_of(epsilon, model.stiffness, model.tension, problem)
        solution = problem.fit(coupling, solution)
        model.epsilon = epsilon
        model._store(design, scaling, problem, coupling, solution)
        model._warn_unless_converged(stacklevel=4)
        results.insert(0, vars(model).copy())
    return _collected(list(epsilons), results, model.tasks_)


def _collected(
    epsilons: list[Any], results: list[dict[str, Any]], tasks: NDArray[Any]
) -> CrossPath:
    """Stack the fitted attributes at all radii."""

    def column(name: str) -> NDArray[Any]:
        values = [result[name] for result in results]
        return np.array([np.stack([*v.values()]) if isinstance(v, dict) else v for v in values])

    return CrossPath(
        epsilons=epsilons,
        coef=column("coef_"),
        intercept=column("intercept_"),
        center_coef=column("center_coef_"),
        center_intercept=column("center_intercept_"),
        distances=column("distances_"),
        forces=column("forces_"),
        objective=column("objective_"),
        kkt_residual=column("kkt_residual_"),
        n_iter=column("n_iter_"),
        tasks=tasks,
    )
