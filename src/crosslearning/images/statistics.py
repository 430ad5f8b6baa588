"""Mean and standard deviation of the colours of images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from crosslearning.datasets.images import Pixels

_PIXELS_AT_A_TIME = 4_000_000


def channel_statistics(
    pixels: Pixels, indices: ArrayLike
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and standard deviation of red, green and blue over some images, from 0 to 1.

    `pixels` are all images, of shape (n_images, height, width, 3) and from 0 to 255; `indices` are
    those to look at, of the training part. Exact, because the 256 values are counted.

    Examples
    --------
    >>> black_and_white = np.stack([np.zeros((2, 2, 3)), np.full((2, 2, 3), 255)]).astype(np.uint8)
    >>> channel_statistics(black_and_white, [0, 1])
    (array([0.5, 0.5, 0.5], dtype=float32), array([0.5, 0.5, 0.5], dtype=float32))
    """
    rows = np.sort(np.asarray(indices, dtype=np.intp))
    if not len(rows):
        raise ValueError("`indices` must name at least one image to compute a mean of; got none.")
    counts = np.zeros((3, 256))
    step = max(1, _PIXELS_AT_A_TIME // (pixels.shape[1] * pixels.shape[2]))
    for start in range(0, len(rows), step):
        chunk = pixels[rows[start : start + step]].reshape(-1, 3)
        counts += [np.bincount(channel, minlength=256) for channel in chunk.T]
    shares = counts / counts[0].sum()
    values = np.arange(256) / 255
    mean = shares @ values
    std = np.sqrt(np.sum(shares * (values - mean[:, None]) ** 2, axis=1))
    return mean.astype(np.float32), std.astype(np.float32)
