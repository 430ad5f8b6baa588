"""Images from several domains and categories, and the packaged ones: photographs to icons."""

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from crosslearning.datasets.decoding import Pixels, decode

if TYPE_CHECKING:
    import pandas as pd

Indices = NDArray[np.intp]
Progress = Callable[[int, int], Any]

_LABELS = ("domain", "category", "group")

_DESCRIPTION = (
    "Pictures32: 5,590 pictures of 32 categories in 4 domains, 64 by 64 pixels. Origin: "
    "photographs of Caltech-101, sketches of TU-Berlin, and emoji and icons of 151 sets in the npm "
    "package @iconify/json 2.2.535. Licence: CC-BY-4.0 for photographs and sketches; MIT, "
    "CC-BY-4.0, Apache-2.0, OFL-1.1, CC-BY-3.0, ISC, CC0-1.0 or BSD-3-Clause for emoji and icons, "
    "stated for each image, with the author of each set."
)


class ImageData(ABC):
    """Images with a domain, a category and a group each; images of one group are never split.

    Attributes
    ----------
    domains, categories : tuple of str
        The distinct names, sorted.
    domain_codes, category_codes, groups : ndarray of shape (n_images,)
        Index of each image's domain, category and group.
    skipped : tuple of str
        Names of images that were left out because they cannot be read.
    """

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
        """SHA-256 that changes with the images, their labels and their groups."""

    @abstractmethod
    def pixels(self, size: int, *, progress: Progress | None = None) -> Pixels:
        """Return all images as an array of shape (n_images, size, size, 3), possibly on disk.

        While images are decoded, `progress` is called with the number done and the total.
        """

    def counts(self) -> "pd.DataFrame":
        """Count the images of each category (rows) in each domain (columns)."""
        import pandas as pd

        category = pd.Series(np.take(self.categories, self.category_codes), name="category")
        domain = pd.Series(np.take(self.domains, self.domain_codes), name="domain")
        return pd.crosstab(category, domain)


def _encode(names: Sequence[str]) -> tuple[tuple[str, ...], Indices]:
    different, codes = np.unique(np.asarray(names, dtype=np.str_), return_inverse=True)
    return tuple(different.tolist()), codes


def digest(parts: Iterable[object]) -> str:
    """Return the SHA-256 of values as text."""
    # surrogateescape: file names may contain bytes that are not text
    return sha256(b"".join(f"{p}\0".encode("utf-8", "surrogateescape") for p in parts)).hexdigest()


class Pictures32(ImageData):
    """The pictures of `load_pictures32`, decoded from an archive of WebP files.

    Attributes
    ----------
    name, description : str
        Short name; content, origin and licence of the data.
    table : list of dict
        Path in the archive, domain, category, group, source and licence of each picture.
    """

    name = "pictures32"
    description = _DESCRIPTION

    def __init__(self, table: list[dict[str, str]], archive: bytes) -> None:
        domains, categories, groups = ([row[name] for row in table] for name in _LABELS)
        super().__init__(domains, categories, [int(group) for group in groups])
        self.table = table
        self._archive = ZipFile(io.BytesIO(archive))
        self._decoded: dict[int, Pixels] = {}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of files, labels and groups."""
        return digest(
            part
            for row in self.table
            for part in (self._archive.getinfo(row["path"]).CRC, *map(row.get, _LABELS))
        )

    def pixels(self, size: int = 64, *, progress: Progress | None = None) -> Pixels:
        """Return all pictures, 0 to 255, as an array of shape (n_images, size, size, 3).

        The files have 64 by 64 pixels; other sizes are interpolated. Each size is decoded once.
        """
        if size < 1:
            raise ValueError(f"`size` is a number of pixels and must be at least 1; got {size}.")
        if size not in self._decoded:
            pixels = np.empty((len(self), size, size, 3), np.uint8)
            for k, row in enumerate(self.table):
                pixels[k] = decode(io.BytesIO(self._archive.read(row["path"])), size)
                if progress is not None:
                    progress(k + 1, len(self))
            self._decoded[size] = pixels
        return self._decoded[size]


def load_pictures32() -> Pictures32:
    """Load 5,590 pictures of 32 kinds of things in 4 domains; the tasks are the domains.

    The domains ``emoji``, ``icon``, ``photo`` and ``sketch`` have 466, 1,458, 1,746 and 1,920
    images, and all 32 categories: 33 to 60 photographs, 60 sketches, 6 to 41 emoji and 8 to 60
    icons of each. Labels of emoji and icons come from their names and were not checked one by one.
    Emoji and icons that one family of sets has of a category form a group, since the same drawing
    may be in both domains: `split` has none in both training and test images. Decoding needs the
    extra ``torch``.

    >>> pictures = load_pictures32()
    >>> pictures
    Pictures32(5590 images, 4 domains, 32 categories)
    >>> pictures.counts().loc["cup"].to_dict()
    {'emoji': 16, 'icon': 60, 'photo': 57, 'sketch': 60}
    """
    folder = files("crosslearning.datasets") / "data"
    with (folder / "pictures32.csv").open(encoding="utf-8") as stream:
        table = list(csv.DictReader(stream))
    return Pictures32(table, (folder / "pictures32.zip").read_bytes())
