"""Inner products of the rows of a matrix, by the products of matrices that are fastest here."""

from functools import cache
from typing import Any

import numpy as np

from crosslearning.tether import Array, Reals

_BAND = 4  # rows of a small product
_MOST = 128  # rows: with more, small products are not faster
PIECE = 1 << 10  # columns of a small product
_WITH_SMALL_KERNELS = ("SkylakeX", "Cooperlake", "SapphireRapids")  # of OpenBLAS, for AVX-512


class InnerProducts:
    """Inner products of all rows of a buffer but the last, which is spare.

    With kernels for small products, half of the symmetric matrix by bands takes a quarter to
    three quarters of the time of BLAS' routine for it; without them, up to twice as long.
    """

    def __init__(self, buffer: Reals) -> None:
        assert buffer.flags.c_contiguous  # pieces are views
        n = len(buffer) - 1
        self._rows, self._product = buffer[:n], np.empty((n, n), buffer.dtype)
        self._bands: list[tuple[Any, Any, Any]] = []
        if _has_small_kernels() and n <= _MOST and buffer.shape[1] % PIECE == 0:
            pieces = buffer.reshape(n + 1, -1, PIECE).swapaxes(0, 1)
            self._products = np.zeros((len(pieces), n, n + 1), buffer.dtype)
            # With the spare row, a factor is never the other one transposed, which is slow.
            self._bands = [
                (pieces[:, i : min(i + _BAND, n)], pieces[:, i:].mT, slice(i, min(i + _BAND, n)))
                for i in range(0, n, _BAND)
            ]

    def upper(self, width: int) -> Any:
        """Return the products of so many columns, on and above the diagonal; room is used again."""
        if not self._bands:
            rows = self._rows[:, :width]
            return np.matmul(rows, rows.T, out=self._product)
        self._rows[:, width:] = 0.0
        for left, right, band in self._bands:
            np.matmul(left, right, out=self._products[:, band, band.start :])
        return self._products[:, :, :-1].sum(axis=0, dtype=np.float64)


def symmetric(upper: Array) -> Array:
    """Complete a matrix that is known on and above the diagonal."""
    return np.asarray(np.triu(upper) + np.triu(upper, 1).T)


@cache
def _has_small_kernels() -> bool:
    from threadpoolctl import threadpool_info  # asks the BLAS that NumPy has loaded

    return any(one.get("architecture") in _WITH_SMALL_KERNELS for one in threadpool_info())
