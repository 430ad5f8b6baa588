"""Accuracy against ε, the paper's Figure 3, drawn from the results alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.paper.office_home.statement import radius_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = ["draw_accuracy"]

_GREY = "0.35"


def draw_accuracy(figure: Figure, results: dict[str, Any]) -> None:
    """Draw mean and standard deviation over seeds on a logarithmic axis broken for 0 and ∞.

    Parameters
    ----------
    figure : Figure
        An empty figure.
    results : dict
        The content of ``results.json``.
    """
    axes = figure.add_subplot()
    radii = [float(point["epsilon"]) for point in results["path"]]
    places = _places(radii)
    _draw_test(axes, results, radii, places)
    _draw_validation(axes, results, places)
    _draw_levels(axes, results)
    _draw_choice(axes, results, radii, places)
    _draw_axis(axes, radii, places)
    axes.set_ylabel("Accuracy (%)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)


def _places(radii: Sequence[float]) -> NDArray[np.float64]:
    """Where radii are drawn: their logarithms, and 0 and ∞ a step beyond."""
    logs = [math.log10(radius) for radius in radii if 0 < radius < math.inf] or [0.0]
    step = max(0.5, (logs[-1] - logs[0]) / 6)
    beyond = {0.0: logs[0] - step, math.inf: logs[-1] + step}
    return np.array([beyond.get(r) if r in beyond else math.log10(r) for r in radii], dtype=float)


def _series(results: dict[str, Any], part: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and standard deviations in per cent; the latter 0 for a single seed."""
    points = [point[part] for point in results["path"]]
    mean = np.array([100 * point["mean"] for point in points])
    return mean, np.array([100 * (point["std"] or 0.0) for point in points])


def _draw_test(
    axes: Axes, results: dict[str, Any], radii: Sequence[float], places: NDArray[np.float64]
) -> None:
    mean, std = _series(results, "test")
    inner = np.array([0 < radius < math.inf for radius in radii])
    style: dict[str, Any] = {"color": "red", "markersize": 4.5}
    axes.plot(places[inner], mean[inner], "o-", linewidth=1.8, label="test images", **style)
    axes.plot(places[~inner], mean[~inner], "o", **style)
    band = mean[inner] - std[inner], mean[inner] + std[inner]
    if std.any():
        label = "one standard deviation over seeds"
        axes.fill_between(places[inner], *band, color="red", alpha=0.18, linewidth=0, label=label)
        axes.errorbar(places[~inner], mean[~inner], std[~inner], fmt="none", color="red", capsize=3)


def _draw_validation(axes: Axes, results: dict[str, Any], places: NDArray[np.float64]) -> None:
    mean, _ = _series(results, "validation")
    axes.plot(places, mean, "o", color=_GREY, mfc="none", markersize=4.5, label="validation images")


def _draw_levels(axes: Axes, results: dict[str, Any]) -> None:
    """Lines at consensus and agnostic, with their names in the right margin."""
    levels = {row["method"]: 100 * row["test"]["mean"] for row in results["comparison"]}
    low, high = axes.get_ylim()
    for name, other, line in (("consensus", "agnostic", ":"), ("agnostic", "consensus", "--")):
        if name in levels:
            level = levels[name]
            gap = level - levels.get(other, -math.inf)
            apart = abs(gap) > 0.12 * (high - low)
            up = gap > 0 or (gap == 0 and name == "consensus")
            axes.axhline(level, color=_GREY, linewidth=0.9, linestyle=line, zorder=1)
            axes.annotate(
                f"{name}\n{level:.1f}" if apart else f"{name} {level:.1f}",
                (1.0, level),
                xycoords=axes.get_yaxis_transform(),
                xytext=(4, 0 if apart else 1 if up else -1),
                textcoords="offset points",
                verticalalignment="center" if apart else "bottom" if up else "top",
                color=_GREY,
            )


def _draw_choice(
    axes: Axes, results: dict[str, Any], radii: Sequence[float], places: NDArray[np.float64]
) -> None:
    """Mark the radius that validation chooses."""
    choice = float(results["chosen"]["epsilon"])
    place, high = places[radii.index(choice)], axes.get_ylim()[1]
    axes.axvline(place, color=_GREY, linewidth=0.8, linestyle="-", alpha=0.5, zorder=0)
    axes.annotate(
        f"chosen by validation: ε = {radius_name(choice)}",
        (place, high),
        xytext=(0, 3),
        textcoords="offset points",
        horizontalalignment=_toward_the_middle(place, places),
        color=_GREY,
    )
    axes.set_ylim(top=high)


def _toward_the_middle(place: float, places: NDArray[np.float64]) -> str:
    share = (place - places[0]) / max(places[-1] - places[0], 1e-9)
    return "left" if share < 0.3 else "right" if share > 0.7 else "center"


def _draw_axis(axes: Axes, radii: Sequence[float], places: NDArray[np.float64]) -> None:
    """Name the radii, and break the axis beside 0 and ∞."""
    axes.set_xticks(places, [_label(radius) for radius in radii])
    axes.set_xlabel("Radius ε: the largest distance of a domain's parameters to the centre")
    for k in range(1, len(radii)):
        if radii[k - 1] == 0 or math.isinf(radii[k]):
            axes.plot(
                (places[k - 1] + places[k]) / 2,
                0,
                marker=[(-1, -2), (1, 2)],
                markersize=9,
                color="black",
                transform=axes.get_xaxis_transform(),
                clip_on=False,
            )


def _label(radius: float) -> str:
    power = round(math.log10(radius)) if 0 < radius < 0.005 else 0
    return f"$10^{{{power}}}$" if power and math.isclose(radius, 10**power) else radius_name(radius)
