"""Sums of the derivatives of the log likelihood over the rows of each task, in place of the rows.

Legend: A_i and g_i are curvature and slope of task i at θ_i, and K_i is a posterior covariance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.convex.families import Family, OneScore
from crosslearning.convex.sums.checks import checked_weights
from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.moments import Moments
from crosslearning.convex.sums.rows import GLMRows
from crosslearning.tether import Array, Flags, Indices

_TOO_FAR, _ROUNDING = 0.25, 1e-9  # shares of the bend, and of the log likelihood


@dataclass(eq=False)
class PassSums:
    """Sums over the rows of some tasks, numbered in order; those of parts of a table can be added.

    Numbers of rows, log likelihoods, Pearson's squared errors, slopes, curvatures, and gradients of
    ½ tr(A_i K_i).
    """

    tasks: Indices
    counts: Indices
    values: Array
    squares: Array
    slopes: Array
    curvatures: Array
    tilts: Array

    @classmethod
    def empty(cls, tasks: Indices, n_parameters: int) -> PassSums:
        """Return sums of no rows."""
        n, p = len(tasks), n_parameters
        counts, vector = np.zeros(n, dtype=np.intp), np.zeros((n, p))
        return cls(
            tasks, counts, np.zeros(n), np.zeros(n), vector, np.zeros((n, p, p)), vector.copy()
        )

    def add(self, where: Indices, other: PassSums) -> None:
        """Add sums to those of the tasks at some positions, in place."""
        for name in _SUMS:
            getattr(self, name)[where] += getattr(other, name)

    def __add__(self, other: PassSums) -> PassSums:
        """Return sums of the rows of both."""
        tasks = np.union1d(self.tasks, other.tasks)
        total = PassSums.empty(tasks, self.slopes.shape[1])
        for part in (self, other):
            total.add(np.searchsorted(tasks, part.tasks), part)
        return total

    def __radd__(self, other: object) -> PassSums:
        """Support ``sum``, which starts with 0."""
        return self if other == 0 else NotImplemented

    def take(self, tasks: Indices | slice) -> PassSums:
        """Return some of the tasks."""
        return PassSums(self.tasks[tasks], *(getattr(self, name)[tasks] for name in _SUMS))

    def where(self, chosen: Flags, other: PassSums) -> PassSums:
        """Take these sums of the chosen tasks, and the others of the rest."""
        rest, result = np.flatnonzero(~chosen), replace(self)
        for name in _SUMS if len(rest) else ():
            own = getattr(self, name).copy()
            own[rest] = getattr(other, name)[rest]
            setattr(result, name, own)
        return result


_SUMS = [field.name for field in fields(PassSums)][1:]


@dataclass(frozen=True, eq=False)
class Pass:
    """Parameters at which to sum rows: what one pass over a table needs to know.

    `thetas` are those of the tasks, for scaled columns, and `covariances` their K_i, over which
    slopes and curvatures may be `averaged`.
    """

    family: Family
    scaling: Scaling
    intercept: bool
    thetas: Array
    covariances: Array
    dispersion: float
    averaged: bool = False

    def take(self, tasks: Indices) -> Pass:
        """Return the parameters of some of the tasks."""
        return replace(self, thetas=self.thetas[tasks], covariances=self.covariances[tasks])

    def sums(
        self, X: Array, y: Array, tasks: Indices, sample_weight: ArrayLike | None = None
    ) -> PassSums:
        """Sum rows, given the number of each one's task."""
        self.family.check(y)
        present, codes = np.unique(tasks, return_inverse=True)
        columns = self.scaling.columns(X, intercept=self.intercept)
        weights, offset = checked_weights(sample_weight, len(y)), np.zeros(1)
        offset = np.broadcast_to(offset, (len(y), self.family.n_scores))
        rows = GLMRows(
            columns, y, weights, codes, len(present), offset, self.family, self.intercept
        )
        return _summed(present, rows, self.take(present))


Passed = Callable[[Pass], PassSums]  # sums all rows at the parameters of a pass


def _summed(present: Indices, rows: GLMRows, at: Pass) -> PassSums:
    family, squares = rows.family, np.zeros(rows.n_tasks)
    if at.averaged:
        nothing = np.zeros_like(at.thetas)
        averages = rows.derivatives(at.thetas, at.covariances)
        return PassSums(present, rows.counts, squares, squares, *averages, nothing)
    if isinstance(family, OneScore) and family.has_dispersion:
        squares = rows.totals(at.thetas, family.squared_error)
    return PassSums(
        present,
        rows.counts,
        rows.log_likelihood(at.thetas, 1.0),
        squares,
        *rows.derivatives(at.thetas),
        rows.tilt(at.thetas, at.covariances, 1.0),
    )


@dataclass(frozen=True, eq=False)
class Expansion:
    """The log likelihood to second order around `thetas`, with the methods of `GLMRows`."""

    thetas: Array
    sums: PassSums
    family: Family
    intercept: bool
    mean_squares: Array

    @property
    def n_tasks(self) -> int:
        return len(self.thetas)

    @property
    def n_columns(self) -> int:
        return len(self.mean_squares)

    @property
    def n_parameters(self) -> int:
        return int(self.thetas.shape[1])

    @property
    def counts(self) -> Indices:
        return self.sums.counts

    @cached_property
    def at_zero(self) -> Array:
        """Products of columns and working targets, wherever the parameters are."""
        n, p = self.thetas.shape
        products = np.empty((n, p + 1, p + 1))
        products[:, :-1, :-1] = self.sums.curvatures
        bend = _times(self.sums.curvatures, self.thetas)
        products[:, :-1, -1] = products[:, -1, :-1] = self.sums.slopes + bend
        # A squared error of 1 per row, which nothing but the scale of gradients depends on.
        own = np.einsum("np,np->n", 2.0 * self.sums.slopes + bend, self.thetas)
        products[:, -1, -1] = np.maximum(own, 0.0) + self.sums.counts
        return products

    @property
    def moments(self) -> Moments:
        """The working model, in units of the dispersion."""
        return Moments(self.at_zero, self.counts, np.zeros(self.n_tasks), self.intercept)

    def products(self, thetas: Array, dispersion: float = 1.0) -> Array:  # noqa: ARG002
        return self.at_zero / dispersion

    def log_likelihood(self, thetas: Array, dispersion: float) -> Array:
        step = thetas - self.thetas
        slopes = self.sums.slopes - 0.5 * _times(self.sums.curvatures, step)
        return np.asarray(self.sums.values + np.einsum("np,np->n", slopes, step)) / dispersion

    def totals(self, thetas: Array, function: object) -> Array:  # noqa: ARG002
        """Pearson's squared errors at the point of expansion."""
        return self.sums.squares

    def tilt(self, thetas: Array, covariances: Array, dispersion: float) -> Array:  # noqa: ARG002
        return self.sums.tilts / dispersion

    def take(self, tasks: slice) -> Expansion:
        """Return some of the tasks."""
        return replace(self, thetas=self.thetas[tasks], sums=self.sums.take(tasks))

    def unless_worse(self, before: Expansion) -> tuple[Expansion, Flags]:
        """Return this one, but of tasks that went too far the one before; and which did not.

        A step to the optimum of a quadratic model gains at least half of what it bends on the way,
        so a log likelihood that falls behind the model by less than that is a gain as well.
        """
        step = self.thetas - before.thetas
        bends = np.einsum("np,np->n", _times(before.sums.curvatures, step), step)
        least = before.log_likelihood(self.thetas, 1.0) - _TOO_FAR * bends
        good = self.sums.values >= least - _ROUNDING * np.abs(before.sums.values)
        thetas = np.where(good[:, None], self.thetas, before.thetas)
        return replace(self, thetas=thetas, sums=self.sums.where(good, before.sums)), good


def _times(A: Array, thetas: Array) -> Array:
    return np.asarray(np.matmul(A, thetas[:, :, None])[:, :, 0])
