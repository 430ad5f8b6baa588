"""Images from several domains and categories."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Indices = NDArray[np.intp]
Pixels = NDArray[np.uint8]
Progress = Callable[[int, int], Any]


class ImageData(ABC):
    """Images with a domain, a category and a group each; images of one group are never split.

    Attributes
    ----------
    domains, categories : tuple of str
        The distinct names, sorted.
    domain_codes, category_codes, groups : ndarray of shape (n_images,)
        Index of each image's domain, category and group.
    given_split : tuple of two ndarrays, or None
        Indices of the training and the test images, if the data prescribe a split.
    skipped : tuple of str
        Names of images that were left out because they cannot be read.
    """

    given_split: tuple[Indices, Indices] | None = None
    skipped: tuple[str, ...] = ()

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
        """Return all images as an array of shape (n_images, size, size, 3), possibly on disk.

        If images have to be decoded first, `progress` is called with the number done and the total.
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
