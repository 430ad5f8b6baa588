"""What is coupled and what comes out: the protocol of members, results, errors and warnings."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from crosslearning.tether import Array, Flags, Indices, Reals, Tether
from crosslearning.wording import listed

_STORED = 0.25  # rounding of a stored vector, in units of eps times its norm
_RESOLVED = 10.0  # radii of at least this multiple of the rounding are met within 1 %
_FOURTH_DIGIT = 1e-4
_OFF = 0.01  # fraction of the radius by which rounding may change a distance silently
_DOUBLE = float(np.finfo(np.float64).eps)
# Of the package, and of its decorators that are context managers.
_INSIDE = (str(Path(__file__).parents[1]), str(contextlib.__file__))


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
        Whether the distances are those of the stored parameters, measured if rounding could change
        their fourth digit, or those of the exact solution.
    kkt_residual : float
        Residual of the optimality conditions, or the largest excess over a radius if larger;
        relative to the largest distance before the move.
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
    """The tasks and the centre after a projection or a proximal step; a :class:`Coupling`.

    Attributes
    ----------
    thetas, center : array of shape (n_tasks, n_parameters), (n_parameters,)
        Tasks and centre, in the dtype of the input. Distances and residual are theirs.
    """

    thetas: Reals
    center: Reals


class Members(Protocol):
    """Vectors of tasks around a centre, in one or more groups that are coupled independently.

    A group is a block of parameters, and all groups have the same tasks. The parameters may be
    stored anywhere: each method may be a collective operation over devices, ranks or clients, as
    long as it returns the same numbers everywhere.
    """

    @property
    def tasks(self) -> Sequence[str]:
        """Names of the tasks in messages, such as "task 'art'"."""

    @property
    def groups(self) -> Sequence[str]:
        """Names of the groups in messages, such as "block 'head'", or "" for none."""

    def gram(self) -> Array:
        """Inner products of the differences z_i - z_g, of shape (n_groups, n_tasks, n_tasks).

        Subtract first, then multiply, and sum in float64.
        """

    def move(self, pull: Array, weights: Array) -> None:
        """Set θ_g = z_g + Σ weights_i (z_i - z_g), then θ_i = z_i + pull_i (θ_g - z_i).

        Both have shape (n_groups, n_tasks). A pull of 0 leaves a task exactly as it is; a pull of 1
        makes it a copy of the centre.
        """

    def distances(self) -> Array:
        """Distances to the centre, as stored, of shape (n_groups, n_tasks)."""

    def storage(self) -> Storage:
        """Precision with which the parameters are stored."""

    def culprits(self) -> tuple[list[str], str]:
        """Names of tasks and centres that are NaN or infinite, and a hint where to look, or ""."""


class Storage(NamedTuple):
    """Precision with which vectors are stored.

    Storing a vector of norm n rounds every entry, and moves the vector by about r = eps n / 4
    (float32, norm 24: 7e-7). Task and centre are both rounded, so a distance ε is stored as
    √(ε² + 2 r²), which is 1 % too large at ε = 10 r.

    Attributes
    ----------
    dtypes, eps : sequence of str, array of shape (n_groups,)
        Name and machine epsilon of the dtype of each group.
    norms, n_parameters : array of shape (n_groups,)
        Norm of a task's parameters, possibly from an earlier step, and their number.
    """

    dtypes: Sequence[str]
    eps: Array
    norms: Array
    n_parameters: Indices

    @property
    def rounding(self) -> Array:
        """How far rounding moves a vector, of shape (n_groups,)."""
        return _STORED * self.eps * self.norms

    @property
    def resolved_radius(self) -> Array:
        """Smallest radius that can be met to within 1 %, of shape (n_groups,)."""
        return _RESOLVED * self.rounding

    def blurs(self, distances: Array) -> bool:
        """Whether rounding may change the fourth digit of a positive distance."""
        # Rounding is random: little of it is along the offset, the rest adds in quadrature.
        share = self.rounding[:, None] / np.where(distances > 0, distances, np.inf)
        change = 4.0 * share / np.sqrt(self.n_parameters)[:, None] + share**2
        return bool(change.max() > _FOURTH_DIGIT)


def exact_combination(weights: Array, eps: float) -> Array:
    """Return coefficients of tasks and centre that sum exactly to 1 at this precision."""
    # A sum that is off by a rounding error would rescale the centre in every step. Rounding the
    # coefficients to a grid changes them slightly, and that only multiplies differences.
    grid = 2.0 * eps
    rounded = np.rint(weights / grid) * grid
    return np.append(rounded, 1.0 - rounded.sum())


def status_as_stored(
    members: Members, group: int, status: Status, distances: Array, active: Flags, tether: Tether
) -> Status:
    """Return the status after storing: unresolved if rounding moved a task off its radius."""
    epsilon = np.asarray(tether.epsilon)
    beyond = bool((distances > (1.0 + _OFF) * epsilon).any())
    short = active & (distances < (1.0 - _OFF) * epsilon)
    if status is not Status.CONVERGED or not (beyond or short.any()):
        return status
    storage = members.storage()
    below = short & (epsilon < storage.resolved_radius[group])
    unresolved = beyond or (storage.eps[group] > _DOUBLE and below.any())
    return Status.UNRESOLVED if unresolved else status


def refuse_not_finite(squares: Array, members: Members) -> None:
    """Raise an error that names the tasks if squared distances are not finite."""
    if np.isfinite(squares).all():
        return
    culprits, where = members.culprits()
    problem = f"NaN or infinite{where and f'; {where}'}"
    if not culprits:
        problem = "so far from the centre that squared distances overflow"
        culprits = [
            members.tasks[task] + (members.groups[group] and f" in {members.groups[group]}")
            for group, task in np.argwhere(~np.isfinite(squares))
        ]
    raise ValueError(
        f"The parameters of {listed(culprits)} are {problem}. Nothing was moved. Start from finite "
        "parameters; in training, lower the learning rate or clip the gradients."
    )


def warn_unless_converged(coupling: Coupling) -> None:
    """Warn if the solver did not reach its tolerance."""
    if coupling.status not in (Status.CONVERGED, Status.UNRESOLVED):
        from crosslearning.exceptions import ConvergenceWarning

        warnings.warn(
            f"{coupling.status.value} Relative KKT residual {coupling.kkt_residual:.1e} after "
            f"{coupling.n_iter} iterations.",
            ConvergenceWarning,
            stacklevel=level_of_caller(),
        )


def warn_unless_resolved(coupling: Coupling, tether: Tether, members: Members, group: int) -> None:
    """Warn if rounding moved a task off its radius."""
    if coupling.status is not Status.UNRESOLVED:
        return
    from crosslearning.exceptions import ResolutionWarning

    radii = np.broadcast_to(np.asarray(tether.epsilon), coupling.distances.shape)
    off = np.abs(coupling.distances - radii)
    worst = int(np.argmax(np.where(coupling.active | (coupling.distances > radii), off, 0.0)))
    storage, name = members.storage(), members.groups[group]
    warnings.warn(
        f"`epsilon` = {radii[worst]:.3g}{name and f' of {name}'} is below what "
        f"{storage.dtypes[group]} resolves for parameters of norm {storage.norms[group]:.3g}: "
        f"after rounding, {members.tasks[worst]} is at distance {coupling.distances[worst]:.3g} "
        "from the centre. "
        f"Use float64 or a larger `epsilon`, of at least {storage.resolved_radius[group]:.1g}.",
        ResolutionWarning,
        stacklevel=level_of_caller(),
    )


def level_of_caller() -> int:
    """Level, for a warning, of the line outside of this package that led to it."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        level, frame = level + 1, frame.f_back
    return level
