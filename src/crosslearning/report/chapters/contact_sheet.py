"""A picture of the images, made part of the page."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Sheet", "contact_sheet"]

_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Sheet:
    """A picture as an address that holds its data, and its size in pixels."""

    address: str
    width: int
    height: int


def contact_sheet(path: Path) -> Sheet | None:
    """Return a PNG picture, or None if there is none."""
    if not path.is_file():
        return None
    data = path.read_bytes()
    if not data.startswith(_PNG) or len(data) < 24:
        raise ValueError(f"{path} is not a PNG picture. Remove it or make it again.")
    # The header of the file begins with its size.
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    return Sheet(f"data:image/png;base64,{b64encode(data).decode()}", width, height)
