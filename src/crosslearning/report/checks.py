"""Checks of predictions on held-out rows, and effects of columns."""

from __future__ import annotations

from typing import Any

import altair as alt

from crosslearning.evaluation.records import to_json
from crosslearning.report.chapter import Figure
from crosslearning.report.drawing import Records, Spec, chart, short, spec, tips
from crosslearning.report.style import CROSS, INK, SOFT, VALUE
from crosslearning.tables.findings import Findings, PartialEffect

_HEIGHT = 280
_UNIT = alt.Scale(domain=[0, 1], nice=False)
_LINE = 22  # characters of labels that fit side by side
_FEW = 6  # values, each of which has a tick


def checks(findings: Findings) -> list[Figure]:
    """Draw predictions, intervals and probabilities against what was so."""
    figures = []
    if findings.predicted:
        rows = [{**to_json(row), "task": str(row.task)} for row in findings.predicted]
        caption = f"Actual against predicted {findings.target}, on held-out rows"
        figures.append(Figure("predicted", caption, predicted_actual(rows, kind=findings.task)))
    if findings.calibration:
        caption = "Coverage: share of held-out rows inside their intervals"
        figures.append(Figure("calibration", caption, calibration(to_json(findings.calibration))))
    if reliable := findings.reliability:
        bins = to_json(reliable.bins)
        figures.append(reliability(bins, findings.target, reliable.class_, kind="rows"))
    return figures


def predicted_actual(points: Records, *, kind: str) -> Spec:
    """Draw held-out rows with `actual`, `predicted` and `task`."""
    values = [row[name] for row in points for name in ("actual", "predicted")]
    low, high = min(values), max(values)
    scale = alt.Scale(domain=[low, high], nice=True, zero=False)
    base = chart(points).encode(
        x=alt.X("predicted:Q", scale=scale, axis=short(title="predicted", grid=False)),
        y=alt.Y("actual:Q", scale=scale, axis=short(title="actual")),
        tooltip=tips(task=kind, actual=("actual", VALUE), predicted=("predicted", VALUE)),
    )
    dots = base.mark_point(filled=True, size=22, opacity=0.35, color=CROSS)
    about = "Actual against predicted values of held-out rows"
    return spec(about, dots, _diagonal(low, high, scale), height=_HEIGHT)


def _diagonal(low: float, high: float, scale: alt.Scale) -> Any:
    ends = chart([{"x": low, "y": low}, {"x": high, "y": high}])
    line = ends.mark_line(color=SOFT, strokeDash=[5, 4], strokeWidth=1.5)
    return line.encode(x=alt.X("x:Q", scale=scale), y=alt.Y("y:Q", scale=scale))


def calibration(points: Records) -> Spec:
    """Draw the observed against the nominal coverage of intervals."""
    base = _shares(points, "nominal", nominal=("nominal", ".0%"), observed=("observed", ".1%"))
    return spec(
        "Observed against nominal coverage of the intervals on held-out rows",
        _diagonal(0, 1, _UNIT),
        base.mark_line(color=CROSS, strokeWidth=2),
        base.mark_point(filled=True, size=90, opacity=1, color=CROSS),
        height=_HEIGHT,
    )


def reliability(bins: Records, target: str, label: Any, *, kind: str) -> Figure:
    """Draw how often a value of the target, or the predicted one, was true, by probability."""
    event = f"the predicted {target}" if label is None else f"{target} = {label}"
    names = {"predicted": "predicted", "observed": "observed", "low": "at least", "high": "at most"}
    titles = {field: (title, ".1%") for field, title in names.items()}
    base = _shares(bins, "predicted", **titles, count=(kind, ","))
    size = alt.Size("count:Q", scale=alt.Scale(range=[30, 200]), legend=None)
    chart = spec(
        f"Observed against predicted probabilities of held-out {kind}",
        _diagonal(0, 1, _UNIT),
        base.mark_line(color=CROSS, strokeWidth=2),
        base.mark_rule(color=CROSS, strokeWidth=3, opacity=0.4).encode(y="low:Q", y2="high:Q"),
        base.mark_point(filled=True, opacity=1, color=CROSS).encode(size=size),
        height=_HEIGHT,
    )
    caption = f"How often {event} was true, by its predicted probability"
    return Figure("reliability", caption, chart)


def _shares(points: Records, field: str, **titles: tuple[str, str]) -> alt.Chart:
    """Place `observed` shares against those of another field."""
    axis: dict[str, Any] = {"format": "%", "values": [0, 0.25, 0.5, 0.75, 1]}
    return chart(points).encode(
        x=alt.X(f"{field}:Q", scale=_UNIT, axis=alt.Axis(title=field, grid=False, **axis)),
        y=alt.Y("observed:Q", scale=_UNIT, axis=alt.Axis(title="observed", **axis)),
        tooltip=tips(**titles),
    )


def effects(findings: Findings) -> list[Figure]:
    """Draw partial effects on a common vertical axis."""
    drawn, kind = findings.effects, findings.task
    values = [
        value for effect in drawn for line in (effect.center, *effect.lines) for value in line
    ]
    return [
        Figure(
            f"effect-{k}",
            effect.feature,
            partial_effect(effect, (min(values), max(values)), kind=kind),
            f"Predicted {effect.what}. Thick: the centre. Thin: each {kind}.",
        )
        for k, effect in enumerate(drawn, 1)
    ]


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
