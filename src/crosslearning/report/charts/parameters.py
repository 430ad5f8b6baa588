"""Coefficients of the tasks around the centre, and a map of the models."""

from __future__ import annotations

import math
from typing import Any

import altair as alt

from crosslearning.report.charts.pieces import Records, Spec, chart, names, short, spec, tips
from crosslearning.report.charts.style import CROSS, GAIN, GAINS, INK, VALUE

_SIDE, _FLAT = 330, 70


def _diamond(place: Records, size: int) -> Any:
    """Mark the centre."""
    look: Any = {"shape": "diamond", "filled": True, "color": INK, "opacity": 1}
    return chart(place).mark_point(size=size, **look)


def strips(values: Records, centers: Records, *, kind: str) -> Spec:
    """Draw coefficients of the tasks as strokes, and of the centre as a diamond.

    Rows have `feature` and `value`, those of tasks a `label`; centers are in the order to show.
    """
    feature = names("feature", [row["feature"] for row in centers])
    axis = short(orient="top", tickCount=6)
    value = alt.X("value:Q", axis=axis, scale=alt.Scale(zero=False))
    strokes = chart(values).mark_tick(thickness=1.5, size=22, opacity=0.45, color=CROSS)
    hover = tips(label=kind, feature="feature", value=("coefficient", VALUE))
    middle = tips(feature="feature", value=("centre", VALUE))
    return spec(
        f"Coefficients of every {kind} around those of the centre",
        strokes.encode(y=feature, x=value, tooltip=hover),
        _diamond(centers, 110).encode(y=feature, x=value, tooltip=middle),
        height=(38 if len(centers) < 6 else 28) * len(centers),
    )


def atlas(tasks: Records, center: tuple[float, float], radius: float | None, *, kind: str) -> Spec:
    """Draw tasks, rows with `label`, `rows`, `x`, `y` and `gain`, with the ball that holds them."""
    wide, high = (
        1.1 * max(radius or 0.0, *(abs(task[axis] - middle) for task in tasks))
        for axis, middle in zip("xy", center, strict=True)
    )
    # One scale for both directions, and no more height than the tasks need.
    reach = max(wide, high) or 1.0
    height = max(_FLAT, round(_SIDE * high / reach))
    place = {
        "x": alt.X("x:Q", axis=None, scale=_scale(center[0], reach)),
        "y": alt.Y("y:Q", axis=None, scale=_scale(center[1], reach * height / _SIDE)),
    }
    hover = tips(label=kind, rows=("rows", ","), gain=("gain over separate", GAIN))
    size = alt.Size("rows:Q", scale=alt.Scale(range=[18, 160]), legend=None)
    points = chart(tasks).mark_point(filled=True, opacity=0.7)
    middle = _diamond([{"x": center[0], "y": center[1]}], 150)
    layers = [
        points.encode(**place, **GAINS, size=size, tooltip=hover),
        middle.encode(**place, tooltip=alt.value("centre")),
    ]
    if radius:
        layers.insert(0, _circle(center, radius).encode(**place, order="turn:Q"))
    return spec(
        f"Map of the parameters of every {kind} around the centre",
        *layers,
        height=height,
        width=_SIDE,
    )


def _scale(middle: float, reach: float) -> alt.Scale:
    return alt.Scale(domain=[middle - reach, middle + reach], nice=False, zero=False)


def _circle(center: tuple[float, float], radius: float) -> Any:
    ring = [
        {"turn": t, "x": center[0] + radius * math.cos(t), "y": center[1] + radius * math.sin(t)}
        for t in (math.tau * k / 90 for k in range(91))
    ]
    return chart(ring).mark_line(
        color=INK, strokeWidth=1.2, strokeDash=[5, 4], fill=CROSS, fillOpacity=0.06
    )
