"""Figures of stored results as files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from crosslearning.extras import require
from crosslearning.report.chapters.chapter import figures_in
from crosslearning.report.page import chapter
from crosslearning.report.reading import read

_PAPER = ("gaussian", "accuracy", "domains", "improvement")


def draw(folder: str | os.PathLike[str], formats: Iterable[str] = ("png", "pdf")) -> list[Path]:
    """Draw the paper's figures of the results in a folder, and write them there.

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
    from crosslearning.report.charts.export import export

    folder = Path(folder)
    return [
        path
        for results in read(folder)
        if results.path.parent == folder
        for figure in figures_in(chapter(results).details)
        if figure.name in _PAPER
        for path in export(figure, folder, formats)
    ]
