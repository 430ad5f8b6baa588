"""Images by domain and category, such as Office-Home, in folders or in Parquet files."""

import operator
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from crosslearning.datasets.decoding import Pixels, decode, strict_about_bombs
from crosslearning.datasets.images import ImageData, Progress, digest
from crosslearning.files import default_cache_dir, replacing
from crosslearning.images._listing import ImageFile, find_images, open_images, read_groups
from crosslearning.wording import listed

_CACHE_VERSION = 1  # to be raised when the same file is decoded to other pixels
_AT_A_TIME = 256  # bounds the memory of images waiting to be written
_MOST_WORKERS = 8


class ImageDomains(ImageData):
    """Images in folders ``root/domain/category/``: Office-Home, PACS, DomainNet.

    Or in Parquet files, as data hubs offer them: a column ``image`` of files as bytes, or as
    structs with ``bytes``, columns ``domain`` and ``label`` or ``category`` and, if images belong
    together, a column ``group``.

    Images of one group are never split. For folders, a file ``groups.csv`` in ``root`` may list
    them, with the columns ``path``, relative to ``root``, and ``group``; any other image is a group
    of its own. A category may be missing from some domains. Other and hidden files are ignored.
    Needs the extra ``torch``, and ``app`` for Parquet files. Has the attributes of `ImageData` too.

    Parameters
    ----------
    root : path
        Folder that contains the folders of the domains, or a Parquet file or a folder of some.
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
        skip_unreadable: bool = False,
        cache_dir: str | Path | None = None,
        progress: Progress | None = None,
    ) -> None:
        root = Path(root)
        files = find_images(root)
        self._cache_dir = Path(cache_dir or default_cache_dir())
        checked = decode_all(files, 1, progress) if skip_unreadable else ()  # one pixel is fastest
        skipped = {file.name for file, result in checked if isinstance(result, str)}
        self.skipped = tuple(sorted(skipped))
        self._files = [file for file in files if file.name not in skipped]
        if not self._files:
            raise ValueError(f"At least one image must be readable; none in {root} is.")
        self.names = tuple(file.name for file in self._files)
        group = {file.name: file.group for file in files if file.group is not None}
        if (listed_groups := root / "groups.csv").exists():
            group |= read_groups(listed_groups, {file.name for file in files})
        super().__init__(
            [file.domain for file in self._files],
            [file.category for file in self._files],
            # The prefixes distinguish a group from an image of the same name.
            [f"group {group[n]}" if n in group else f"alone {n}" for n in self.names],
        )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of names and sizes of the files, and groups."""
        sizes = [file.size for file in self._files]
        return digest([*self.names, *sizes, self.groups.tolist()])

    def pixels(self, size: int = 224, *, progress: Progress | None = None) -> Pixels:
        """Return all images, decoded once, as a memory map of shape (n_images, size, size, 3).

        EXIF orientation is applied, transparency becomes white, and images are resized to a square
        regardless of their proportions. Unreadable images, and those above Pillow's size limit,
        raise an error that names them.
        """
        if operator.index(size) < 1:
            raise ValueError(f"`size` is a number of pixels and must be at least 1; got {size}.")
        stamps = [value for file in self._files for value in (file.name, file.size, file.modified)]
        key = digest([_CACHE_VERSION, *stamps])[:32]
        target = self._cache_dir / f"{key}-{size}.npy"
        if not target.exists():
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with replacing(target) as temporary:
                    _write(temporary, self._files, size, progress)
            except OSError as error:
                raise OSError(
                    f"Cannot write decoded images to {target.parent}: {error.strerror or error}. "
                    "Choose another folder with `cache_dir`."
                ) from error
        pixels: Pixels = np.load(target, mmap_mode="r", allow_pickle=False)
        return pixels


def _write(target: Path, images: Sequence[ImageFile], size: int, progress: Progress | None) -> None:
    """Write a file in NumPy's format image by image, so that a full disk raises an error."""
    header = {"descr": "|u1", "fortran_order": False, "shape": (len(images), size, size, 3)}
    unreadable: dict[str, str] = {}
    with target.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for image, pixels in decode_all(images, size, progress):
            if isinstance(pixels, str):
                unreadable[image.name] = pixels
            elif not unreadable:
                stream.write(pixels.tobytes())
    if unreadable:
        some = listed(f"{name} ({reason})" for name, reason in unreadable.items())
        raise ValueError(
            f"Every image must be readable; {len(unreadable)} of {len(images)} are not: "
            f"{some}. Repair or remove them, or use `skip_unreadable`."
        )


def decode_all(
    images: Sequence[ImageFile], size: int, progress: Progress | None
) -> Iterator[tuple[ImageFile, Pixels | str]]:
    """Decode images in threads; an unreadable one yields the reason instead."""

    def attempt(file: Path | BinaryIO) -> Pixels | str:
        try:
            return decode(file, size)
        except Exception as error:  # Pillow may raise anything for a broken file
            return type(error).__name__

    opened, workers = open_images(images), min(_MOST_WORKERS, os.cpu_count() or 1)
    with strict_about_bombs(), ThreadPoolExecutor(workers) as pool:
        for start in range(0, len(images), _AT_A_TIME):
            some = images[start : start + _AT_A_TIME]
            yield from zip(some, pool.map(attempt, islice(opened, len(some))), strict=True)
            if progress is not None:
                progress(start + len(some), len(images))
