"""Means and centred scatter of groups of rows: what one pass over a table keeps."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from crosslearning.convex._padding import buckets
from crosslearning.tether import Array, Indices

_ROUNDING = 1e-13  # share of a sum of squares that a difference may leave of equal ones
_AT_ONCE = 2**18  # numbers, so that temporary arrays stay in the cache


@dataclass(eq=False)
class Cells:
    """Sums over groups of rows (x, y), arranged in an array of any shape.

    Number of rows, sums of their weights and of the logarithms of these, weighted means of the
    columns (last axis), and weighted sums of products of deviations from them (last two).
    """

    counts: NDArray[np.int64]
    weights: Array
    log_weights: Array
    means: Array
    scatters: Array

    @classmethod
    def empty(cls, shape: tuple[int, ...], n_columns: int) -> Cells:
        """Cells without rows."""
        return cls(
            np.zeros(shape, dtype=np.int64),
            np.zeros(shape),
            np.zeros(shape),
            np.zeros((*shape, n_columns)),
            np.zeros((*shape, n_columns, n_columns)),
        )

    @classmethod
    def of_rows(cls, rows: Array, weights: Array, cell: Indices, n_cells: int) -> Cells:
        """Sum rows of positive weight by the number of their cell."""
        sums = cls.empty((n_cells,), rows.shape[1])
        sums.counts += np.bincount(cell, minlength=n_cells)
        sums.weights += np.bincount(cell, weights, n_cells)
        sums.log_weights += np.bincount(cell, np.log(weights), n_cells)
        for bucket in buckets(cell, n_cells):
            block = rows[bucket.rows]
            weight = weights[bucket.rows] * bucket.inside
            # Shifted before any product: a large mean costs no digits of the spread.
            first = block[:, 0].copy()
            block -= first[:, None]
            total = sums.weights[bucket.tasks]
            shift = np.matmul(weight[:, None], block)[:, 0] / total[:, None]
            sums.means[bucket.tasks] = first + shift
            products = (block * weight[:, :, None]).swapaxes(1, 2) @ block
            sums.scatters[bucket.tasks] = products - _outer(total, shift)
        return sums

    def __getitem__(self, where: object) -> Cells:
        """Return some of the cells, a view where numpy gives one."""
        return Cells(*(getattr(self, field.name)[where] for field in fields(self)))

    def __setitem__(self, where: object, cells: Cells) -> None:
        """Replace some of the cells."""
        for field in fields(self):
            getattr(self, field.name)[where] = getattr(cells, field.name)

    @property
    def flat(self) -> Cells:
        """The same cells in one row, as a view."""
        n = self.counts.ndim
        arrays = (getattr(self, field.name) for field in fields(self))
        return Cells(*(array.reshape(-1, *array.shape[n:]) for array in arrays))

    def copy(self) -> Cells:
        """Copy every array."""
        return Cells(*(getattr(self, field.name).copy() for field in fields(self)))

    def add(self, where: Indices, other: Cells) -> None:
        """Add other cells to some of these, in place and few at a time."""
        size = max(_AT_ONCE // max(other.scatters[:1].size, 1), 1)
        for start in range(0, len(where), size):
            some = where[start : start + size]
            whole = some[-1] - some[0] == len(some) - 1  # then no copies are made
            own = slice(some[0], some[-1] + 1) if whole else some
            self[own] = self[own].plus(other[start : start + size])

    def add_rows(
        self,
        cell: NDArray[np.intp],
        rows: NDArray[np.float64],
        weights: NDArray[np.float64],
    ) -> None:
        """Add rows of positive weight in place: the first of each cell, the second, ..."""
        order = np.argsort(cell, kind="stable")
        place = cell[order]
        new = np.append(True, place[1:] != place[:-1])
        rank = np.arange(len(place)) - np.flatnonzero(new)[np.cumsum(new) - 1]
        size = max(_AT_ONCE // rows.shape[1] ** 2, 1)
        for turn in range(int(rank.max(initial=-1)) + 1):
            these = order[rank == turn]
            for start in range(0, len(these), size):
                own = these[start : start + size]
                where, weight = cell[own], weights[own]
                before = self.weights[where]
                share, gap = weight / (before + weight), rows[own] - self.means[where]
                self.counts[where] += 1
                self.weights[where] += weight
                self.log_weights[where] += np.log(weight)
                self.means[where] += share[:, None] * gap
                self.scatters[where] += _outer(before * share, gap)

    def plus(self, other: Cells) -> Cells:
        """Union of the rows of each pair of cells."""
        weights = self.weights + other.weights
        share = _ratio(other.weights, weights)
        gap = other.means - self.means
        return Cells(
            self.counts + other.counts,
            weights,
            self.log_weights + other.log_weights,
            # With an empty side the other's means stay as they are.
            np.where((share == 1.0)[..., None], other.means, self.means + share[..., None] * gap),
            self.scatters + other.scatters + _outer(self.weights * share, gap),
        )

    def minus(self, other: Cells) -> Cells:
        """Rows of each cell without those of the other, which are among them."""
        counts = self.counts - other.counts
        left = counts > 0
        weights = np.where(left, self.weights - other.weights, 0.0)
        factor = _ratio(other.weights, weights)
        gap = self.means - other.means
        scatters = self.scatters - other.scatters - _outer(self.weights * factor, gap)
        rest = Cells(
            counts,
            weights,
            np.where(left, self.log_weights - other.log_weights, 0.0),
            (self.means + factor[..., None] * gap) * left[..., None],
            scatters * left[..., None, None],
        )
        own, whole = (np.einsum("...jj->...j", cells.scatters) for cells in (rest, self))
        none = own <= _ROUNDING * whole
        rest.scatters[none] = 0.0
        rest.scatters.swapaxes(-1, -2)[none] = 0.0
        return rest


def _ratio(part: Array, whole: Array) -> Array:
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)


def _outer(factor: Array, gap: Array) -> Array:
    scaled: Array = (factor[..., None] * gap)[..., :, None] * gap[..., None, :]
    return scaled
