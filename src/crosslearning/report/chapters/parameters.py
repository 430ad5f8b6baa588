"""Coefficients of the tasks around the centre, and the map of the tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from crosslearning.evaluation.numbers import percent
from crosslearning.report.chapters.chapter import Figure
from crosslearning.report.chapters.task_list import key_of
from crosslearning.report.charts.parameters import atlas, strips
from crosslearning.tables.findings import Findings, Predictor

_FEATURES = 20
_CLASSES = 6
_STROKES = 5000


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
    columns = zip(
        findings.coefficients.features,
        predictor.center,
        zip(*predictor.tasks, strict=True),
        strict=True,
    )
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


def parameter_map(findings: Findings, tasks: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Draw the map, and say how much of the differences it shows."""
    gain = {key_of(task["task"]): task["gain"] for task in tasks}
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
    key = f"A mark for each {findings.task}, a diamond for the centre."
    caption = "Models that are close predict alike"
    chart = Figure("map", caption, atlas(points, kind=findings.task), key)
    return {"chart": chart, "explained": percent(findings.explained)}
