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
    tasks = [(str(task["task"]), task["values"]) for task in effect["tasks"]]
    parts = [
        (tasks, thin | {"color": CROSS, "opacity": 0.4}),
        ([("centre", effect["center"])], thick | {"color": INK, "opacity": 1}),
    ]
    tooltip = tips(task=kind, x=effect["feature"], y=(target, VALUE))
    # Lists are shorter than a row for every point.
    layers = [
        chart([{"task": task, "x": effect["grid"], "y": values} for task, values in lines])
        .transform_flatten(["x", "y"])
        .mark_point()
        .properties(mark=mark)
        .encode(x=x, y=y, detail="task:N", tooltip=tooltip)
        for lines, mark in parts
        if lines
    ]
    about = f"Partial effect of {effect['feature']} on {target}: every {kind} around the centre"
    return spec(about, *layers, height=180)
