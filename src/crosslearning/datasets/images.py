"""Images from several domains and categories, and the packaged icons."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Indices = NDArray[np.intp]
Pixels = NDArray[np.uint8]
Progress = Callable[[int, int], Any]

_DESCRIPTION = (
    "Icons65: 7,531 icons of 65 categories, those of Office-Home, in 4 styles, 64 by 64 pixels. "
    "Origin: 161 sets of icons in the npm package @iconify/json 2.2.535. Licence: MIT, Apache-2.0, "
    "CC-BY-4.0, CC-BY-3.0, ISC, Unlicense or BSD-3-Clause, stated for each image, with the author "
    "of each set."
)


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


class Icons65(ImageData):
    """The icons of `load_icons65`: an `ImageData` with the images in memory.

    Attributes
    ----------
    name, description : str
        Short name; content, origin and licence of the data.
    images : ndarray of shape (7531, 64, 64, 3)
        Pixels, 0 to 255, on a white background.
    sets, icons, licences : tuple of str
        Icon set, name in the set, and licence of each image.
    """

    name = "icons65"
    description = _DESCRIPTION

    def __init__(self, images: Pixels, table: list[dict[str, str]]) -> None:
        super().__init__(
            [row["domain"] for row in table],
            [row["category"] for row in table],
            [int(row["group"]) for row in table],
        )
        self.images = images
        self.sets = tuple(row["set"] for row in table)
        self.icons = tuple(row["icon"] for row in table)
        self.licences = tuple(row["licence"] for row in table)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of images, labels and groups."""
        digest = sha256(self.images.tobytes())
        for codes in (self.domain_codes, self.category_codes, self.groups):
            digest.update(codes.astype("<i8").tobytes())
        return digest.hexdigest()

    def pixels(self, size: int = 64, *, progress: Progress | None = None) -> Pixels:  # noqa: ARG002
        """Return all images as an array of shape (n_images, size, size, 3).

        The size must be 64, 32, 16, 8, 4, 2 or 1; smaller images are block averages.
        """
        full = self.images.shape[1]
        if not (0 < size <= full and full % size == 0):
            raise ValueError(
                f"`size` must divide {full}, the size of the icons; got {size}. For another size, "
                "export the icons as a folder and read that with `ImageDomains`."
            )
        if size == full:
            return self.images
        step = full // size
        sums = np.full((len(self), size, size, 3), step**2 // 2, dtype=np.uint32)  # to round
        for row, column in np.ndindex(step, step):
            sums += self.images[:, row::step, column::step]
        means: Pixels = (sums // step**2).astype(np.uint8)
        return means


def load_icons65() -> Icons65:
    """Load 7,531 icons of 65 categories in 4 styles; the tasks are the styles.

    The domains ``colour``, ``duotone``, ``outline`` and ``solid`` have 1,101, 801, 2,944 and 2,685
    images. Every domain has every category, and 49 categories have at least 5 images in each.
    Labels come from the names of the icons and were not checked one by one.

    The same drawing appears in several styles; such icons form a group. `split` keeps groups
    together, so that no drawing is in both the training and the test images.

    >>> icons = load_icons65()
    >>> icons
    Icons65(7531 images, 4 domains, 65 categories)
    >>> icons.domains
    ('colour', 'duotone', 'outline', 'solid')
    >>> icons.pixels(32).shape
    (7531, 32, 32, 3)
    >>> icons.counts().loc["Mug"].to_dict()
    {'colour': 38, 'duotone': 21, 'outline': 113, 'solid': 86}
    """
    folder = files("crosslearning.datasets") / "data"
    with (folder / "icons65.csv").open(encoding="utf-8") as stream:
        table = list(csv.DictReader(stream))
    with (folder / "icons65.npz").open("rb") as file, np.load(file) as arrays:
        return Icons65(arrays["images"], table)


def _encode(names: Sequence[str]) -> tuple[tuple[str, ...], Indices]:
    different, codes = np.unique(np.asarray(names, dtype=np.str_), return_inverse=True)
    return tuple(different.tolist()), codes
