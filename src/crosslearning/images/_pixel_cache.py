"""Images decoded once, into a file that is mapped into memory."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from crosslearning.datasets.decoding import decode, strict_about_bombs
from crosslearning.datasets.images import Pixels, Progress
from crosslearning.files import replacing
from crosslearning.images._listing import ImageFile, read_rows
from crosslearning.wording import listed

_AT_A_TIME = 256  # bounds the memory of images waiting to be written
_MOST_WORKERS = 8
_SECONDS_OF_A_DAY = 86400


def cached_pixels(
    target: Path, images: Sequence[ImageFile], size: int, progress: Progress | None
) -> Pixels:
    """Map the file ``target`` into memory; if it does not exist, decode the images first."""
    if not target.exists():
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            for path in target.parent.glob(".*.npy.*.tmp"):  # left by killed processes
                if time.time() - path.stat().st_mtime > _SECONDS_OF_A_DAY:
                    path.unlink(missing_ok=True)
            with replacing(target) as temporary:
                _write(temporary, images, size, progress)
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
            f"{some}. Repair or remove them, or use "
            "`skip_unreadable`."
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

    opened = _open(images)
    workers = min(_MOST_WORKERS, os.cpu_count() or 1)
    with strict_about_bombs(), ThreadPoolExecutor(workers) as pool:
        for start in range(0, len(images), _AT_A_TIME):
            some = images[start : start + _AT_A_TIME]
            yield from zip(some, pool.map(attempt, islice(opened, len(some))), strict=True)
            if progress is not None:
                progress(start + len(some), len(images))


def _open(images: Sequence[ImageFile]) -> Iterator[Path | BinaryIO]:
    """Yield the paths of image files, and the images in rows of Parquet files."""
    for table, some in groupby(images, lambda image: None if image.row is None else image.path):
        if table is None:
            yield from (image.path for image in some)
        else:
            yield from read_rows(table, [image.row for image in some if image.row is not None])
