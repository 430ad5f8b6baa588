"""Partial effects of a column, at the centre and in the tasks."""

from __future__ import annotations

from typing import Any

import altair as alt

from crosslearning.report.charts.pieces import Spec, chart, short, spec, tips
from crosslearning.report.charts.style import CROSS, INK, VALUE
from crosslearning.tables.findings import PartialEffect

_LINE = 22  # characters of labels that fit side by side
_FEW = 6  # values, each of which has a tick


def partial_effect(effect: PartialEffect, domain: tuple[float, float], *, kind: str) -> Spec:
    """Draw the centre as a thick line and the tasks as thin ones; categories as strokes."""
    grid = list(effect.grid)
    angle = -40 if sum(len(str(value)) + 1 for value in grid) > _LINE else 0
    x = alt.X("x:N", sort=None, title=None, axis=alt.Axis(labelLimit=80, labelAngle=angle))
    thin: dict[str, Any] = {"type": "tick", "thickness": 1.5, "orient": "horizontal"}
    thick: dict[str, Any] = {"type": "point", "shape": "diamond", "size": 110, "filled": True}
    if all(isinstance(value, int | float) for value in grid):
        ticks: dict[str, Any] = {"values": grid} if len(grid) <= _FEW else {"tickCount": 4}
        scale = alt.Scale(nice=False, zero=False)
        x = alt.X("x:Q", scale=scale, axis=short(grid=False, **ticks))
        thin, thick = {"type": "line", "strokeWidth": 1}, {"type": "line", "strokeWidth": 3}
    axis = short(tickCount=4)
    if effect.probability:
        axis = alt.Axis(title=None, format=".0%", tickCount=4)
    y = alt.Y("y:Q", scale=alt.Scale(domain=list(domain), nice=False), axis=axis)
    tasks = list(zip(map(str, effect.tasks), effect.lines, strict=True))
    parts = [
        (tasks, thin | {"color": CROSS, "opacity": 0.4}),
        ([("centre", effect.center)], thick | {"color": INK, "opacity": 1}),
    ]
    tooltip = tips(task=kind, x=effect.feature, y=(effect.what, VALUE))
    # Lists are shorter than a row for every point.
    layers = [
        chart([{"task": task, "x": grid, "y": list(values)} for task, values in lines])
        .transform_flatten(["x", "y"])
        .mark_point()
        .properties(mark=mark)
        .encode(x=x, y=y, detail="task:N", tooltip=tooltip)
        for lines, mark in parts
        if lines
    ]
    about = f"Partial effect of {effect.feature} on {effect.what}: every {kind} and the centre"
    return spec(about, *layers, height=180)
