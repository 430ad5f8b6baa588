"""Partial effects: what the models say of a column, at the centre and in the tasks around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from crosslearning.report.charts.style import INK, METHODS, SHORT, VALUE, rows, short, spec, tips

if TYPE_CHECKING:
    from crosslearning.report.charts.style import Spec

__all__ = ["partial_effect"]


def partial_effect(
    effect: dict[str, Any], domain: tuple[float, float], *, kind: str, target: str
) -> Spec:
    """Draw the centre as a thick line and the tasks as thin ones; categories as strokes.

    Parameters
    ----------
    effect : `feature`, `grid`, `center`, and `tasks` with `task` and `values` each
    domain : ends of the vertical axis, the same for all effects that are compared
    kind, target : what a task and what the target is
    """
    numeric = all(isinstance(value, int | float) for value in effect["grid"])
    x = (
        alt.X("x:Q", title=None, scale=alt.Scale(nice=False, zero=False), axis=_below(SHORT))
        if numeric
        else alt.X("x:N", sort=None, title=None, axis=alt.Axis(labelLimit=90, labelAngle=0))
    )
    y = alt.Y("y:Q", scale=alt.Scale(domain=list(domain), nice=False), axis=short(tickCount=4))
    middle = _lines([{"task": "centre", "values": effect["center"]}], effect["grid"])
    tasks = _lines(effect.get("tasks", []), effect["grid"]).encode(
        detail="task:N", tooltip=tips(("task:N", kind), ("x:N", " "), ("y:Q", target, VALUE))
    )
    hover = tips(("x:N", "centre at"), ("y:Q", target, VALUE))
    if numeric:
        layers = [
            tasks.mark_line(color=METHODS["cross"], strokeWidth=1, opacity=0.4),
            middle.mark_line(color=INK, strokeWidth=3).encode(tooltip=hover),
        ]
    else:
        layers = [
            tasks.mark_tick(
                color=METHODS["cross"], thickness=1.5, opacity=0.45, orient="horizontal"
            ),
            middle.mark_point(shape="diamond", size=110, filled=True, color=INK, opacity=1).encode(
                tooltip=hover
            ),
        ]
    return spec(
        alt.layer(*[layer.encode(x=x, y=y) for layer in layers]),
        f"Partial effect of {effect['feature']} on {target}: every {kind} around the centre",
        height=180,
    )


def _below(labels: str) -> alt.Axis:
    return alt.Axis(labelExpr=labels, grid=False, tickCount=4)


def _lines(lines: list[dict[str, Any]], grid: list[Any]) -> alt.Chart:
    """Give lines to a chart as lists, which are shorter than points."""
    values = [{"task": str(line["task"]), "x": grid, "y": line["values"]} for line in lines]
    return alt.Chart(rows(values)).transform_flatten(["x", "y"])
