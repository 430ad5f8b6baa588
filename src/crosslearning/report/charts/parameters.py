"""Coefficients of the tasks around the centre, and a map of the models."""

from __future__ import annotations

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


def atlas(tasks: Records, *, kind: str) -> Spec:
    """Draw tasks, rows with `label`, `rows`, `x`, `y` and `gain`, around the centre, the origin."""
    wide, high = (1.1 * max(abs(task[axis]) for task in tasks) for axis in "xy")
    # One scale for both directions, and no more height than the tasks need.
    reach = max(wide, high)
    height = max(_FLAT, round(_SIDE * high / reach))
    tall = reach * height / _SIDE
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-reach, reach], nice=False))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[-tall, tall], nice=False))
    hover = tips(label=kind, rows=("rows", ","), gain=("gain", GAIN))
    size = alt.Size("rows:Q", scale=alt.Scale(range=[18, 160]), legend=None)
    points = chart(tasks).mark_point(filled=True, opacity=0.7)
    return spec(
        f"Map of the parameters of every {kind} around the centre",
        points.encode(x=x, y=y, **GAINS, size=size, tooltip=hover),
        _diamond([{"x": 0, "y": 0}], 150).encode(x=x, y=y, tooltip=alt.value("centre")),
        height=height,
        width=_SIDE,
    )
