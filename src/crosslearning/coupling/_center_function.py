"""The projection as one function of the centre."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from crosslearning.tether import Tether

__all__ = ["CenterFunction", "CenterPoint"]

_EPS = float(np.finfo(np.float64).eps)
_BLOCK = 1 << 18  # elements of a temporary block; stays within the second-level cache


@dataclass(frozen=True, eq=False)
class CenterPoint:
    """The function at one centre: value and gradient, and per task distance, pull and slope."""

    center: NDArray[np.float64]
    distance: NDArray[np.float64]
    pull: NDArray[np.float64]
    slope: NDArray[np.float64]
    value: float
    value_error: float
    gradient: NDArray[np.float64]
    gradient_error: float

    @property
    def gradient_norm(self) -> float:
        """Length of the gradient."""
        return float(np.linalg.norm(self.gradient))


@dataclass(frozen=True, eq=False)
class CenterFunction:
    r"""Cost of a centre when every task takes its best place around it.

    .. math::

        \varphi(c) = \tfrac12 w \|c\|^2 + \sum_i e_i(\|z_i - c\|)

    with :math:`e_i` the envelope of the tether (maths: convex and C¹; strongly convex if
    :math:`w > 0`). Coordinates are relative to the given centre, or to the mean of the tasks if
    the centre is free (:math:`w = 0`).

    Parameters
    ----------
    points : array of shape (n_tasks, n_dimensions)
        The tasks :math:`z_i`.
    tether : Tether
        The radial law.
    weight : float
        :math:`w`, the weight of the given centre; 0 for a free one.
    """

    points: NDArray[np.float64]
    tether: Tether
    weight: float

    @property
    def total_weight(self) -> float:
        """Weight of the centre plus one per task: the largest curvature possible."""
        return self.weight + len(self.points)

    def at(self, center: NDArray[np.float64]) -> CenterPoint:
        """Evaluate at a centre."""
        d = self._distances(center)
        pull, slope, envelope = self.tether.law(d)
        own = self.weight * float(center @ center)
        return CenterPoint(
            center=center,
            distance=d,
            pull=pull,
            slope=slope,
            value=0.5 * own + float(envelope.sum()),
            value_error=4.0 * _EPS * (own + float(pull @ d**2)),
            gradient=(self.weight + pull.sum()) * center - pull @ self.points,
            # A pull (d - ε) / d near 0 has an absolute error.
            gradient_error=_EPS * float(d[pull > 0].sum()),
        )

    def hessian(self, at: CenterPoint) -> NDArray[np.float64]:
        """(w + Σ pull_i) I + Σ (slope_i - pull_i) v_i v_iᵀ, v_i the unit vector from z_i to c."""
        result = np.diag(np.full(len(at.center), self.weight + at.pull.sum()))
        ratio = self._radial_excess(at)
        for rows in self._blocks():
            difference = self.points[rows] - at.center
            result += difference.T @ (ratio[rows, None] * difference)
        return result

    def hessian_product(self, at: CenterPoint, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Hessian times a vector, without forming a matrix."""
        along = self._radial_excess(at) * (at.center @ x - self.points @ x)
        product: NDArray[np.float64] = (self.weight + at.pull.sum()) * x
        product += along.sum() * at.center - along @ self.points
        return product

    def _radial_excess(self, at: CenterPoint) -> NDArray[np.float64]:
        square = at.distance**2
        return np.divide(at.slope - at.pull, square, out=np.zeros_like(square), where=square > 0)

    def _distances(self, center: NDArray[np.float64]) -> NDArray[np.float64]:
        square = np.empty(len(self.points))
        for rows in self._blocks():
            difference = self.points[rows] - center
            square[rows] = np.einsum("ij,ij->i", difference, difference)
        return np.sqrt(square)

    def _blocks(self) -> Iterator[slice]:
        """Blocks of rows: temporaries stay small however many tasks there are."""
        n, m = self.points.shape
        step = max(1, _BLOCK // m)
        return (slice(i, i + step) for i in range(0, n, step))
