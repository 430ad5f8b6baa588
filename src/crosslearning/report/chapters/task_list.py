"""The tasks of a table one by one: sorted by gain, as charts and as rows to sort."""

from __future__ import annotations

from typing import Any

from crosslearning.evaluation.numbers import named
from crosslearning.report.chapters.chapter import Figure
from crosslearning.report.charts.tasks import dumbbells, gain_counts, gains

_EITHER_END = 20
_MOST_ROWS = 1000
_MARKS = {"separate": "Circle", "cross": "Dot", "pooled": "Diamond"}


def listed(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the tasks by descending gain, unscored ones last."""
    sign = 1 if content["score"]["greater_is_better"] else -1
    against = content["comparison"]["against"]
    bounded = bool(content.get("chosen"))
    forces = [task["force"]["all"] for task in content["tasks"]]
    rounding = 1e-6 * max(forces, default=0.0)
    fitted = {_key(task["task"]): task for task in content["tasks"]}
    tasks = []
    for task in content["comparison"]["tasks"]:
        scored = task["cross"] is not None and task[against] is not None
        bound = fitted.get(_key(task["task"]))
        force = bound["force"]["all"] if bound else 0.0
        tasks.append(
            {
                **task,
                "label": str(task["task"]),
                "gain": sign * (task["cross"] - task[against]) if scored else None,
                "distance": bound and bound["distance"]["all"],
                "force": force if bounded and force > rounding else 0.0,
            }
        )
    return sorted(tasks, key=lambda task: (task["gain"] is None, -(task["gain"] or 0.0)))


def _key(label: Any) -> tuple[str, Any]:
    """Return a key that distinguishes 1, True and "1"."""
    return type(label).__name__, label


def task_figures(content: dict[str, Any], tasks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the charts of the tasks, the rows of their table, and those at their bound."""
    labels = content["comparison"]["labels"]
    scored = [
        {name: task[name] for name in ("label", "rows", *labels, "gain")}
        for task in tasks
        if task["gain"] is not None and None not in [task[method] for method in labels]
    ]
    half = _MOST_ROWS // 2
    shown = tasks if len(tasks) <= _MOST_ROWS else tasks[:half] + tasks[-half:]
    held = [task for task in tasks if task["force"] > 0]
    hardest = max(held, key=lambda task: task["force"], default={"label": ""})
    return {
        "dumbbells": _dumbbells(content, scored) if scored else [],
        "gains": _gains(content, scored) if scored else [],
        "rows": shown,
        "hidden": content["size"]["tasks"] - len(shown),
        "sampled": "gain_counts" in content,
        "bounded": bool(content.get("chosen")),
        "held": {
            "count": len(held),
            "of": len(tasks),
            "first": named(content["task"], hardest["label"]),
        },
    }


def _dumbbells(content: dict[str, Any], tasks: list[dict[str, Any]]) -> list[Figure]:
    """Draw all tasks, or those with the largest and smallest gains if there are too many."""
    if len(tasks) <= 2 * _EITHER_END:
        parts = {"All, sorted by gain": tasks}
    else:
        parts = {
            f"The {_EITHER_END} that gain most": tasks[:_EITHER_END],
            f"The {_EITHER_END} that lose most or gain least": tasks[-_EITHER_END:],
        }
    labels, against = content["comparison"]["labels"], content["comparison"]["against"]
    shown = [task[method] for part in parts.values() for task in part for method in labels]
    room = 0.04 * (max(shown) - min(shown) or 1.0)
    domain = (min(shown) - room, max(shown) + room)
    words = {"name": content["score"]["name"], "kind": content["task"], "against": against}
    key = " ".join(f"{mark}: {labels[m]}." for m, mark in _MARKS.items() if m in labels)
    return [
        Figure(f"tasks-{k}", caption, dumbbells(part, domain, labels, **words), key)
        for k, (caption, part) in enumerate(parts.items(), 1)
    ]


def _gains(content: dict[str, Any], tasks: list[dict[str, Any]]) -> list[Figure]:
    """Draw gains against sizes; if some tasks stand for very many, a histogram of all gains."""
    kind, bins = content["task"], content.get("gain_counts", [])
    everyone = sum(row["count"] for row in bins)
    some = f" ({len(tasks):,} of {everyone:,})" if bins else ""
    rival = content["comparison"]["labels"][content["comparison"]["against"]]
    caption = f"Gain over {rival}, by size of the {kind}{some}; above 0, sharing helps"
    figures = [Figure("gains", caption, gains(tasks, kind=kind))]
    if bins:
        caption = f"Distribution of the gains of all {everyone:,}; right of 0, sharing helps"
        figures.append(Figure("gain-counts", caption, gain_counts(bins, kind=kind)))
    return figures
