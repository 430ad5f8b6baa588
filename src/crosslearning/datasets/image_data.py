"""Images of several domains and categories, whatever they are stored in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    Indices = NDArray[np.intp]
    Pixels = NDArray[np.uint8]
    Progress = Callable[[int, int], Any]

__all__ = ["ImageData"]


class ImageData(ABC):
    """What an experiment needs to know about images: the same for a folder and for packaged data.

    Parameters
    ----------
    domains, categories : sequence of str
        Domain and category of each image.
    groups : sequence
        Group of each image: images of one group are never split.

    Attributes
    ----------
    domains, categories : tuple of str
        The different names, sorted.
    domain_codes, category_codes : ndarray of shape (n_images,)
        Index of each image's name in ``domains`` and ``categories``.
    groups : ndarray of shape (n_images,)
        Number of each image's group.
    given_split : tuple of two ndarrays, or None
        Indices of the training and of the test images where the data prescribe them.
    """

    given_split: tuple[Indices, Indices] | None = None

    def __init__(
        self, domains: Sequence[str], categories: Sequence[str], groups: Sequence[Any]
    ) -> None:
        self.domains, self.domain_codes = _encode(domains)
        self.categories, self.category_codes = _encode(categories)
        self.groups: Indices = np.unique(np.asarray(groups), return_inverse=True)[1]

    def __len__(self) -> int:
        return len(self.domain_codes)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self)} images, {len(self.domains)} domains, "
            f"{len(self.categories)} categories)"
        )

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """SHA-256 that changes with the images, their labels, their groups and the given split."""

    @abstractmethod
    def pixels(self, size: int, *, progress: Progress | None = None) -> Pixels:
        """All images as an array of shape (n_images, size, size, 3), which may be on disk.

        Parameters
        ----------
        size : int
            Height and width.
        progress : callable, optional
            Called with the number of images that are ready and of all images, if they are not
            at hand and have to be made.
        """

    def counts(self) -> pd.DataFrame:
        """Count the images of each category (rows) in each domain (columns)."""
        import pandas as pd

        category = pd.Series(np.take(self.categories, self.category_codes), name="category")
        domain = pd.Series(np.take(self.domains, self.domain_codes), name="domain")
        return pd.crosstab(category, domain)


def _encode(names: Sequence[str]) -> tuple[tuple[str, ...], Indices]:
    different, codes = np.unique(np.asarray(names, dtype=np.str_), return_inverse=True)
    return tuple(different.tolist()), codes
