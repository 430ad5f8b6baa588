"""Mean and standard deviation of the colours of images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from crosslearning.datasets.images import Pixels

__all__ = ["channel_statistics"]

_PIXELS_AT_A_TIME = 4_000_000


def channel_statistics(
    pixels: Pixels, indices: ArrayLike
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and standard deviation of red, green and blue over some images, from 0 to 1.

    Exact, because it counts how often each of the 256 values occurs; reads a few images at a time.

    Parameters
    ----------
    pixels : ndarray of shape (n_images, height, width, 3)
        All images, 0 to 255.
    indices : array-like of int
        The images to look at: those of the training part.

    Returns
    -------
    mean, std : ndarray of shape (3,)
        To normalise images with.

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
        chunk = pixels[rows[start : start + step]]
        for channel in range(3):
            counts[channel] += np.bincount(chunk[..., channel].ravel(), minlength=256)
    shares = counts / counts[0].sum()
    values = np.arange(256) / 255
    mean = shares @ values
    std = np.sqrt(np.sum(shares * (values - mean[:, None]) ** 2, axis=1))
    return mean.astype(np.float32), std.astype(np.float32)
