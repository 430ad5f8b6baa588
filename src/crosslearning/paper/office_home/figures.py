"""Figures of the experiment, drawn from ``results.json`` alone; nothing is computed here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from crosslearning.files import replacing
from crosslearning.paper.office_home.accuracy_figure import draw_accuracy
from crosslearning.paper.office_home.improvement_figure import draw_improvement
from crosslearning.paper.office_home.storage import read_results

if TYPE_CHECKING:
    import os

    from matplotlib.figure import Figure

__all__ = ["draw", "save_figure"]


def draw(folder: str | os.PathLike[str]) -> list[Path]:
    """Draw what a sweep stored in ``folder``.

    Parameters
    ----------
    folder : path
        Holds ``results.json``.

    Returns
    -------
    list of Path
        ``accuracy.png`` and ``.pdf``; ``improvement.png`` and ``.pdf`` if there is a radius to
        compare and something to compare it with.
    """
    from matplotlib.figure import Figure

    folder = Path(folder)
    results = read_results(folder)
    figure = Figure(figsize=(6.8, 3.9), layout="constrained")
    draw_accuracy(figure, results)
    written = save_figure(figure, folder / "accuracy")
    if results["improvement"]:
        figure = Figure(figsize=(6.8, 6.2), layout="constrained")
        draw_improvement(figure, results)
        written += save_figure(figure, folder / "improvement")
    return written


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and PDF, the same bytes every time."""
    import matplotlib as mpl

    png, pdf = stem.with_suffix(".png"), stem.with_suffix(".pdf")
    with replacing(png) as first, replacing(pdf) as second:
        figure.savefig(first, format="png", dpi=200, metadata={"Software": None})
        with mpl.rc_context({"pdf.fonttype": 42}):  # fonts that publishers accept
            figure.savefig(second, format="pdf", metadata={"CreationDate": None})
    return [png, pdf]
