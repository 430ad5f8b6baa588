"""Partial effects of a column, at the centre and in the tasks."""

from __future__ import annotations

from typing import Any

import altair as alt

from crosslearning.report.charts.pieces import Spec, chart, short, spec, tips
from crosslearning.report.charts.style import CROSS, INK, VALUE


def partial_effect(
    effect: dict[str, Any], domain: tuple[float, float], *, kind: str, target: str
) -> Spec:
    """Draw the centre as a thick line and the tasks as thin ones; categories as strokes.

    `effect` has `feature`, `grid`, `center`, and `tasks` with `task` and `values` each.
    """
    x = alt.X("x:N", sort=None, title=None, axis=alt.Axis(labelLimit=90, labelAngle=0))
    thin: dict[str, Any] = {"type": "tick", "thickness": 1.5, "orient": "horizontal"}
    thick: dict[str, Any] = {"type": "point", "shape": "diamond", "size": 110, "filled": True}
    if all(isinstance(value, int | float) for value in effect["grid"]):
        scale = alt.Scale(nice=False, zero=False)
        x = alt.X("x:Q", scale=scale, axis=short(grid=False, tickCount=4))
        thin, thick = {"type": "line", "strokeWidth": 1}, {"type": "line", "strokeWidth": 3}
    y = alt.Y("y:Q", scale=alt.Scale(domain=list(domain), nice=False), axis=short(tickCount=4))
    lines = {
        "tasks": [(str(task["task"]), task["values"]) for task in effect["tasks"]],
        "center": [("centre", effect["center"])],
    }
    marks = {
        "tasks": thin | {"color": CROSS, "opacity": 0.4},
        "center": thick | {"color": INK, "opacity": 1},
    }
    # Lists are shorter than a row for every point.
    layers = [
        chart([{"task": task, "x": effect["grid"], "y": values} for task, values in lines[part]])
        .transform_flatten(["x", "y"])
        .mark_point()
        .properties(mark=mark)
        .encode(
            x=x,
            y=y,
            detail="task:N",
            tooltip=tips(task=kind, x=effect["feature"], y=(target, VALUE)),
        )
        for part, mark in marks.items()
        if lines[part]
    ]
    return spec(
        f"Partial effect of {effect['feature']} on {target}: every {kind} around the centre",
        *layers,
        height=180,
    )
