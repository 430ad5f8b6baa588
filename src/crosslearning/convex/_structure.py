"""Structures of the covariance of tasks: a variance for each group of parameters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from crosslearning.convex._arrays import Array, Flags, Indices
    from crosslearning.convex._variance_point import VariancePoint


def groups(structure: str, columns: Indices, blocks: Indices, *, intercept: bool) -> Indices:
    """Return the number of each parameter's group, given its column and each column's block.

    "diagonal" has one group per column, else there is one for the coefficients of each block and
    one for the intercepts, which are those of the last column.
    """
    if structure == "diagonal":
        return columns
    own = blocks[columns]
    level = (columns == columns.max()) & intercept & (columns.max() > 0)
    return np.unique(np.where(level, own.max() + 1, own), return_inverse=True)[1]


@dataclass(frozen=True, eq=False)
class Structured:
    """The log evidence as a function of some variances.

    `variances` are those of groups of parameters around the centre, then variances t of the
    centre; `group` holds the number of each parameter's own variance, then that of its t. What is
    `fixed` may not move. `at` evaluates the model at a root of S and the t of each parameter.
    """

    variances: Array
    fixed: Flags
    group: Indices
    at: Callable[[Array, Array], VariancePoint]

    @cached_property
    def point(self) -> VariancePoint:
        own, center = np.split(self.variances[self.group], 2)
        return self.at(np.sqrt(own), center)

    @property
    def value(self) -> float:
        return self.point.value

    @cached_property
    def slope(self) -> Array:
        each = np.append(np.diagonal(self.point.slope_of_covariance), self.point.slope_of_ratio)
        slope = np.bincount(self.group, each, len(self.variances))
        return np.where(self.fixed, 0.0, slope)

    @cached_property
    def unit(self) -> Array:
        """Inverse of the distance by which a variance has to move to matter."""
        own = np.diagonal(self._grouped(self.point.own_curvature))
        return np.sqrt(np.maximum(own, np.finfo(np.float64).tiny))

    @cached_property
    def expected(self) -> Array:
        return self._grouped(self.point.expected) + self._between

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
