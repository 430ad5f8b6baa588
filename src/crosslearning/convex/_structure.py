"""Structures of the covariance of tasks: a variance for each group of parameters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["Structured", "groups"]


class CovariancePoint(Protocol):
    """A model evaluated at some covariance S of the tasks and prior variance t of the centre."""

    @property
    def value(self) -> float:
        """Log evidence."""

    @property
    def slope_of_covariance(self) -> NDArray[np.float64]:
        """Derivative by the entries of S."""

    @property
    def slope_of_ratio(self) -> float:
        """Derivative by t."""

    @property
    def expected(self) -> NDArray[np.float64]:
        """Expected curvature by the diagonal of S and by t."""

    @property
    def own_curvature(self) -> NDArray[np.float64]:
        """Expected curvature with the noise as it is."""

    def between_tasks(self, group: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the expected curvature by groups that comes from the centre which tasks share."""

    @property
    def observed(self) -> NDArray[np.float64]:
        """Observed curvature, which need not be positive."""

    def promise_of_full(self, free: NDArray[np.intp]) -> float:
        """Gain in log evidence that covariances between parameters promise."""


def groups(structure: str, columns: NDArray[np.intp], *, intercept: bool) -> NDArray[np.intp]:
    """Return the number of each parameter's group.

    Parameters
    ----------
    structure : {"block", "diagonal"}
        One group for all coefficients and one for the intercepts, or one per column.
    columns : array of int
        Column of each parameter.
    intercept : bool
        Whether the last column is the intercept.
    """
    if structure == "diagonal":
        return columns
    last = columns.max()
    return np.asarray((columns == last) & intercept & (last > 0), dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Structured:
    """A point in the space of a structure.

    Parameters
    ----------
    variances : array of shape (n_groups + 1,)
        The variance of each group, and t.
    fixed : array of bool of shape (n_groups + 1,)
        Which of them may not move.
    group : array of int
        Group of each parameter.
    at : callable
        Evaluates the model at a root of S and t.
    """

    variances: NDArray[np.float64]
    fixed: NDArray[np.bool_]
    group: NDArray[np.intp]
    at: Callable[[NDArray[np.float64], float], CovariancePoint]

    @cached_property
    def point(self) -> CovariancePoint:
        """The model there."""
        return self.at(np.sqrt(self.variances[:-1][self.group]), float(self.variances[-1]))

    @property
    def value(self) -> float:
        """Log evidence."""
        return self.point.value

    @cached_property
    def slope(self) -> NDArray[np.float64]:
        """Gradient of the log evidence."""
        own = np.diagonal(self.point.slope_of_covariance)
        by_group = np.bincount(self.group, own, len(self.variances) - 1)
        slope = np.append(by_group, self.point.slope_of_ratio)
        return np.where(self.fixed, 0.0, slope)

    @cached_property
    def expected(self) -> NDArray[np.float64]:
        """Expected curvature."""
        return self._grouped(self.point.expected) + self._between

    @cached_property
    def unit(self) -> NDArray[np.float64]:
        """Inverse of the distance by which a variance has to move to matter."""
        own = np.diagonal(self._grouped(self.point.own_curvature))
        return np.sqrt(np.maximum(own, np.finfo(np.float64).tiny))

    @cached_property
    def observed(self) -> NDArray[np.float64]:
        """Observed curvature, which need not be positive."""
        return self._grouped(self.point.observed) - self._between

    @cached_property
    def _between(self) -> NDArray[np.float64]:
        between = np.zeros((len(self.variances), len(self.variances)))
        between[:-1, :-1] = self.point.between_tasks(self.group)
        between[self.fixed] = between[:, self.fixed] = 0.0
        return between

    def _grouped(self, curvature: NDArray[np.float64]) -> NDArray[np.float64]:
        members = np.zeros((len(self.group) + 1, len(self.variances)))
        members[np.arange(len(self.group)), self.group] = 1.0
        members[-1, -1] = 1.0
        grouped = members.T @ curvature @ members
        fixed = self.fixed[:, None] | self.fixed
        return np.where(fixed, np.diag(self.fixed.astype(np.float64)), grouped)
