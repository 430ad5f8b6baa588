"""Improvement per domain, the paper's Figure 4, drawn from the results alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crosslearning.paper.office_home.statement import radius_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_improvement"]

_HEIGHT = 0.42


def draw_improvement(figure: Figure, results: dict[str, Any]) -> None:
    """Draw bars per domain, at one radius for all and at the best radius of each.

    Parameters
    ----------
    figure : Figure
        An empty figure.
    results : dict
        The content of ``results.json``, with improvements.
    """
    rows = results["improvement"]
    overs = list(dict.fromkeys(row["over"] for row in rows))
    panels = figure.subplots(len(overs), squeeze=False)[:, 0]
    for axes, over in zip(panels, overs, strict=True):
        _draw_bars(axes, [row for row in rows if row["over"] == over])
        axes.set_title(f"over {over} training", loc="left", fontsize="medium")
    panels[-1].set_xlabel("Improvement of the test accuracy (%)")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False
    )


def _draw_bars(axes: Axes, rows: list[dict[str, Any]]) -> None:
    names = ["all domains" if row["domain"] == "all" else row["domain"] for row in rows]
    common = radius_name(float(rows[0]["epsilon"]))
    for shift, value, radius, color, label in (
        (-1, "percent", "epsilon", "red", f"ε = {common} for all, by validation (0 < ε < ∞)"),
        (1, "best_percent", "best_epsilon", "mistyrose", "best ε of each on the test images"),
    ):
        places = [k + shift * _HEIGHT / 2 for k in range(len(rows))]
        bars = [row[value] if row[value] is not None else 0.0 for row in rows]
        axes.barh(places, bars, _HEIGHT, color=color, edgecolor="red", linewidth=0.8, label=label)
        for place, bar, row in zip(places, bars, rows, strict=True):
            text = f"{bar:+.1f}".replace(
                "-", "−"
            ) + f"  (ε = {radius_name(float(row[radius]))})" * (shift > 0)
            axes.annotate(
                text,
                (bar, place),
                xytext=(4 if bar >= 0 else -4, 0),
                textcoords="offset points",
                verticalalignment="center",
                horizontalalignment="left" if bar >= 0 else "right",
                fontsize="x-small",
            )
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    axes.margins(x=0.25)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
