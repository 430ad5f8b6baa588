"""The tasks of a table one by one: sorted by gain, as charts and as rows to sort."""

from __future__ import annotations

import math
from typing import Any

from crosslearning.evaluation.numbers import named
from crosslearning.report.chapters.chapter import Figure
from crosslearning.report.charts.tasks import dumbbells, forces, gains

__all__ = ["listed", "task_figures"]

_EITHER_END = 20
_MOST_ROWS = 2000
_HELD = 10


def listed(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all that is known of each task, those that gain most first, unscored ones last."""
    sign = 1 if content["score"]["greater_is_better"] else -1
    fitted = {_key(task["task"]): task for task in content["tasks"]}
    least = _least_force(content)
    tasks = []
    for task in content["comparison"]["tasks"]:
        scored = task["cross"] is not None and task["separate"] is not None
        bound = fitted.get(_key(task["task"]), {})
        tasks.append(
            {
                **task,
                "label": str(task["task"]),
                "gain": sign * (task["cross"] - task["separate"]) if scored else None,
                "distance": bound.get("distance", {}),
                "force": {
                    block: force if force > least[block] else 0.0
                    for block, force in bound.get("force", {}).items()
                },
            }
        )
    return sorted(tasks, key=lambda task: (task["gain"] is None, -(task["gain"] or 0.0)))


def _least_force(content: dict[str, Any]) -> dict[str, float]:
    """Return what is more than rounding, by block; a bound that reaches no task has no force."""
    forces = [force for task in content["tasks"] for force in task["force"].values()]
    rounding = 1e-6 * max(forces, default=0.0)
    return {
        block: rounding if choice["share"] < 1 else math.inf
        for block, choice in content["chosen"].items()
    }


def _key(label: Any) -> tuple[str, Any]:
    """Tell 1, True and "1" apart."""
    return type(label).__name__, label


def task_figures(content: dict[str, Any], tasks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the charts of the tasks and the rows of their table."""
    scored = [task for task in tasks if None not in (task["gain"], task["pooled"])]
    shown = tasks
    if len(tasks) > _MOST_ROWS:
        shown = tasks[: _MOST_ROWS // 2] + tasks[-_MOST_ROWS // 2 :]
    return {
        "dumbbells": _dumbbells(content, scored),
        "gains": gains(_plain(scored[:_MOST_ROWS]), kind=content["task"]) if scored else None,
        "forces": [_forces(content, tasks, block) for block in content["chosen"]],
        "rows": shown,
        "hidden": len(tasks) - len(shown),
    }


def _plain(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep what a chart needs."""
    names = ("label", "rows", "separate", "cross", "pooled", "gain")
    return [{name: task[name] for name in names} for task in tasks]


def _dumbbells(content: dict[str, Any], tasks: list[dict[str, Any]]) -> list[Figure]:
    """Draw all tasks, or those at either end of the gains where they are too many."""
    if len(tasks) <= 2 * _EITHER_END:
        parts = {"All, those that gain most first": tasks}
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


_METHODS = ("pooled", "separate", "cross")


def _forces(content: dict[str, Any], tasks: list[dict[str, Any]], block: str) -> dict[str, Any]:
    """Return the tasks the bound on a block holds back most, as a sentence and a chart."""
    held = [
        {
            "label": task["label"],
            "rows": task["rows"],
            "force": task["force"][block],
            "distance": task["distance"].get(block),
        }
        for task in tasks
        if task["force"].get(block, 0.0) > 0
    ]
    held.sort(key=lambda task: -task["force"])
    return {
        "block": block,
        "count": len(held),
        "of": len(tasks),
        "first": named(content["task"], held[0]["label"]) if held else None,
        "chart": forces(held[:_HELD], kind=content["task"]) if held else None,
    }
