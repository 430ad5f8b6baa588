"""Derivatives of the log likelihood, summed over the rows of each task, in place of the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.convex.families import Family, OneScore
from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.rows import Moments, checked_weights, times_each
from crosslearning.convex.sums.table import TaskTable
from crosslearning.tether import Array, Flags, Indices

_TOO_FAR, _ROUNDING = 0.25, 1e-9  # shares of the bend, and of the log likelihood


@dataclass(eq=False)
class PassSums:
    """Sums over the rows of some tasks, in order; those of parts of a table can be added."""

    tasks: Indices
    counts: Indices
    values: Array  # log likelihoods
    squares: Array  # Pearson's squared errors
    slopes: Array
    curvatures: Array
    tilts: Array  # gradients of ½ tr(A_i K_i)

    @classmethod
    def empty(cls, tasks: Indices, n_parameters: int) -> PassSums:
        n, p = len(tasks), n_parameters
        shapes = (n,), (n,), (n, p), (n, p, p), (n, p)
        return cls(tasks, np.zeros(n, dtype=np.intp), *(np.zeros(shape) for shape in shapes))

    def add(self, where: Indices, other: PassSums) -> None:
        """Add sums to those of the tasks at some positions, in place."""
        for name in _SUMS:
            getattr(self, name)[where] += getattr(other, name)

    def __add__(self, other: PassSums) -> PassSums:
        tasks = np.union1d(self.tasks, other.tasks)
        total = PassSums.empty(tasks, self.slopes.shape[1])
        for part in (self, other):
            total.add(np.searchsorted(tasks, part.tasks), part)
        return total

    def __radd__(self, other: object) -> PassSums:
        return self if other == 0 else NotImplemented  # `sum` starts with 0

    def take(self, tasks: Indices | slice) -> PassSums:
        return PassSums(**{name: part[tasks] for name, part in vars(self).items()})

    def where(self, chosen: Flags, other: PassSums) -> PassSums:
        """Take these sums of the chosen tasks, and the others of the rest."""
        merged = self.take(np.arange(len(chosen)))
        for name in _SUMS:
            getattr(merged, name)[~chosen] = getattr(other, name)[~chosen]
        return merged


_SUMS = [field.name for field in fields(PassSums)][1:]


@dataclass(frozen=True, eq=False)
class Pass:
    """Parameters at which to sum rows: what one pass over a table needs to know."""

    family: Family
    scaling: Scaling
    intercept: bool
    thetas: Array  # of the tasks, for scaled columns
    covariances: Array  # their K_i
    dispersion: float
    averaged: bool = False  # slopes and curvatures, over Gaussians of these covariances

    def sums(
        self, X: Array, y: Array, tasks: Indices, sample_weight: ArrayLike | None = None
    ) -> PassSums:
        """Sum rows, given the number of each one's task."""
        self.family.check(y)
        present, codes = np.unique(tasks, return_inverse=True)
        table = TaskTable(X, y, checked_weights(sample_weight, len(y)), codes, len(present))
        columns = self.scaling.columns(X, intercept=self.intercept)
        rows = table.glm(columns, self.family, intercept=self.intercept)
        thetas, K = self.thetas[present], self.covariances[present]
        sums = PassSums.empty(present, rows.n_parameters)
        sums.counts = rows.counts
        sums.slopes, sums.curvatures = rows.derivatives(thetas, K if self.averaged else None)
        if not self.averaged:
            sums.values = rows.log_likelihood(thetas, 1.0)
            sums.tilts = rows.tilt(thetas, K, 1.0)
            if isinstance(self.family, OneScore) and self.family.has_dispersion:
                sums.squares = rows.totals(thetas, self.family.squared_error)
        return sums


Passed = Callable[[Pass], PassSums]  # sums all rows at the parameters of a pass


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
        bend = times_each(self.sums.curvatures, self.thetas)
        products[:, :-1, -1] = products[:, -1, :-1] = self.sums.slopes + bend
        # A squared error of 1 per row, which nothing but the scale of gradients depends on.
        squares = np.einsum("np,np->n", 2.0 * self.sums.slopes + bend, self.thetas)
        products[:, -1, -1] = np.maximum(squares, 0.0) + self.sums.counts
        return products

    @property
    def moments(self) -> Moments:
        """The working model, in units of the dispersion."""
        return Moments(self.at_zero, self.counts, np.zeros(self.n_tasks), self.intercept)

    def products(self, thetas: Array, dispersion: float = 1.0) -> Array:  # noqa: ARG002
        return self.at_zero / dispersion

    def log_likelihood(self, thetas: Array, dispersion: float) -> Array:
        step = thetas - self.thetas
        slopes = self.sums.slopes - 0.5 * times_each(self.sums.curvatures, step)
        return np.asarray(self.sums.values + np.einsum("np,np->n", slopes, step)) / dispersion

    def totals(self, thetas: Array, function: object) -> Array:  # noqa: ARG002
        """Pearson's squared errors at the point of expansion."""
        return self.sums.squares

    def tilt(self, thetas: Array, covariances: Array, dispersion: float) -> Array:  # noqa: ARG002
        return self.sums.tilts / dispersion

    def take(self, tasks: slice) -> Expansion:
        return replace(self, thetas=self.thetas[tasks], sums=self.sums.take(tasks))

    def unless_worse(self, before: Expansion) -> tuple[Expansion, Flags]:
        """Return this one, but of tasks that went too far the one before; and which did not."""
        step = self.thetas - before.thetas
        bends = np.einsum("np,np->n", times_each(before.sums.curvatures, step), step)
        least = before.log_likelihood(self.thetas, 1.0) - _TOO_FAR * bends
        good = self.sums.values >= least - _ROUNDING * np.abs(before.sums.values)
        thetas = np.where(good[:, None], self.thetas, before.thetas)
        return replace(self, thetas=thetas, sums=self.sums.where(good, before.sums)), good
