"""The tasks of a table one by one: sorted by gain, as charts and as rows to sort."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crosslearning.evaluation.numbers import named
from crosslearning.report.chapters.chapter import Figure
from crosslearning.report.charts.tasks import dumbbells, gain_counts, gains

_METHODS = ("pooled", "separate", "cross")
_EITHER_END = 20
_MOST_ROWS = 1000
_MOST_POINTS = 2000


def sample(values: list[Any], most: int) -> list[Any]:
    """Take an evenly spaced sample, to keep charts readable and fast."""
    return values[:: max(1, -(-len(values) // most))]


def listed(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the tasks by descending gain, unscored ones last."""
    sign = 1 if content["score"]["greater_is_better"] else -1
    fitted = {_key(task["task"]): task for task in content.get("tasks", [])}
    least = _least_force(content)
    tasks = []
    for task in content["comparison"]["tasks"]:
        scored = task.get("cross") is not None and task.get("separate") is not None
        bound = fitted.get(_key(task["task"]), {})
        tasks.append(
            {
                **dict.fromkeys(_METHODS),
                **task,
                "label": str(task["task"]),
                "gain": sign * (task["cross"] - task["separate"]) if scored else None,
                "distance": bound.get("distance", {}),
                "force": {
                    block: force if force > least.get(block, 0.0) else 0.0
                    for block, force in bound.get("force", {}).items()
                },
            }
        )
    return sorted(tasks, key=lambda task: (task["gain"] is None, -(task["gain"] or 0.0)))


def _least_force(content: dict[str, Any]) -> dict[str, float]:
    """Return forces that exceed rounding errors, by block."""
    forces = [f for task in content.get("tasks", []) for f in task.get("force", {}).values()]
    rounding = 1e-6 * max(forces, default=0.0)
    return {
        block: rounding if choice["share"] < 1 else math.inf
        for block, choice in content.get("chosen", {}).items()
    }


def _key(label: Any) -> tuple[str, Any]:
    """Return a key that distinguishes 1, True and "1"."""
    return type(label).__name__, label


def task_figures(content: dict[str, Any], tasks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the charts of the tasks and the rows of their table."""
    scored = [task for task in tasks if None not in (task["gain"], task["pooled"])]
    half = _MOST_ROWS // 2
    shown = tasks if len(tasks) <= _MOST_ROWS else tasks[:half] + tasks[-half:]
    return {
        "dumbbells": _dumbbells(content, scored),
        "gains": _gains(content, scored),
        "held": [_held(content["task"], tasks, block) for block in content.get("chosen", {})],
        "rows": shown,
        "hidden": content.get("size", {}).get("tasks", len(tasks)) - len(shown),
        "sampled": "gain_counts" in content,
    }


def _plain(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep what a chart needs."""
    return [{name: task[name] for name in ("label", "rows", *_METHODS, "gain")} for task in tasks]


def _dumbbells(content: dict[str, Any], tasks: list[dict[str, Any]]) -> list[Figure]:
    """Draw all tasks, or those with the largest and smallest gains if there are too many."""
    if len(tasks) <= 2 * _EITHER_END:
        parts = {"All, sorted by gain": tasks}
    else:
        parts = {
            f"The {_EITHER_END} that gain most": tasks[:_EITHER_END],
            f"The {_EITHER_END} that lose most or gain least": tasks[-_EITHER_END:],
        }
    shown = [task[method] for part in parts.values() for task in part for method in _METHODS]
    if not shown:
        return []
    room = 0.04 * (max(shown) - min(shown) or 1.0)
    domain = (min(shown) - room, max(shown) + room)
    words = {"name": content["score"]["name"], "kind": content["task"]}
    return [
        Figure(caption, dumbbells(_plain(part), domain, **words)) for caption, part in parts.items()
    ]


def _gains(content: dict[str, Any], tasks: list[dict[str, Any]]) -> list[Figure]:
    """Draw gains against sizes; for very many tasks a sample, and a histogram of gains."""
    if not tasks:
        return []
    kind, everyone = content["task"], len(tasks)
    bins = content.get("gain_counts")
    if bins:
        everyone = sum(row["count"] for row in bins)
    points = sample(tasks, _MOST_POINTS)
    some = f" ({len(points):,} of {everyone:,})" if len(points) < everyone else ""
    caption = f"Gain over the separate model, by size of the {kind}{some}; above 0, sharing helps"
    figures = [Figure(caption, gains(_plain(points), kind=kind))]
    if some:
        caption = f"Distribution of the gains of all {everyone:,}; right of 0, sharing helps"
        figures.append(Figure(caption, gain_counts(bins or _bins(tasks), kind=kind)))
    return figures


def _bins(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Count gains in bins, without outliers."""
    values = np.array([task["gain"] for task in tasks])
    low, high = np.quantile(values, [0.005, 0.995])
    counts, edges = np.histogram(values, bins=60, range=(low, high))
    return [
        {"low": a, "high": b, "gain": a + b, "count": count}
        for a, b, count in zip(
            edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True
        )
    ]


def _held(kind: str, tasks: list[dict[str, Any]], block: str) -> dict[str, Any]:
    """Return how many tasks the bound on a block holds back, and which most."""
    held = [task for task in tasks if task["force"].get(block, 0.0) > 0]
    hardest = max(held, key=lambda task: task["force"][block], default={})
    first = named(kind, hardest["label"]) if held else None
    return {"block": block, "count": len(held), "of": len(tasks), "first": first}
