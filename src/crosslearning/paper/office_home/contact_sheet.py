"""Examples of the images, the paper's Figure 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crosslearning.files import replacing

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from crosslearning.datasets import ImageData

__all__ = ["draw_contact_sheet"]

_SHOWN = ("Alarm", "Bike", "Glasses", "Pen", "Speaker")  # by the paper


def draw_contact_sheet(data: ImageData, pixels: NDArray[np.uint8], path: Path) -> None:
    """Draw one image for each domain and five categories, the paper's if the data have them.

    Parameters
    ----------
    data : ImageData
        The images.
    pixels : array of shape (n_images, size, size, 3)
        What they look like.
    path : Path
        PNG to write.
    """
    from matplotlib.figure import Figure

    categories = _choose(data)
    rows, columns = len(data.domains), len(categories)
    figure = Figure(figsize=(1.15 * columns + 0.3, 1.15 * rows + 0.3), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    for d, domain in enumerate(data.domains):
        panels[d, 0].set_ylabel(domain)
        for column, category in enumerate(categories):
            axes = panels[d, column]
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_color("0.8")
            found = np.flatnonzero((data.domain_codes == d) & (data.category_codes == category))
            if len(found):
                axes.imshow(pixels[found[len(found) // 2]])
            if d == 0:
                axes.set_title(data.categories[category].replace("_", " "), fontsize="medium")
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150, metadata={"Software": None})


def _choose(data: ImageData) -> list[int]:
    """Positions of the categories to show: the paper's, or the first that all domains have."""
    named = [
        next((k for k, name in enumerate(data.categories) if name.startswith(start)), None)
        for start in _SHOWN
    ]
    known = [k for k in named if k is not None]
    everywhere = np.flatnonzero(data.counts().gt(0).all(axis=1).to_numpy()).tolist()
    others = [k for k in [*everywhere, *range(len(data.categories))] if k not in known]
    return (known + list(dict.fromkeys(others)))[: len(_SHOWN)]
