"""What a projection returns: the vectors, the forces, and the proof."""

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
        "Raise `tol` or give float64 input."
    )
    UNRESOLVED = (
        "The radius is below what numbers of this size resolve: storing the result moved tasks "
        "off it. Use float64 or a larger `epsilon`."
    )

    @classmethod
    def of(cls, residual: float, limit: float, n_iter: int, max_iter: int) -> Status:
        """Status of a solver that ended after `n_iter` iterations with this residual."""
        if residual <= limit:
            return cls.CONVERGED
        return cls.MAX_ITER if n_iter >= max_iter else cls.STALLED


@dataclass(frozen=True, eq=False)
class Coupling:
    """What a joint step did to the members of a group; tasks are in their order.

    Attributes
    ----------
    pull : array of shape (n_tasks,)
        Share of its way to the centre that each task was moved, from 0 (untouched) to 1 (onto it).
    active : array of bool of shape (n_tasks,)
        Which tasks the radius holds back.
    distances : array of shape (n_tasks,)
        Distances to the centre after the move.
    measured : bool
        Whether the distances were taken from the stored numbers, which is done where rounding
        could change their fourth digit; otherwise they are those of the exact solution.
    kkt_residual : float
        Residual of the optimality conditions, or excess of a distance over its radius, whichever
        is larger; relative to the largest distance before the move.
    n_iter : int
        Iterations of the solver.
    status : Status
        How it ended; ``status.value`` is a sentence.
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
        """``pull / (1 - pull)``: the Lagrange multipliers of the halved problem, ``inf`` at 1."""
        with np.errstate(divide="ignore"):
            return self.pull / (1.0 - self.pull)


@dataclass(frozen=True, eq=False)
class Projection(Coupling):
    """The tasks and the centre after a projection or a proximal step.

    Distances are measured on the returned arrays. The residual judges these arrays, as
    :func:`certificate` does. See :class:`Coupling` for the other attributes.

    Attributes
    ----------
    thetas : array of shape (n_tasks, n_parameters)
        The tasks, in the dtype of the input.
    center : array of shape (n_parameters,)
        The common centre.
    """

    thetas: Reals
    center: Reals
