"""Decoding of image files to square RGB arrays."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from crosslearning.extras import require

Pixels = NDArray[np.uint8]


def import_pillow() -> Any:
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
        if image.mode.startswith(("I", "F")):
            image = pillow.fromarray(_eight_bits(np.asarray(image)))
        if image.has_transparency_data:
            layer = image.convert("RGBA")
            image = pillow.alpha_composite(pillow.new("RGBA", layer.size, "white"), layer)
        colours = image.convert("RGB")
        resized = colours.resize((size, size), pillow.Resampling.BILINEAR, reducing_gap=3.0)
    return np.asarray(resized)


def _eight_bits(values: NDArray[Any]) -> Pixels:
    """Scale 16 bits per pixel to 8; Pillow would clip them."""
    if values.dtype.kind == "f" or values.min() < 0 or values.max() > 65535:
        raise ValueError("pixels exceed 16 bits, so their white level is unknown")
    return (values // 257).astype(np.uint8)
