"""Coefficients of the tasks around the centre, and the map of the tasks."""

from __future__ import annotations

from typing import Any

from crosslearning.evaluation.numbers import percent
from crosslearning.report.chapters.chapter import Figure
from crosslearning.report.charts.parameters import atlas, strips

_FEATURES = 20
_CLASSES = 6
_STROKES = 5000


def coefficients(content: dict[str, Any]) -> list[Figure]:
    """Draw the coefficients that differ most between tasks, and the intercept separately."""
    stored = content["coefficients"]
    labels = [str(task["task"]) for task in content["tasks"]]
    figures: list[Figure] = []
    for part in stored.get("classes", [stored])[:_CLASSES]:
        for caption, rows in _captions(part, content).items():
            if rows:
                name = f"coefficients-{len(figures) + 1}"
                figures.append(_strips(name, caption, rows, labels, content["task"]))
    return figures


def _captions(part: dict[str, Any], content: dict[str, Any]) -> dict[str, list[Any]]:
    """Name the parameters to draw together, each with its value at the centre and in the tasks."""
    about = f" of class {part['class']}" if "class" in part else ""
    constant = content.get("constant_within_tasks", [])
    columns = zip(
        content["coefficients"]["features"],
        part["center"],
        zip(*part["tasks"], strict=True),
        strict=True,
    )
    rows = [row for row in columns if row[0] not in constant]
    rows.sort(key=lambda row: (min(row[2]) - max(row[2]), -abs(row[1])))
    most = "that differ most" if rows and min(rows[0][2]) < max(rows[0][2]) else "that are largest"
    some = f": the {_FEATURES} of {len(rows)} {most}" if len(rows) > _FEATURES else ""
    intercept = part["intercept"]
    return {
        f"Coefficients{about}{some}": rows[:_FEATURES],
        f"Intercept{about}": [("intercept", intercept["center"], intercept["tasks"])],
    }


def _strips(name: str, caption: str, parameters: list[Any], labels: list[str], kind: str) -> Figure:
    # Too many strokes overlap and slow the page down.
    step = -(-len(parameters) * len(labels) // _STROKES)
    if step > 1:
        caption += f" (one task in {step} is shown)"
    values = [
        {"feature": feature, "label": label, "value": value}
        for feature, _, tasks in parameters
        for label, value in list(zip(labels, tasks, strict=True))[::step]
    ]
    centers = [{"feature": feature, "value": center} for feature, center, _ in parameters]
    key = f"A stroke for each {kind}, a diamond for the centre; standardised features."
    return Figure(name, caption, strips(values, centers, kind=kind), key)


def parameter_map(content: dict[str, Any], tasks: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Draw the map, and say how much of the differences it shows."""
    stored = content["map"]
    gain = {task["label"]: task["gain"] for task in tasks}
    if not any(offset for point in stored["tasks"] for offset in point):
        return None
    points = [
        {
            "label": str(task["task"]),
            "rows": task["rows"],
            "gain": gain.get(str(task["task"])),
            "x": point[0],
            "y": point[1] if len(point) > 1 else 0.0,  # a single task has one direction
        }
        for task, point in zip(content["tasks"], stored["tasks"], strict=True)
    ]
    key = f"A mark for each {content['task']}, a diamond for the centre."
    caption = "Models that are close predict alike"
    chart = Figure("map", caption, atlas(points, kind=content["task"]), key)
    return {"chart": chart, "explained": percent(stored["explained"])}
