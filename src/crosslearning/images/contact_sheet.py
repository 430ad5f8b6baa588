"""A picture with examples of every domain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crosslearning.datasets import ImageData
from crosslearning.files import replacing

_DOMAINS, _CATEGORIES = 12, 8  # at most
_SIDE, _GAP, _TEXT = 96, 8, 14  # pixels


def draw_contact_sheet(data: ImageData, pixels: NDArray[np.uint8], path: Path) -> None:
    """Write a PNG with one image per domain and category, for categories that most domains have."""
    from PIL import Image, ImageDraw, ImageFont

    common = data.counts().gt(0).sum(axis=1).to_numpy()
    most = np.argsort(-common, kind="stable")
    # Spread over the alphabet, since neighbours often look alike.
    most = most[common[most] == common.max()] if common.max() > 1 else most
    categories = most[
        np.linspace(0, len(most) - 1, min(_CATEGORIES, len(most))).round().astype(int)
    ]
    domains = data.domains[:_DOMAINS]
    font = ImageFont.load_default(_TEXT)
    left = 2 * _GAP + max(round(font.getlength(domain)) for domain in domains)
    step, top = _SIDE + _GAP, 2 * _GAP + _TEXT
    size = left + step * len(categories), top + step * len(domains)
    sheet = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(sheet)
    for column, category in enumerate(categories):
        name = data.categories[category].replace("_", " ")
        while font.getlength(name) > _SIDE:
            name = name.removesuffix("…")[:-1] + "…"
        draw.text((left + step * column, _GAP), name, "black", font)
    for row, domain in enumerate(domains):
        middle = top + step * row + _SIDE // 2
        draw.text((_GAP, middle), domain, "black", font, anchor="lm")
        for column, category in enumerate(categories):
            images = np.flatnonzero((data.domain_codes == row) & (data.category_codes == category))
            if len(images):
                picture = Image.fromarray(np.asarray(pixels[images[len(images) // 2]]))
                place = (left + step * column, top + step * row)
                sheet.paste(picture.resize((_SIDE, _SIDE), Image.Resampling.BILINEAR), place)
    with replacing(path) as temporary:
        sheet.save(temporary, "PNG", optimize=True)
