"""Images as tensors: statistics of colours, normalised batches, and augmentation."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from crosslearning.datasets.decoding import Pixels

_PIXELS_AT_A_TIME = 4_000_000


def channel_statistics(
    pixels: Pixels, indices: ArrayLike
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return mean and standard deviation of red, green and blue, between 0 and 1.

    `pixels` holds all images, of shape (n_images, height, width, 3) and from 0 to 255, and
    `indices` selects some of them.

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


class ImageBatches:
    """Some of the images in an array, possibly on disk, and their labels.

    Parameters
    ----------
    pixels, labels : arrays of shape (n_images, height, width, 3) and (n_images,)
        All images, 0 to 255, and their labels.
    indices : array-like of int
        Which images, such as the training images of one domain.
    mean, std : array-like of shape (3,)
        Of red, green and blue between 0 and 1, to normalise them; a deviation of 0 counts as 1.

    Examples
    --------
    >>> white = np.full((10, 4, 4, 3), 255, dtype=np.uint8)
    >>> images = ImageBatches(white, [2, 5, 7], range(10), mean=[0.5] * 3, std=[0.25] * 3)
    >>> x, y = images.batch(torch.tensor([1, 2]))
    >>> x.shape, x.unique(), y
    (torch.Size([2, 3, 4, 4]), tensor([2.]), tensor([5, 7]))
    """

    def __init__(
        self, pixels: Pixels, indices: ArrayLike, labels: ArrayLike, mean: ArrayLike, std: ArrayLike
    ) -> None:
        self._pixels = pixels
        self._rows = np.asarray(indices, dtype=np.intp)
        self._labels = torch.from_numpy(np.asarray(labels, dtype=np.int64)[self._rows])
        deviation = np.where(np.greater(std, 0), std, 1.0).astype(np.float64)
        scales = 1 / (255 * deviation), -np.asarray(mean, dtype=np.float64) / deviation
        self._factor, self._offset = torch.tensor(np.array(scales, np.float32))[..., None, None]

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return normalised images (n, 3, height, width) and labels (n,) at these positions."""
        # np.asarray, because rows of a memory map are a copy in memory that still calls itself one
        bytes_ = torch.from_numpy(np.asarray(self._pixels[self._rows[indices.numpy()]]))
        x = bytes_.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
        return x.mul_(self._factor).add_(self._offset), self._labels[indices]


@dataclass(frozen=True)
class Augmentation:
    """Randomly shift, mirror and recolour the images of a batch.

    Parameters
    ----------
    shift : float, default=0.1
        Largest shift in each direction, as a share of height and width; edges are repeated.
    flip : bool, default=True
        Whether to mirror an image with probability 1/2.
    colour : float, default=0.2
        Each normalised channel is multiplied by a number within 1 ± `colour` and shifted by one
        within ± `colour`.

    Examples
    --------
    >>> x = torch.arange(6.0).reshape(1, 1, 1, 6)
    >>> Augmentation(shift=0.2, colour=0)(x, torch.Generator().manual_seed(1)).tolist()
    [[[[5.0, 5.0, 4.0, 3.0, 2.0, 1.0]]]]
    """

    shift: float = 0.1
    flip: bool = True
    colour: float = 0.2

    def __post_init__(self) -> None:
        for name in ("shift", "colour"):
            if not 0 <= (value := getattr(self, name)) < 1:
                raise ValueError(f"`{name}` is a share, at least 0 and below 1; got {value}.")

    def __call__(self, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Augment images of shape (n, channels, height, width)."""
        rows = self._places(x.shape[0], x.shape[2], generator)
        columns = self._places(x.shape[0], x.shape[3], generator)
        if self.flip:
            mirrored = torch.rand(len(x), 1, generator=generator) < 0.5
            columns = torch.where(mirrored, columns.flip(1), columns)
        rows = rows.to(x.device)[:, None, :, None]
        columns = columns.to(x.device)[:, None, None, :]
        changed = x.gather(2, rows.expand_as(x)).gather(3, columns.expand_as(x))
        if not self.colour:
            return changed
        factor, offset = 2 * torch.rand(2, *x.shape[:2], 1, 1, generator=generator).to(x) - 1
        return changed.mul_(1 + self.colour * factor).add_(self.colour * offset)

    def _places(self, n_images: int, size: int, generator: torch.Generator) -> torch.Tensor:
        """Return, for each position along an axis, the position its pixel comes from."""
        most = round(self.shift * size)
        shifts = torch.randint(-most, most + 1, (n_images, 1), generator=generator)
        return (torch.arange(size) + shifts).clamp(0, size - 1)
