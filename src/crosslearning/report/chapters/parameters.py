"""Coefficients of the tasks around the centre, and the map of the tasks."""

from __future__ import annotations

from typing import Any

from crosslearning.evaluation.numbers import percent
from crosslearning.report.chapters.chapter import Figure
from crosslearning.report.chapters.task_list import sample
from crosslearning.report.charts.parameters import atlas, strips

_FEATURES = 20
_CLASSES = 6
_STROKES = 5000
_POINTS = 2000


def coefficients(content: dict[str, Any]) -> list[Figure]:
    """Draw the coefficients that differ most between tasks, and the intercept separately."""
    stored = content.get("coefficients")
    if not stored:
        return []
    labels = [str(task["task"]) for task in content["tasks"]]
    figures = []
    for part in (stored.get("classes") or [stored])[:_CLASSES]:
        about = f" of class {part['class']}" if "class" in part else ""
        figures += _figures(about, part, content, labels)
    return figures


def _figures(
    about: str, part: dict[str, Any], content: dict[str, Any], labels: list[str]
) -> list[Figure]:
    features, kind = content["coefficients"]["features"], content["task"]
    constant = content.get("constant_within_tasks", [])
    columns = list(zip(*part["tasks"], strict=True))
    spread = {
        j: max(column) - min(column)
        for j, column in enumerate(columns)
        if features[j] not in constant
    }
    shown = sorted(spread, key=lambda j: -spread[j])[:_FEATURES]
    some = (
        f": the {_FEATURES} of {len(spread)} that differ most" if len(shown) < len(spread) else ""
    )
    captions = {
        f"Coefficients{about}{some}": [(features[j], part["center"][j], columns[j]) for j in shown]
    }
    if intercept := part.get("intercept"):
        row = ("intercept", intercept["center"], intercept["tasks"])
        captions[f"Intercept{about}"] = [row]
    return [_strips(name, rows, labels, kind) for name, rows in captions.items() if rows]


def _strips(caption: str, parameters: list[Any], labels: list[str], kind: str) -> Figure:
    """Draw parameters, each with its name, its value at the centre and those of the tasks."""
    # Too many strokes overlap and slow the page down.
    step = -(-len(parameters) * len(labels) // _STROKES)
    if step > 1:
        caption += f" (one task in {step} is shown)"
    values = [
        {"feature": name, "label": label, "value": value}
        for name, _, tasks in parameters
        for label, value in list(zip(labels, tasks, strict=True))[::step]
    ]
    centers = [{"feature": name, "value": center} for name, center, _ in parameters]
    return Figure(caption, strips(values, centers, kind=kind))


def parameter_map(content: dict[str, Any], tasks: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Draw the map, and say how much of the differences it shows."""
    stored = content.get("map")
    if not stored:
        return None
    gain = {task["label"]: task["gain"] for task in tasks}
    pairs = list(zip(content["tasks"], stored["tasks"], strict=True))
    if all(point == stored["center"] for _, point in pairs):
        return None
    points = [
        {
            "label": str(task["task"]),
            "rows": task["rows"],
            "gain": gain.get(str(task["task"])),
            "x": point[0],
            "y": point[1] if len(point) > 1 else 0.0,  # a single task has one direction
        }
        for task, point in sample(pairs, _POINTS)
    ]
    return {
        "chart": atlas(points, tuple(stored["center"]), stored["radius"], kind=content["task"]),
        "explained": percent(stored["explained"]),
        "ball": stored["radius"] is not None,
    }
