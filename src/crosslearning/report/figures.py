"""Figures of stored results as files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from crosslearning.extras import require
from crosslearning.report.reading import read


def draw(folder: str | os.PathLike[str], formats: Iterable[str] = ("png", "pdf")) -> list[Path]:
    """Draw the figures of the results in a folder, and write them there.

    Parameters
    ----------
    folder : path
        Folder with image results in ``results.json``, or with ``gaussian.json``.
    formats : iterable of {"png", "pdf", "svg"}, default=("png", "pdf")
        File formats.

    Returns
    -------
    list of Path
        ``gaussian.png`` and so on; or ``accuracy`` and ``domains``, and ``improvement`` for the
        paper's experiment.
    """
    require("Drawing figures", "altair", "vl_convert")
    from crosslearning.report.chapters import gaussian, images
    from crosslearning.report.charts.export import export

    folder, known = Path(folder), {"gaussian": gaussian.figures, "images": images.figures}
    return [
        path
        for results in read(folder)
        if results.folder == folder and results.kind in known
        for name, figure in known[results.kind](results.content).items()
        for path in export(figure, folder / name, formats)
    ]
