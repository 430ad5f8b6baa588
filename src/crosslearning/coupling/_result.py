"""Results of a coupling."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from crosslearning.tether import Array, Flags, Reals


class Status(Enum):
    """How a solver ended; the value is the sentence shown to the user."""

    CONVERGED = "The optimality conditions hold to the tolerance."
    MAX_ITER = (
        "The iteration limit was reached before the optimality conditions held to the tolerance. "
        "Raise `max_iter` or `tol`."
    )
    STALLED = (
        "Rounding stopped the solver before the optimality conditions held to the tolerance. "
        "Raise `tol` or use float64 input."
    )
    UNRESOLVED = (
        "The radius is below the resolution of the dtype: rounding moved tasks off it. "
        "Use float64 or a larger `epsilon`."
    )

    @classmethod
    def of(cls, residual: float, limit: float, n_iter: int, max_iter: int) -> Status:
        """Return the status of a solver with this residual after `n_iter` iterations."""
        if residual <= limit:
            return cls.CONVERGED
        return cls.MAX_ITER if n_iter >= max_iter else cls.STALLED


@dataclass(frozen=True, eq=False)
class Coupling:
    """The effect of a joint step on the tasks of a group.

    Attributes
    ----------
    pull : array of shape (n_tasks,)
        Fraction of its distance to the centre by which each task moved: 0 (not at all) to 1.
    active, distances : array of shape (n_tasks,)
        Whether the bound is active, and distances to the centre after the move.
    measured : bool
        Whether the distances were measured on the stored parameters, as is done if rounding could
        change their fourth digit; otherwise they are those of the exact solution.
    kkt_residual : float
        Residual of the optimality conditions, or the largest excess over a radius if that is
        larger; relative to the largest distance before the move.
    n_iter, status : int, Status
        Number of iterations, and how the solver ended; ``status.value`` is a sentence.
    """

    pull: Array
    active: Flags
    distances: Array
    measured: bool
    kkt_residual: float
    n_iter: int
    status: Status

    @property
    def multipliers(self) -> Array:
        """Lagrange multipliers of the problem with half the objective: ``pull / (1 - pull)``."""
        with np.errstate(divide="ignore"):
            return self.pull / (1.0 - self.pull)


@dataclass(frozen=True, eq=False)
class Projection(Coupling):
    """The tasks and the centre after a projection or a proximal step.

    Distances and residual are those of the returned arrays. See :class:`Coupling` for the other
    attributes.

    Attributes
    ----------
    thetas, center : array of shape (n_tasks, n_parameters), (n_parameters,)
        Tasks and centre, in the dtype of the input.
    """

    thetas: Reals
    center: Reals
