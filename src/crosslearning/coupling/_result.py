"""What a projection returns: the vectors, the forces, and the proof."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Projection", "Status", "multipliers", "warn_unless_converged"]


class Status(Enum):
    """How a solver ended; the value is the sentence shown to the user."""

    CONVERGED = "The optimality conditions hold to the tolerance."
    MAX_ITER = (
        "The iteration limit was reached before the optimality conditions held to the tolerance. "
        "Raise `max_iter` or `tol`."
    )
    STALLED = (
        "Rounding stopped the solver before the optimality conditions held to the tolerance. "
        "Raise `tol` or give float64 input."
    )

    UNRESOLVED = (
        "The radius is below what numbers of this size resolve: storing the result moved tasks "
        "beyond it. Use float64 or a larger `epsilon`."
    )

    @classmethod
    def of(cls, residual: float, limit: float, n_iter: int, max_iter: int) -> Status:
        """Status of a solver that ended after `n_iter` iterations with this residual."""
        if residual <= limit:
            return cls.CONVERGED
        return cls.MAX_ITER if n_iter >= max_iter else cls.STALLED


@dataclass(frozen=True, eq=False)
class Projection:
    """The tasks and the centre after a projection or a proximal step.

    Attributes
    ----------
    thetas : array of shape (n_tasks, n_parameters)
        The tasks, in the dtype of the input.
    center : array of shape (n_parameters,)
        The common centre.
    pull : array of shape (n_tasks,)
        Share of its way to the centre that each task was moved, from 0 (untouched) to 1 (onto it).
    active : array of bool of shape (n_tasks,)
        Which tasks the radius holds back.
    distances : array of shape (n_tasks,)
        Distances of the returned tasks to the returned centre, rounding included.
    kkt_residual : float
        How far the returned arrays are from optimal, relative to the size of the problem; see
        :func:`certificate`.
    n_iter : int
        Iterations of the solver.
    status : Status
        How it ended; ``status.value`` is a sentence.
    """

    thetas: NDArray[np.floating[Any]]
    center: NDArray[np.floating[Any]]
    pull: NDArray[np.float64]
    active: NDArray[np.bool_]
    distances: NDArray[np.float64]
    kkt_residual: float
    n_iter: int
    status: Status

    @property
    def multipliers(self) -> NDArray[np.float64]:
        """``pull / (1 - pull)``: the Lagrange multipliers of the halved problem, ``inf`` at 1."""
        return multipliers(self.pull)


def multipliers(pull: NDArray[np.float64]) -> NDArray[np.float64]:
    """Multipliers μ that belong to the pulls λ = μ / (1 + μ)."""
    with np.errstate(divide="ignore"):
        return pull / (1.0 - pull)


def warn_unless_converged(status: Status, residual: float, n_iter: int, stacklevel: int) -> None:
    """Warn the caller that many levels up if a result is not what was asked for."""
    if status is not Status.CONVERGED:
        from crosslearning.exceptions import ConvergenceWarning

        warnings.warn(
            f"{status.value} Relative KKT residual {residual:.1e} after {n_iter} iterations.",
            ConvergenceWarning,
            stacklevel=stacklevel + 1,
        )
