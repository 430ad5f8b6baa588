"""Structures of the covariance of tasks: a variance for each group of parameters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from crosslearning.convex._arrays import Array, Flags, Indices


class CovariancePoint(Protocol):
    """A model evaluated at some covariance S of the tasks and prior variances t of the centre."""

    @property
    def value(self) -> float:
        """Log evidence."""

    @property
    def slope_of_covariance(self) -> Array:
        """Derivative by the entries of S."""

    @property
    def slope_of_ratio(self) -> Array:
        """Derivative by the t of each parameter."""

    @property
    def expected(self) -> Array:
        """Expected curvature by the diagonal of S and by the t of each parameter."""

    @property
    def own_curvature(self) -> Array:
        """Expected curvature with the noise as it is."""

    def between_tasks(self, group: Indices) -> Array:
        """Return the expected curvature by groups that comes from the centre which tasks share."""

    @property
    def observed(self) -> Array:
        """Observed curvature, which need not be positive."""

    def promise_of_full(self, free: Indices) -> float:
        """Gain in log evidence that covariances between parameters promise."""


def groups(structure: str, columns: Indices, blocks: Indices, *, intercept: bool) -> Indices:
    """Return the number of each parameter's group.

    Parameters
    ----------
    structure : {"block", "diagonal"}
        One group for the coefficients of each block and one for the intercepts, or one per column.
    columns : array of int
        Column of each parameter.
    blocks : array of int
        Block of each column; that of the intercept is of no account.
    intercept : bool
        Whether the last column is the intercept.
    """
    if structure == "diagonal":
        return columns
    own = blocks[columns]
    level = (columns == columns.max()) & intercept & (columns.max() > 0)
    return np.unique(np.where(level, own.max() + 1, own), return_inverse=True)[1]


@dataclass(frozen=True, eq=False)
class Structured:
    """A point in the space of a structure.

    Parameters
    ----------
    variances : array of shape (n_variances,)
        Variances of groups of parameters around the centre, then variances t of the centre.
    fixed : array of bool of shape (n_variances,)
        Which of them may not move.
    group : array of int of shape (2 n_parameters,)
        Number of the variance of each parameter around the centre, then of its t.
    at : callable
        Evaluates the model at a root of S and the t of each parameter.
    """

    variances: Array
    fixed: Flags
    group: Indices
    at: Callable[[Array, Array], CovariancePoint]

    @cached_property
    def point(self) -> CovariancePoint:
        """The model there."""
        own, center = np.split(self.variances[self.group], 2)
        return self.at(np.sqrt(own), center)

    @property
    def value(self) -> float:
        """Log evidence."""
        return self.point.value

    @cached_property
    def slope(self) -> Array:
        """Gradient of the log evidence."""
        each = np.append(np.diagonal(self.point.slope_of_covariance), self.point.slope_of_ratio)
        slope = np.bincount(self.group, each, len(self.variances))
        return np.where(self.fixed, 0.0, slope)

    @cached_property
    def expected(self) -> Array:
        """Expected curvature."""
        return self._grouped(self.point.expected) + self._between

    @cached_property
    def unit(self) -> Array:
        """Inverse of the distance by which a variance has to move to matter."""
        own = np.diagonal(self._grouped(self.point.own_curvature))
        return np.sqrt(np.maximum(own, np.finfo(np.float64).tiny))

    @cached_property
    def observed(self) -> Array:
        """Observed curvature, which need not be positive."""
        return self._grouped(self.point.observed) - self._between

    @cached_property
    def _between(self) -> Array:
        between = np.zeros((len(self.variances), len(self.variances)))
        own = self.group[: len(self.group) // 2]
        n_groups = int(own.max()) + 1
        between[:n_groups, :n_groups] = self.point.between_tasks(own)
        between[self.fixed] = between[:, self.fixed] = 0.0
        return between

    def _grouped(self, curvature: Array) -> Array:
        members = np.eye(len(self.variances))[self.group]
        grouped = members.T @ curvature @ members
        fixed = self.fixed[:, None] | self.fixed
        return np.where(fixed, np.diag(self.fixed.astype(np.float64)), grouped)
