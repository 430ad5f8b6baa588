"""Images as tensors: batches of normalised floats out of an array of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["ImageBatches"]


class ImageBatches:
    """Some of the images of an array, which may be on disk, and their labels.

    Only the images of a batch are read and converted.

    Parameters
    ----------
    pixels : ndarray of uint8, shape (n_images, height, width, 3)
        All images.
    indices : array-like of int
        The images that belong here, such as the training images of one domain.
    labels : array-like of int, shape (n_images,)
        Label of each of all images.
    mean, std : array-like of shape (3,)
        What is subtracted from red, green and blue between 0 and 1, and what the difference is
        divided by. A standard deviation of 0 divides by 1.

    Examples
    --------
    >>> white = np.full((10, 4, 4, 3), 255, dtype=np.uint8)
    >>> images = ImageBatches(white, [2, 5, 7], range(10), mean=[0.5] * 3, std=[0.25] * 3)
    >>> x, y = images.batch(torch.tensor([1, 2]))
    >>> x.shape, x.unique(), y
    (torch.Size([2, 3, 4, 4]), tensor([2.]), tensor([5, 7]))
    """

    def __init__(
        self,
        pixels: NDArray[np.uint8],
        indices: ArrayLike,
        labels: ArrayLike,
        mean: ArrayLike,
        std: ArrayLike,
    ) -> None:
        self._pixels = pixels
        self._rows = np.asarray(indices, dtype=np.intp)
        self._labels = torch.from_numpy(np.asarray(labels, dtype=np.int64)[self._rows])
        deviation = np.asarray(std, dtype=np.float64)
        deviation = np.where(deviation > 0, deviation, 1.0)
        self._factor = _per_channel(1 / (255 * deviation))
        self._offset = _per_channel(-np.asarray(mean, dtype=np.float64) / deviation)

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Images and labels at these places among the images that belong here.

        Parameters
        ----------
        indices : LongTensor of shape (n,)
            From 0 to ``len(self) - 1``.

        Returns
        -------
        images : FloatTensor of shape (n, 3, height, width)
            Normalised.
        labels : LongTensor of shape (n,)
            Categories.
        """
        # np.asarray, because rows of a memory map are a copy in memory that still calls itself one
        bytes_ = torch.from_numpy(np.asarray(self._pixels[self._rows[indices.numpy()]]))
        x = bytes_.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
        return x.mul_(self._factor).add_(self._offset), self._labels[indices]


def _per_channel(values: NDArray[np.float64]) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.float32)).reshape(3, 1, 1)
