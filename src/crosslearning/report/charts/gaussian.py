"""Figure 1 of the paper: the error of two means against the allowed gap."""

from __future__ import annotations

from typing import Any, Literal

import altair as alt

from crosslearning.evaluation.numbers import number
from crosslearning.report.charts.pieces import Spec, chart, level, spec, tips
from crosslearning.report.charts.style import CROSS, INK, SOFT, VALUE


def error_curve(content: dict[str, Any]) -> Spec:
    """Draw the closed form as a line, the simulation as points and the extremes as levels."""
    low, (bottom, top) = content["minimum"], _view(content)
    x = alt.X(
        "max_gap:Q",
        title="allowed gap between the two means",
        scale=alt.Scale(nice=False),
        axis=alt.Axis(tickCount=7, grid=False),
    )
    y = alt.Scale(domain=[bottom, top], zero=False, nice=False)
    base = chart(content["curve"]).encode(x=x)
    tooltip = tips(
        max_gap=("allowed gap", ".3~g"),
        mse=("closed form", VALUE),
        monte_carlo=("simulated", VALUE),
    )
    layers = [
        *_levels(content, top),
        base.mark_line(color=CROSS, strokeWidth=2.5, clip=True).encode(
            y=alt.Y("mse:Q", title=None, scale=y)
        ),
        base.mark_point(color=INK, size=28, strokeWidth=1, opacity=0.8, clip=True).encode(
            y="monte_carlo:Q", tooltip=tooltip
        ),
        *_truth(content["config"]["gap"], content["at_gap"], content["curve"][-1]["max_gap"]),
        *_lowest(content["minimum_at"], low, content["curve"][-1]["max_gap"]),
    ]
    return spec(
        "Mean squared error of two cross-learned means against the allowed gap between them",
        *layers,
        height=300,
    )


def _view(content: dict[str, Any]) -> tuple[float, float]:
    """Choose the range of the vertical axis; a large pooled error would flatten the rest."""
    low, separate = content["minimum"], content["agnostic"]
    high = min(max(content["consensus"], separate), 2 * separate)
    room = high - low or high
    return low - 0.22 * room, high + 0.12 * room


def _levels(content: dict[str, Any], top: float) -> list[alt.Chart]:
    """Draw the errors of separate and pooled means, labelled on the right."""
    pooled, separate = content["consensus"], content["agnostic"]
    close, end = abs(pooled - separate) < 0.1 * top, content["curve"][-1]["max_gap"]
    charts = []
    for method, error, text, lower in (
        ("pooled", pooled, "one pooled mean", pooled < separate),
        ("separate", separate, "separate means", separate <= pooled),
    ):
        if error <= top:
            place = {"level": error, "end": end}
            name, above = f"{text} {number(error, 3)}", not (close and lower)
            charts += level(method, name, place, left=False, above=above)
    return charts


def _truth(gap: float, error: float, end: float) -> list[alt.Chart]:
    """Mark the true gap from the curve up, with its name above the chart."""
    if gap > end:
        return []
    base = chart([{"gap": gap, "error": error}]).encode(x="gap:Q")
    align: Literal["left", "right", "center"] = (
        "left" if gap < 0.1 * end else "right" if gap > 0.9 * end else "center"
    )
    return [
        base.mark_rule(color=SOFT, strokeDash=[2, 3], y2=0).encode(y="error:Q"),
        base.mark_text(
            y=0, dy=-4, align=align, baseline="bottom", color=SOFT, text=f"true gap {gap:g}"
        ),
    ]


def _lowest(place: float, error: float, end: float) -> list[alt.Chart]:
    base = chart([{"place": place, "error": error}]).encode(x="place:Q", y="error:Q")
    share = place / end
    return [
        base.mark_point(size=130, color=INK, strokeWidth=2),
        base.mark_text(
            text=f"lowest: {number(error, 3)} at {number(place, 3)}",
            baseline="top",
            align="left" if share < 0.3 else "right" if share > 0.7 else "center",
            dy=12,
            fontWeight="bold",
        ),
    ]
