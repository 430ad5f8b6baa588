"""Means and centred scatter of groups of rows: what one pass over a table keeps."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.tether import Array, Indices

_ROUNDING = 1e-13  # share of a sum of squares that a difference may leave of equal ones
_AT_ONCE = 2**17  # numbers, so that temporary arrays stay in the cache


@dataclass(eq=False)
class Cells:
    """Sums over groups of rows (x, y), arranged in an array of any shape."""

    counts: NDArray[np.int64]
    weights: Array  # sums of the weights of rows,
    log_weights: Array  # and of their logarithms
    means: Array  # weighted, of the columns (last axis)
    scatters: Array  # weighted sums of products of deviations from the means (last two)

    @classmethod
    def empty(cls, shape: tuple[int, ...], n_columns: int) -> Cells:
        ends = (), (), (n_columns,), (n_columns, n_columns)
        return cls(np.zeros(shape, np.int64), *(np.zeros((*shape, *end)) for end in ends))

    def __getitem__(self, where: object) -> Cells:
        """Return some of the cells, a view where numpy gives one."""
        return Cells(*(array[where] for array in self.arrays))

    def __setitem__(self, where: object, cells: Cells) -> None:
        for mine, other in zip(self.arrays, cells.arrays, strict=True):
            mine[where] = other

    @property
    def arrays(self) -> list[Any]:
        return [getattr(self, field.name) for field in fields(self)]

    @property
    def flat(self) -> Cells:
        """The same cells in one row, as a view."""
        n = self.counts.ndim
        return Cells(*(array.reshape(-1, *array.shape[n:]) for array in self.arrays))

    def copy(self) -> Cells:
        return Cells(*(array.copy() for array in self.arrays))

    def add(self, where: Indices, other: Cells) -> None:
        """Add other cells to some of these, in place and few at a time."""
        size = max(_AT_ONCE // max(other.scatters[:1].size, 1), 1)
        for start in range(0, len(where), size):
            some = where[start : start + size]
            whole = some[-1] - some[0] == len(some) - 1  # then no copies are made
            cells = slice(some[0], some[-1] + 1) if whole else some
            self[cells] = self[cells].plus(other[start : start + size])

    def add_rows(self, cell: Indices, X: Array, y: Array, weights: Array) -> None:
        """Add rows of positive weight in place: cells with equally many rows fill a dense array."""
        n_columns = X.shape[1] + 1
        # Radix sort of short integers takes a tenth of the time.
        order = np.argsort(cell.astype(np.min_scalar_type(len(self.counts))), kind="stable")
        sorted_cells = cell[order]
        first = np.flatnonzero(np.diff(sorted_cells, prepend=-1))
        sizes = np.diff(first, append=len(cell))
        for size in np.unique(sizes):
            starts = first[sizes == size]
            at_once = max(_AT_ONCE // (n_columns * max(size, n_columns)), 1)
            for k in range(0, len(starts), at_once):
                block = starts[k : k + at_once]
                # The first row comes twice: its copy makes room for the gap between the means.
                members = order[block[:, None] + np.maximum(np.arange(-1, size), 0)]
                # `take` needs a third of the time of indexing.
                rows = np.empty((*members.shape, n_columns))
                rows[..., :-1], rows[..., -1] = X.take(members, axis=0), y.take(members)
                self._add_block(sorted_cells[block], rows, weights.take(members))

    def _add_block(self, where: Indices, block: Array, weights: Array) -> None:
        """Add rows of shape (cells, 1 + rows, columns), the first of which is a spare one.

        It becomes the gap between old and new means, so that a single product adds all scatter.
        """
        self.counts[where] += block.shape[1] - 1
        self.log_weights[where] += np.log(weights[:, 1:]).sum(axis=1)
        weights[:, 0] = 0.0
        # Centred before any product: a large mean costs no digits of the scatter.
        origin = block[:, 0].copy()
        block -= origin[:, None]
        before, total = self.weights[where], weights.sum(axis=1)
        shift = (weights[:, None] @ block)[:, 0] / total[:, None]
        block -= shift[:, None]
        share, gap = total / (before + total), origin + shift - self.means[where]
        weights[:, 0], block[:, 0] = before * share, gap
        self.weights[where] += total
        self.means[where] += share[:, None] * gap
        self.scatters[where] += (block * weights[:, :, None]).swapaxes(1, 2) @ block

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
        logs = np.where(left, self.log_weights - other.log_weights, 0.0)
        means = (self.means + factor[..., None] * gap) * left[..., None]
        rest = Cells(counts, weights, logs, means, scatters * left[..., None, None])
        left_over, whole = (np.einsum("...jj->...j", cells.scatters) for cells in (rest, self))
        none = left_over <= _ROUNDING * whole
        rest.scatters[none] = 0.0
        rest.scatters.swapaxes(-1, -2)[none] = 0.0
        return rest

    def squared_errors(self, coef: Array, intercept: Array) -> Array:
        """Mean squared error of a linear model of y in each cell of a row; NaN without weight."""
        v = np.column_stack([-coef, np.ones(len(coef))])
        squares = np.einsum("nj,nj->n", (self.scatters @ v[:, :, None])[:, :, 0], v)
        gap = np.einsum("nj,nj->n", v, self.means) - intercept
        total = np.maximum(squares, 0.0) + self.weights * gap**2
        nothing = np.full(len(v), np.nan)
        return np.asarray(np.divide(total, self.weights, out=nothing, where=self.weights > 0))


def _ratio(part: Array, whole: Array) -> Array:
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)


def _outer(factor: Array, gap: Array) -> Array:
    return np.asarray((factor[..., None] * gap)[..., :, None] * gap[..., None, :])
