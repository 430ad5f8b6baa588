"""The tasks of a table one by one: their scores, coefficients, and effects of columns."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import altair as alt
import numpy as np

from crosslearning.report import drawing as draw
from crosslearning.report.plots import Figure
from crosslearning.tables.findings import Findings, PartialEffect, Predictor

_MOST_ROWS = 1000
_FEATURES, _CLASSES, _STROKES = 20, 6, 5000  # that are drawn
_LINE = 22  # characters of labels that fit side by side
_FEW = 6  # values, each of which has a tick


def _rows(findings: Findings) -> list[dict[str, Any]]:
    """Return the rows of the tasks by descending gain, unscored ones last."""
    comparison, against = findings.comparison, findings.verdict.against
    sign = 1 if findings.score.greater_is_better else -1
    rows = []
    for k, task in enumerate(findings.tasks):
        values = dict(zip(comparison.methods, comparison.scores[:, k].tolist(), strict=True))
        gain = values["cross"] - values[against]
        distance, epsilon, force = task.distance, findings.epsilon, 0.0
        if epsilon is not None and distance is not None and distance >= (1.0 - 1e-6) * epsilon:
            force = max((task.force or 0.0) - distance, 0.0)  # without the prior's, the distance
        rows.append(
            {
                "rows": task.rows,
                **{m: sign * value if np.isfinite(value) else None for m, value in values.items()},
                "label": str(task.task),
                "gain": gain if np.isfinite(gain) else None,
                "distance": distance,
                "force": force,
            }
        )
    return sorted(rows, key=lambda row: (row["gain"] is None, -(row["gain"] or 0.0)))


def task_figures(findings: Findings) -> dict[str, Any]:
    """Return the chart of the gains, the rows of the table of tasks, and those at their bound."""
    tasks, half = _rows(findings), _MOST_ROWS // 2
    scored = [task for task in tasks if task["gain"] is not None]
    at_bound = [task for task in tasks if task["force"] > 0]
    return {
        "gains": _gains(findings, scored) if scored else None,
        "rows": tasks if len(tasks) <= _MOST_ROWS else tasks[:half] + tasks[-half:],
        "n_tasks": len(tasks),
        "at_bound": sorted(at_bound, key=lambda task: -task["force"]),
    }


def _gains(findings: Findings, tasks: list[dict[str, Any]]) -> Figure:
    """Draw the gains of tasks against their numbers of rows."""
    kind, n_compared, labels = findings.task, findings.size.compared, findings.verdict.labels
    some = f" ({len(tasks):,} of {n_compared:,})" if len(tasks) < n_compared else ""
    rival, best = labels[findings.verdict.against], labels["cross"]
    caption = f"Gain over {rival}, by size of the {kind}{some}; tasks above 0 do better with {best}"
    scores = {method: (label, draw.VALUE) for method, label in labels.items()}
    fields = ("label", "rows", *labels, "gain")
    tasks = [{name: task[name] for name in fields} for task in tasks]
    sizes, scale = [task["rows"] for task in tasks], alt.Scale(zero=False)
    if max(sizes) > 20 * max(min(sizes), 1):
        scale = alt.Scale(type="log", nice=False, padding=8)
    axis = alt.Axis(grid=False, tickCount=6, format="~s")
    points = draw.chart(tasks).encode(
        x=alt.X("rows:Q", title=f"rows of the {kind}", scale=scale, axis=axis),
        y=alt.Y("gain:Q", axis=draw.short()),
        **draw.GAINS,
        tooltip=draw.tips(label=kind, rows=("rows", ","), **scores, gain=("gain", draw.GAIN)),
    )
    zero = draw.chart([{"gain": 0}]).mark_rule(color=draw.SOFT).encode(y="gain:Q")
    dots = points.mark_point(filled=True, size=45, opacity=0.75)
    drawn = draw.spec(f"Gain against the rows of each {kind}", zero, dots, height=280)
    return Figure("gains", caption, drawn)


class Parameter(NamedTuple):
    """A parameter at the centre and in the tasks."""

    name: str
    center: float
    tasks: Sequence[float]


def coefficients(findings: Findings) -> list[Figure]:
    """Draw the coefficients that differ most between tasks, and the intercept separately."""
    labels = [str(task.task) for task in findings.tasks]
    key = f"A stroke for each {findings.task}, a diamond for the centre; standardised features."
    figures: list[Figure] = []
    predictors, of_classes = _drawn(findings.coefficients.predictors)
    for predictor in predictors:
        for caption, rows in _captions(predictor, findings).items():
            # Too many strokes overlap and slow the page down.
            step = -(-len(rows) * len(labels) // _STROKES)
            some = of_classes + (f" (one task in {step} is shown)" if step > 1 else "")
            if rows:
                name = f"coefficients-{len(figures) + 1}"
                drawn = strips(rows, labels, step, findings.task)
                figures.append(Figure(name, caption + some, drawn, key))
    return figures


def _drawn(predictors: Sequence[Predictor]) -> tuple[Sequence[Predictor], str]:
    """Return the classes to draw, and say which they are if there are more."""
    if len(predictors) <= _CLASSES:
        return predictors, ""

    def sizes(one: Predictor) -> tuple[float, float]:
        return float(np.ptp(one.tasks, axis=0).max()), float(np.abs(one.center).max())

    largest = sorted(predictors, key=sizes, reverse=True)[:_CLASSES]
    most = "that differ most" if sizes(largest[0])[0] > 0 else "with the largest ones"
    return largest, f" (shown for the {_CLASSES} of {len(predictors)} classes {most})"


def _captions(predictor: Predictor, findings: Findings) -> dict[str, list[Parameter]]:
    """Name the parameters to draw together."""
    about = "" if predictor.class_ is None else f" of class {predictor.class_}"
    tasks = zip(*predictor.tasks, strict=True)
    columns = zip(findings.coefficients.features, predictor.center, tasks, strict=True)
    rows = [Parameter(*one) for one in columns if one[0] not in findings.constant_within_tasks]
    rows.sort(key=lambda row: (-np.ptp(row.tasks), -abs(row.center)))
    most = "that differ most" if rows and np.ptp(rows[0].tasks) > 0 else "that are largest"
    some = f": the {_FEATURES} of {len(rows)} {most}" if len(rows) > _FEATURES else ""
    intercept = Parameter("intercept", predictor.center_intercept, predictor.intercepts)
    return {f"Coefficients{about}{some}": rows[:_FEATURES], f"Intercept{about}": [intercept]}


def strips(rows: Sequence[Parameter], labels: Sequence[str], step: int, kind: str) -> draw.Spec:
    """Draw parameters of one task in `step` as strokes, and of the centre as a diamond."""
    values = [
        {"feature": row.name, "label": label, "value": value}
        for row in rows
        for label, value in list(zip(labels, row.tasks, strict=True))[::step]
    ]
    centers = [{"feature": row.name, "value": row.center} for row in rows]
    feature = draw.names("feature", [row.name for row in rows])
    axis = draw.short(orient="top", tickCount=6)
    value = alt.X("value:Q", axis=axis, scale=alt.Scale(zero=False))
    strokes = draw.chart(values).mark_tick(thickness=1.5, size=22, opacity=0.45, color=draw.CROSS)
    look: Any = {"shape": "diamond", "filled": True, "size": 110, "opacity": 1, "color": draw.INK}
    diamond = draw.chart(centers).mark_point(**look)
    hover = draw.tips(label=kind, feature="feature", value=("coefficient", draw.VALUE))
    middle = draw.tips(feature="feature", value=("centre", draw.VALUE))
    return draw.spec(
        f"Coefficients of every {kind} around those of the centre",
        strokes.encode(y=feature, x=value, tooltip=hover),
        diamond.encode(y=feature, x=value, tooltip=middle),
        height=(38 if len(centers) < 6 else 28) * len(centers),
    )


def effects(findings: Findings) -> list[Figure]:
    """Draw partial effects on a common vertical axis."""
    kind, figures = findings.task, []
    values = [v for one in findings.effects for line in (one.center, *one.lines) for v in line]
    for k, effect in enumerate(findings.effects, 1):
        chart = partial_effect(effect, (min(values), max(values)), kind=kind)
        key = f"Predicted {effect.what}. Thick: the centre. Thin: each {kind}."
        figures.append(Figure(f"effect-{k}", effect.feature, chart, key))
    return figures


def partial_effect(effect: PartialEffect, domain: tuple[float, float], *, kind: str) -> draw.Spec:
    """Draw the centre as a thick line and the tasks as thin ones; categories as strokes."""
    grid = list(effect.grid)
    angle = -40 if sum(len(str(value)) + 1 for value in grid) > _LINE else 0
    x = alt.X("x:N", sort=None, title=None, axis=alt.Axis(labelLimit=80, labelAngle=angle))
    thin: dict[str, Any] = {"type": "tick", "thickness": 1.5, "orient": "horizontal"}
    thick: dict[str, Any] = {"type": "point", "shape": "diamond", "size": 110, "filled": True}
    if all(isinstance(value, int | float) for value in grid):
        ticks: dict[str, Any] = {"values": grid} if len(grid) <= _FEW else {"tickCount": 4}
        scale = alt.Scale(nice=False, zero=False)
        x = alt.X("x:Q", scale=scale, axis=draw.short(grid=False, **ticks))
        thin, thick = {"type": "line", "strokeWidth": 1}, {"type": "line", "strokeWidth": 3}
    axis = draw.short(tickCount=4)
    if effect.probability:
        axis = alt.Axis(title=None, format=".0%", tickCount=4)
    y = alt.Y("y:Q", scale=alt.Scale(domain=list(domain), nice=False), axis=axis)
    tasks = list(zip(map(str, effect.tasks), effect.lines, strict=True))
    parts = [
        (tasks, thin | {"color": draw.CROSS, "opacity": 0.4}),
        ([("centre", effect.center)], thick | {"color": draw.INK, "opacity": 1}),
    ]
    tooltip = draw.tips(task=kind, x=effect.feature, y=(effect.what, draw.VALUE))
    # Lists are shorter than a row for every point.
    layers = [
        draw.chart([{"task": task, "x": grid, "y": list(values)} for task, values in lines])
        .transform_flatten(["x", "y"])
        .mark_point()
        .properties(mark=mark)
        .encode(x=x, y=y, detail="task:N", tooltip=tooltip)
        for lines, mark in parts
        if lines
    ]
    about = f"Partial effect of {effect.feature} on {effect.what}: every {kind} and the centre"
    return draw.spec(about, *layers, height=180)
