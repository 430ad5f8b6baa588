"""Mean and standard deviation of colours."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.datasets.images import Pixels

_PIXELS_AT_A_TIME = 4_000_000


def channel_statistics(
    pixels: Pixels, indices: ArrayLike
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return mean and standard deviation of red, green and blue, between 0 and 1.

    `pixels` holds all images, of shape (n_images, height, width, 3) and from 0 to 255; `indices`
    selects some of them, such as those of the training part.

    >>> black_and_white = np.stack([np.zeros((2, 2, 3)), np.full((2, 2, 3), 255)]).astype(np.uint8)
    >>> channel_statistics(black_and_white, [0, 1])
    (array([0.5, 0.5, 0.5], dtype=float32), array([0.5, 0.5, 0.5], dtype=float32))
    """
    rows = np.sort(np.asarray(indices, dtype=np.intp))
    if not len(rows):
        raise ValueError("`indices` must select at least one image; got none.")
    counts = np.zeros((3, 256))  # of each value, which makes the result exact
    step = max(1, _PIXELS_AT_A_TIME // (pixels.shape[1] * pixels.shape[2]))
    for start in range(0, len(rows), step):
        chunk = pixels[rows[start : start + step]].reshape(-1, 3)
        counts += [np.bincount(channel, minlength=256) for channel in chunk.T]
    shares = counts / counts[0].sum()
    values = np.arange(256) / 255
    mean = shares @ values
    std = np.sqrt(np.sum(shares * (values - mean[:, None]) ** 2, axis=1))
    return mean.astype(np.float32), std.astype(np.float32)
