"""Drawing of Figure 1 from the files of the experiment; computes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.files import replacing

if TYPE_CHECKING:
    import os

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = ["draw", "draw_on"]

_GREY = "0.35"


def draw(folder: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Draw what ``run`` stored in ``folder`` as ``gaussian.png`` and ``gaussian.pdf``."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    folder = Path(folder)
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    draw_on(figure, folder)
    png, pdf = folder / "gaussian.png", folder / "gaussian.pdf"
    with replacing(png) as first, replacing(pdf) as second:
        figure.savefig(first, format="png", dpi=200, metadata={"Software": None})
        with mpl.rc_context({"pdf.fonttype": 42}):  # fonts that publishers accept
            figure.savefig(second, format="pdf", metadata={"CreationDate": None})
    return png, pdf


def draw_on(figure: Figure, folder: Path) -> None:
    """Draw what ``run`` stored in ``folder`` on an empty figure."""
    result = json.loads((folder / "gaussian.json").read_text())
    curve = np.loadtxt(folder / "gaussian.csv", delimiter=",", skiprows=1, ndmin=2)
    axes = figure.add_subplot()
    _draw_curve(axes, curve)
    _draw_levels(axes, result)
    _draw_points(axes, result)
    figure.legend(loc="outside upper center", ncols=2, frameon=False)


def _draw_curve(axes: Axes, curve: NDArray[np.float64]) -> None:
    grid, exact, simulated, _ = curve.T
    axes.plot(grid, exact, color="red", linewidth=1.8, label="closed form")
    axes.plot(grid, simulated, "o", color="black", markersize=2.6, label="Monte Carlo")
    axes.set_xlim(0.0, grid[-1])
    axes.set_xlabel("Largest gap allowed between the two estimates")
    axes.set_ylabel("Mean squared error of each estimate")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_levels(axes: Axes, result: dict[str, Any]) -> None:
    """Mark consensus and agnostic, with their names in the right margin."""
    consensus, agnostic, low = result["consensus"], result["agnostic"], result["minimum"]
    top = max(consensus, agnostic)
    gap, sigma_m = result["config"]["gap"], result["sigma_m"]
    if consensus > 3 * agnostic and gap < axes.get_xlim()[1]:
        # It would flatten the rest: leave it to its label.
        top = 2 * agnostic
        axes.set_xlim(left=max(0.0, gap - 4 * sigma_m))
    span = top - low
    axes.set_ylim(low - 0.3 * span, top + 0.08 * span)
    apart = abs(consensus - agnostic) > 0.1 * span
    for name, level, other in (
        ("agnostic", agnostic, consensus),
        ("consensus", consensus, agnostic),
    ):
        up = level > other or (level == other and name == "agnostic")
        axes.axhline(level, color=_GREY, linewidth=0.8, linestyle="--", zorder=1)
        axes.annotate(
            f"{name} {level:.5g}" + "\n(not in view)" * (level > top),
            (1.0, min(level, top)),
            xycoords=axes.get_yaxis_transform(),
            xytext=(4, 0 if apart else 1 if up else -1),
            textcoords="offset points",
            verticalalignment="center" if apart else "bottom" if up else "top",
            color=_GREY,
        )


def _draw_points(axes: Axes, result: dict[str, Any]) -> None:
    """Mark the minimum, with its name below the curve, and the true gap, above the axes."""
    (left, right), gap, best = axes.get_xlim(), result["config"]["gap"], result["minimum_at"]
    if best <= right:
        share = (best - left) / (right - left)
        axes.plot(best, result["minimum"], "o", color="red", mfc="white", zorder=4, clip_on=False)
        axes.annotate(
            f"minimum {result['minimum']:.4g} at {best:.4g}",
            (best, result["minimum"]),
            xytext=(4 if share < 0.2 else 0, -12),
            textcoords="offset points",
            horizontalalignment="left" if share < 0.2 else "right" if share > 0.8 else "center",
            verticalalignment="top",
            color="red",
        )
    if gap <= right:
        high = axes.get_ylim()[1]
        axes.vlines(
            gap, result["at_gap"], high, color=_GREY, linewidth=0.8, linestyle=":", zorder=1
        )
        axes.annotate(
            f"true gap {gap:.4g}",
            (gap, high),
            xytext=(0, 3),
            textcoords="offset points",
            horizontalalignment="center",
            color=_GREY,
        )
