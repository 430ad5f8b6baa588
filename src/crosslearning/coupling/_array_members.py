"""Members that are rows of a NumPy array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.coupling._members import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["ArrayMembers", "column_blocks"]

_BLOCK = 1 << 17  # elements of a temporary: a few calls per block, and it stays in the cache
_NARROWEST = 256  # narrower products waste the processor


class ArrayMembers:
    """Tasks `z` around a `base`; the moved ones are written to arrays of their own.

    Parameters
    ----------
    z : array of shape (n_tasks, n_parameters)
        The tasks, float32 or float64.
    base : array of shape (n_parameters,)
        The given centre, or the mean of the tasks if the centre is free.

    Attributes
    ----------
    thetas, center : array
        What came of it, in the dtype of `z`; before any move, not yet set.
    """

    groups = ("",)

    def __init__(self, z: NDArray[np.floating[Any]], base: NDArray[np.floating[Any]]) -> None:
        self.z, self.base = z, base
        self.thetas, self.center = np.empty_like(z), np.empty_like(z[0])
        self._squares = np.zeros(len(z))
        self._room: NDArray[np.float64] | None = None

    @property
    def tasks(self) -> list[str]:
        """What messages call the tasks."""
        return [f"task {row}" for row in range(len(self.z))]

    def gram(self) -> NDArray[np.float64]:
        """Inner products of the rows of z - base, subtracted and summed in float64."""
        gram = np.zeros((len(self.z), len(self.z)))
        with np.errstate(over="ignore", invalid="ignore"):  # found in the result, and named
            for _, difference in self._differences():
                gram += difference @ difference.T
        return np.asarray(gram[np.newaxis])

    def differences(self) -> NDArray[np.float64]:
        """Return the rows of z - base."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.subtract(self.z, self.base, dtype=np.float64))

    def move(self, pull: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
        """Move the centre by a combination of the differences, and the tasks towards it."""
        self._squares = np.zeros(len(self.z))
        for block, difference in self._differences():
            self._write(block, weights[0] @ difference, pull[0], difference)

    def place(self, pull: NDArray[np.float64], offset: NDArray[np.float64]) -> None:
        """Move the centre by this offset, and the tasks towards it."""
        self._squares = np.zeros(len(self.z))
        for block, difference in self._differences():
            self._write(block, offset[block], pull, difference)

    def _write(
        self,
        block: slice,
        offset: NDArray[np.float64],
        pull: NDArray[np.float64],
        room: NDArray[np.float64],
    ) -> None:
        """Write a block of columns, and measure what was written while it is in the cache.

        `room` holds the differences of the block to the base.
        """
        z, center, thetas = self.z[:, block], self.center[block], self.thetas[:, block]
        np.add(self.base[block], offset, out=center)
        room -= np.subtract(center, self.base[block], dtype=np.float64)
        room *= pull[:, np.newaxis]
        # As a move: a task with no pull stays as it is, bit by bit.
        np.subtract(z, room, out=thetas)
        if (together := pull == 1.0).any():
            thetas[together] = center
        np.subtract(thetas, center, out=room, dtype=np.float64)
        self._squares += np.vecdot(room, room)

    def distances(self) -> NDArray[np.float64]:
        """Distances of the written tasks to the written centre."""
        return np.sqrt(self._squares)[np.newaxis]

    def storage(self) -> Storage:
        """How finely the array stores its rows, as long as the longest of them."""
        norm = max(float(np.linalg.norm(row.astype(np.float64, copy=False))) for row in self.z)
        dtype, size = self.z.dtype, np.array([self.z.shape[1]])
        eps = np.array([np.finfo(dtype).eps], dtype=np.float64)
        return Storage([dtype.name], eps, np.array([norm]), size)

    def culprits(self) -> tuple[list[str], str]:
        """Names of rows that are not finite."""
        return [f"task {row}" for row in np.flatnonzero(~np.isfinite(self.z).all(axis=1))], ""

    def _differences(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        for block, room in self._blocks():
            yield block, np.subtract(self.z[:, block], self.base[block], out=room, dtype=np.float64)

    def _blocks(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Blocks of columns, each with room for as many numbers."""
        n, s = self.z.shape
        width = _width(n)
        if self._room is None:
            self._room = np.empty(n * min(width, s))
        for block in column_blocks(self.z.shape):
            columns = min(width, s - block.start)
            yield block, self._room[: n * columns].reshape(n, columns)


def column_blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Slices that cut an array of this shape into blocks of columns of bounded size."""
    n_rows, n_columns = shape
    width = _width(n_rows)
    return (slice(start, start + width) for start in range(0, n_columns, width))


def _width(n_rows: int) -> int:
    return max(_NARROWEST, _BLOCK // n_rows)
