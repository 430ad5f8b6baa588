"""Solutions for a sequence of radii, with warm starts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.convex.solver.problem import BLOCKS, PerBlock, per_block
from crosslearning.linear._cv import radii
from crosslearning.linear._tethered import CrossTethered
from crosslearning.linear.logistic import CrossLogisticRegression
from crosslearning.linear.ridge import CrossRidge
from crosslearning.tether import Array

if TYPE_CHECKING:
    from crosslearning.report.plots import Plot


@dataclass(frozen=True, eq=False, repr=False)
class CrossPath:
    """Solutions along a path of radii; the first axis of every array runs over the radii.

    Attributes
    ----------
    epsilons, tasks
        Radii, and labels of the tasks.
    coef, intercept, center_coef, center_intercept, distances, forces, objective, and all others
        As in the estimators; distances and forces by block have their blocks on the second axis.
    """

    epsilons: list[PerBlock]
    coef: Array
    intercept: Array
    center_coef: Array
    center_intercept: Array
    distances: Array
    forces: Array
    objective: Array
    kkt_residual: Array
    n_iter: NDArray[np.int64]
    tasks: NDArray[Any]

    def plot(self, coefficient: int | None = None) -> "Plot":
        """Draw a coefficient of every task against the radius; needs the extra ``app``.

        By default it is the one that differs most between separate models, relative to its size.
        Coefficients of several classes are numbered together.
        """
        from crosslearning.report import plots

        return plots.path(self, coefficient)

    def __repr__(self) -> str:
        return f"<CrossPath of {len(self.epsilons)} radii for {len(self.tasks)} tasks>"


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
    epsilons : sequence of float or of dict by block, optional
        Radii, ordered so that neighbours are similar. By default 0, a geometric progression up to
        the radius at which the tasks become independent, and infinity.
    n_epsilons, smallest, **parameters
        As in :class:`CrossRidgeCV` and, but for ``epsilon``, :class:`CrossRidge`.

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
    model, rows = CrossRidge(**parameters), (X, y, tasks, sample_weight)
    return _path(model, rows, epsilons, n_epsilons, smallest)


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

    Parameters are those of :func:`cross_ridge_path` and :class:`CrossLogisticRegression`.
    """
    model, rows = CrossLogisticRegression(**parameters), (X, y, tasks, sample_weight)
    return _path(model, rows, epsilons, n_epsilons, smallest)


def _path(
    model: CrossTethered,
    rows: tuple[Any, ...],
    epsilons: Sequence[PerBlock] | None,
    n_epsilons: int,
    smallest: float,
) -> CrossPath:
    model._validate_params()
    table = model._check_rows(*rows)
    scaling = model._prepare(table)
    problem = model._problem(table, scaling, model.alpha)
    if epsilons is None:
        free = problem.coupling(np.inf, model.stiffness, model.tension)
        end = max(problem.end(free, b) for b in range(len(free.blocks)))
        epsilons = radii(end, n_epsilons, smallest)
    if per_block(*epsilons):  # a number is then the radius of each block
        epsilons = [e if isinstance(e, dict) else dict.fromkeys(BLOCKS, e) for e in epsilons]
    results: list[dict[str, Any]] = []
    solution = None
    for model.epsilon in reversed(epsilons):  # starting from separate models takes fewer steps
        coupling = problem.coupling(*model._knobs()[1:])
        solution = problem.fit(coupling, solution)
        model._store(scaling, problem, coupling, solution)
        results.insert(0, vars(model).copy())
    arrays = {}
    for name in CrossPath.__annotations__.keys() - {"epsilons", "tasks"}:
        values = [result[f"{name}_"] for result in results]
        arrays[name] = np.array([[*v.values()] if isinstance(v, dict) else v for v in values])
    return CrossPath(epsilons=list(epsilons), tasks=model.tasks_, **arrays)
