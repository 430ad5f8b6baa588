"""Decoding of image files to square RGB arrays."""

from __future__ import annotations

import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from crosslearning.extras import require

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

    from PIL.Image import Image

    from crosslearning.datasets.images import Pixels

_16_BIT = 65535


def import_pillow() -> ModuleType:
    """Import ``PIL.Image``, or say what to install."""
    require("Reading and writing image files", "PIL")
    from PIL import Image

    return Image


@contextmanager
def strict_about_bombs() -> Iterator[None]:
    """Refuse images above Pillow's size limit, and silence its other warnings."""
    pillow = import_pillow()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", pillow.DecompressionBombWarning)
        yield


def decode(file: Path | BinaryIO, size: int) -> Pixels:
    """Read an image, apply its EXIF orientation, and resize it to a square on white."""
    pillow = import_pillow()
    from PIL import ImageOps

    with pillow.open(file) as image:
        # Decoding a JPEG at twice the size is several times as fast and hardly differs.
        image.draft(None, (2 * size, 2 * size))
        image.load()  # rotates a TIFF, and clears its orientation
        with suppress(Exception):  # invalid EXIF data leave the image as it is
            ImageOps.exif_transpose(image, in_place=True)
        colours = _on_white(_eight_bits(image))
        resized = colours.resize((size, size), pillow.Resampling.BILINEAR, reducing_gap=3.0)
    return np.asarray(resized)


def _eight_bits(image: Image) -> Image:
    """Scale 16 bits per pixel to 8; Pillow would clip them."""
    if not image.mode.startswith(("I", "F")):
        return image
    values = np.asarray(image)
    if image.mode == "F" or values.min() < 0 or values.max() > _16_BIT:
        raise ValueError(
            f"pixels of mode {image.mode} exceed 16 bits, so their white level is unknown"
        )
    scaled: Image = import_pillow().fromarray((values // 257).astype(np.uint8))
    return scaled


def _on_white(image: Image) -> Image:
    if not image.has_transparency_data:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    white: Image = import_pillow().new("RGBA", layer.size, "white")
    white.alpha_composite(layer)
    return white.convert("RGB")
