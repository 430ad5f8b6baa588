"""A picture of the images, made part of the page."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

from crosslearning.extras import require

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Sheet", "contact_sheet"]

_LARGEST = 400_000  # bytes of a file taken as it is
_WIDEST = 1200  # pixels


@dataclass(frozen=True)
class Sheet:
    """A picture as an address that holds its data, and its size in pixels."""

    address: str
    width: int
    height: int


def contact_sheet(path: Path) -> Sheet | None:
    """Return a picture, as a smaller JPEG if its file is large, or None if there is none."""
    if not path.is_file():
        return None
    require("A report with pictures", "PIL")
    from PIL import Image

    try:
        data = path.read_bytes()
        with Image.open(BytesIO(data)) as image:
            image.load()
            kind, picture = (image.format or "png").lower(), image.convert("RGB")
    except OSError as error:
        raise ValueError(f"{path} is no picture: {error}. Remove it or make it again.") from error
    if len(data) > _LARGEST:
        picture.thumbnail((_WIDEST, 2 * _WIDEST))
        stream = BytesIO()
        picture.save(stream, "JPEG", quality=75, optimize=True)
        kind, data = "jpeg", stream.getvalue()
    address = f"data:image/{kind};base64,{b64encode(data).decode()}"
    return Sheet(address, *picture.size)
