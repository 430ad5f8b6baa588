"""Images by domain and category, such as Office-Home, in folders or in Parquet files."""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from crosslearning.datasets.images import ImageData, Indices, Pixels, Progress
from crosslearning.files import default_cache_dir, write_json
from crosslearning.images import _listing
from crosslearning.images._listing import ImageFile, digest
from crosslearning.images._pixel_cache import cached_pixels, decode_all

Lists = str | Path | Sequence[str | Path]

_CACHE_VERSION = 1  # to be raised when the same file is decoded to other pixels


class ImageDomains(ImageData):
    """Images in folders ``root/domain/category/``: Office-Home, PACS, Office-31, DomainNet.

    Or in Parquet files, as data hubs offer them: a column of image files as bytes, or as structs of
    ``bytes`` and ``path``, a column ``domain``, a column ``label`` or ``category`` and, if images
    belong together, a column ``group``.

    A category may be missing from some domains. Other files, hidden files and empty folders are
    ignored. Needs the extra ``torch``, and ``app`` for Parquet files. Attributes are those of
    `ImageData`, and those below.

    Parameters
    ----------
    root : path
        Folder that contains the folders of the domains, or a Parquet file or a folder of some.
    train_lists, test_lists : path or sequence of paths, optional
        Text files that prescribe the split: a path relative to ``root``, optionally with a label,
        in each line. If only one is given, the other part is all other images.
    groups : path, optional
        CSV file with the columns ``path``, relative to ``root``, and ``group``; by default
        ``groups.csv`` in ``root``, if it exists. Images of one group are never split; an image
        that is not listed is a group of its own.
    skip_unreadable : bool, default=False
        Whether to find and skip unreadable images, which takes as long as decoding all of them;
        otherwise `pixels` raises an error.
    cache_dir : path, optional
        Folder for decoded images; by default ``crosslearning`` in ``$XDG_CACHE_HOME`` or
        ``~/.cache``.
    progress : callable, optional
        Called with the number of images checked and the total, if ``skip_unreadable``.

    Attributes
    ----------
    names : tuple of str
        Paths of the images, relative to ``root``; for Parquet files ``file.parquet/row``.
    ignored : int
        Number of files and folders ignored.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from PIL import Image
    >>> with TemporaryDirectory() as folder:
    ...     root = Path(folder, "images")
    ...     for domain in ("Art", "Real World"):
    ...         (root / domain / "Mug").mkdir(parents=True)
    ...         Image.new("RGB", (300, 200)).save(root / domain / "Mug" / "00001.jpg")
    ...     data = ImageDomains(root, cache_dir=folder)
    ...     pixels = data.pixels(224)
    >>> data.domains, data.categories, pixels.shape
    (('Art', 'Real World'), ('Mug',), (2, 224, 224, 3))
    """

    def __init__(
        self,
        root: str | Path,
        *,
        train_lists: Lists | None = None,
        test_lists: Lists | None = None,
        groups: str | Path | None = None,
        skip_unreadable: bool = False,
        cache_dir: str | Path | None = None,
        progress: Progress | None = None,
    ) -> None:
        root = Path(root)
        if tables := _listing.parquet_files(root):
            files, self.ignored = _listing.find_rows(root, tables), 0
        else:
            files, self.ignored = _listing.find_images(root)
        self._cache_dir = default_cache_dir() if cache_dir is None else Path(cache_dir)
        skipped = self._find_unreadable(files, progress) if skip_unreadable else set()
        self.skipped = tuple(sorted(skipped))
        self._files = [file for file in files if file.name not in skipped]
        if not self._files:
            raise ValueError(f"At least one image must be readable; none in {root} is.")
        self.names = tuple(file.name for file in self._files)
        names = {file.name for file in files}  # lists may name images that are skipped
        file = root / "groups.csv" if groups is None else Path(groups)
        group = {file.name: file.group for file in files if file.group is not None}
        group |= _listing.read_groups(file, names) if groups is not None or file.exists() else {}
        super().__init__(
            [file.domain for file in self._files],
            [file.category for file in self._files],
            # The prefixes distinguish a group from an image of the same name.
            [f"group {group[n]}" if n in group else f"alone {n}" for n in self.names],
        )
        if train_lists is not None or test_lists is not None:
            self.given_split = self._read_split(train_lists, test_lists, names)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of names and sizes of the files, groups and given split."""
        split = None if self.given_split is None else [part.tolist() for part in self.given_split]
        sizes = [file.size for file in self._files]
        return digest([*self.names, *sizes, self.groups.tolist(), split])

    def pixels(self, size: int = 224, *, progress: Progress | None = None) -> Pixels:
        """Return all images, decoded once, as a memory map of shape (n_images, size, size, 3).

        EXIF orientation is applied, transparency becomes white, and images are resized to a square
        regardless of their proportions. Unreadable images, and those above Pillow's size limit,
        raise an error that names them. While decoding, `progress` is called with the number of
        images done and the total.
        """
        if operator.index(size) < 1:
            raise ValueError(f"`size` is a number of pixels and must be at least 1; got {size}.")
        target = self._cache_dir / f"{_key(self._files)}-{size}.npy"
        return cached_pixels(target, self._files, size, progress)

    def _find_unreadable(self, files: list[ImageFile], progress: Progress | None) -> set[str]:
        """Return the names of unreadable images, from the cache if possible."""
        target = self._cache_dir / f"{_key(files)}-unreadable.json"
        if not target.exists():
            tried = decode_all(files, 1, progress)  # one pixel is fastest
            names = [file.name for file, result in tried if isinstance(result, str)]
            target.parent.mkdir(parents=True, exist_ok=True)
            write_json(target, names)
        return set(json.loads(target.read_text(encoding="utf-8")))

    def _read_split(
        self, train_lists: Lists | None, test_lists: Lists | None, names: set[str]
    ) -> tuple[Indices, Indices]:
        train = _listing.read_names(train_lists or [], names)
        test = names - train if test_lists is None else _listing.read_names(test_lists, names)
        train = names - test if train_lists is None else train
        if both := train & test:
            raise ValueError(
                f"An image must not be in both `train_lists` and `test_lists`; {len(both)} are, "
                f"such as {min(both)!r}."
            )
        kept = np.array(self.names)
        return np.flatnonzero(np.isin(kept, [*train])), np.flatnonzero(np.isin(kept, [*test]))


def _key(files: list[ImageFile]) -> str:
    values = [value for file in files for value in (file.name, file.size, file.modified)]
    return digest([_CACHE_VERSION, *values])[:32]
