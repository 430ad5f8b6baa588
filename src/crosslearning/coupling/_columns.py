"""Blocks of columns: passes over large tasks with small temporaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["column_blocks", "gram_of_differences"]

_BLOCK = (
    1 << 14
)  # elements of a temporary: larger ones are fresh pages, which cost more than the sums
_NARROWEST = 256  # narrower products waste the processor


def column_blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Slices that cut an array of this shape into blocks of columns of bounded size."""
    n_rows, n_columns = shape
    width = max(_NARROWEST, _BLOCK // n_rows)
    return (slice(start, start + width) for start in range(0, n_columns, width))


def gram_of_differences(
    z: NDArray[np.floating[Any]], base: NDArray[np.floating[Any]]
) -> NDArray[np.float64]:
    """Inner products of the rows of z - base, subtracted and summed in float64."""
    gram = np.zeros((len(z), len(z)))
    for b in column_blocks(z.shape):
        difference = z[:, b] - base[b].astype(np.float64)
        gram += difference @ difference.T
    return gram
