"""A picture of the images, made part of the page."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["contact_sheet"]


def contact_sheet(path: Path) -> dict[str, str | int] | None:
    """Return a PNG picture as an address that holds its data, with its size, if there is one."""
    if not path.is_file():
        return None
    data = path.read_bytes()
    if not data.startswith(b"\x89PNG\r\n\x1a\n") or len(data) < 24:
        raise ValueError(f"{path} is not a PNG picture. Remove it or make it again.")
    # The header of the file begins with its size.
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    address = f"data:image/png;base64,{b64encode(data).decode()}"
    return {"address": address, "width": width, "height": height}
