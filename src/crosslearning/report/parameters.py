"""Coefficients of the tasks around the centre, and the map of the tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import altair as alt

from crosslearning.report.chapter import Figure
from crosslearning.report.drawing import Records, Spec, chart, names, short, spec, tips
from crosslearning.report.style import CROSS, GAIN, GAINS, INK, VALUE
from crosslearning.report.tasks import key_of
from crosslearning.tables.findings import Findings, Predictor

_FEATURES = 20
_CLASSES = 6
_STROKES = 5000
_SIDE, _FLAT = 330, 70  # pixels of the map


class _Parameter(NamedTuple):
    """A parameter at the centre and in the tasks."""

    name: str
    center: float
    tasks: Sequence[float]

    @property
    def width(self) -> float:
        """Difference between the largest and the smallest of the tasks."""
        return max(self.tasks) - min(self.tasks)


def coefficients(findings: Findings) -> list[Figure]:
    """Draw the coefficients that differ most between tasks, and the intercept separately."""
    labels = [str(task.task) for task in findings.tasks]
    figures: list[Figure] = []
    for predictor in findings.coefficients.predictors[:_CLASSES]:
        for caption, rows in _captions(predictor, findings).items():
            if rows:
                name = f"coefficients-{len(figures) + 1}"
                figures.append(_strips(name, caption, rows, labels, findings.task))
    return figures


def _captions(predictor: Predictor, findings: Findings) -> dict[str, list[_Parameter]]:
    """Name the parameters to draw together."""
    about = "" if predictor.class_ is None else f" of class {predictor.class_}"
    tasks = zip(*predictor.tasks, strict=True)
    columns = zip(findings.coefficients.features, predictor.center, tasks, strict=True)
    rows = [
        _Parameter(*column) for column in columns if column[0] not in findings.constant_within_tasks
    ]
    rows.sort(key=lambda row: (-row.width, -abs(row.center)))
    most = "that differ most" if rows and rows[0].width > 0 else "that are largest"
    some = f": the {_FEATURES} of {len(rows)} {most}" if len(rows) > _FEATURES else ""
    intercept = _Parameter("intercept", predictor.center_intercept, predictor.intercepts)
    return {f"Coefficients{about}{some}": rows[:_FEATURES], f"Intercept{about}": [intercept]}


def _strips(
    name: str, caption: str, parameters: list[_Parameter], labels: list[str], kind: str
) -> Figure:
    # Too many strokes overlap and slow the page down.
    step = -(-len(parameters) * len(labels) // _STROKES)
    if step > 1:
        caption += f" (one task in {step} is shown)"
    values = [
        {"feature": parameter.name, "label": label, "value": value}
        for parameter in parameters
        for label, value in list(zip(labels, parameter.tasks, strict=True))[::step]
    ]
    centers = [{"feature": parameter.name, "value": parameter.center} for parameter in parameters]
    key = f"A stroke for each {kind}, a diamond for the centre; standardised features."
    return Figure(name, caption, strips(values, centers, kind=kind), key)


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


def _diamond(place: Records, size: int) -> Any:
    """Mark the centre."""
    look: Any = {"shape": "diamond", "filled": True, "color": INK, "opacity": 1}
    return chart(place).mark_point(size=size, **look)


def parameter_map(findings: Findings, tasks: list[dict[str, Any]]) -> Figure | None:
    """Draw the map, if tasks differ; `tasks` have the gains."""
    gain, kind = {key_of(task["task"]): task["gain"] for task in tasks}, findings.task
    if not any(offset for task in findings.tasks for offset in task.place):
        return None
    points = [
        {
            "label": str(task.task),
            "rows": task.rows,
            "gain": gain.get(key_of(task.task)),
            "x": task.place[0],
            "y": task.place[1] if len(task.place) > 1 else 0.0,  # a single task has one direction
        }
        for task in findings.tasks
    ]
    key = f"A mark for each {kind}, a diamond for the centre."
    return Figure("map", "Models that are close predict alike", atlas(points, kind=kind), key)


def atlas(tasks: Records, *, kind: str) -> Spec:
    """Draw tasks around the centre, the origin."""
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
