"""The tasks of a table one by one: sorted by gain, as charts and as rows to sort."""

from __future__ import annotations

from typing import Any

from crosslearning.evaluation.numbers import named
from crosslearning.evaluation.records import to_json
from crosslearning.report.chapters.chapter import Figure
from crosslearning.report.charts.tasks import dumbbells, gain_counts, gains
from crosslearning.tables.findings import Findings, TaskRow

_EITHER_END = 20
_MOST_ROWS = 1000
_MARKS = {"separate": "Circle", "cross": "Dot", "pooled": "Diamond"}


def listed(findings: Findings) -> list[dict[str, Any]]:
    """Return the rows of the tasks by descending gain, unscored ones last."""
    sign = 1 if findings.score.greater_is_better else -1
    comparison = findings.comparison
    fitted = {key_of(task.task): task for task in findings.tasks}
    rows = []
    for task in comparison.tasks:
        scores = {method: getattr(task, method) for method in comparison.labels}
        cross, rival = scores["cross"], scores[comparison.against]
        described = fitted.get(key_of(task.task))
        rows.append(
            {
                "task": task.task,
                "rows": task.rows,
                **scores,
                "label": str(task.task),
                "gain": None if cross is None or rival is None else sign * (cross - rival),
                "distance": described and described.distance,
                "force": 0.0 if described is None else _force(described, findings.epsilon),
            }
        )
    return sorted(rows, key=lambda row: (row["gain"] is None, -(row["gain"] or 0.0)))


def _force(task: TaskRow, epsilon: float | None) -> float:
    """Return the force of the bound, without that of the prior, which is the distance."""
    if epsilon is None or task.distance is None or task.distance < (1.0 - 1e-6) * epsilon:
        return 0.0
    return max((task.force or 0.0) - task.distance, 0.0)


def key_of(label: Any) -> tuple[str, Any]:
    """Return a key that distinguishes 1, True and "1"."""
    return type(label).__name__, label


def task_figures(findings: Findings, tasks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the charts of the tasks, the rows of their table, and those at their bound."""
    labels = findings.comparison.labels
    scored = [
        {name: task[name] for name in ("label", "rows", *labels, "gain")}
        for task in tasks
        if task["gain"] is not None and None not in [task[method] for method in labels]
    ]
    half = _MOST_ROWS // 2
    listed = tasks if len(tasks) <= _MOST_ROWS else tasks[:half] + tasks[-half:]
    at_bound = [task for task in tasks if task["force"] > 0]
    hardest = max(at_bound, key=lambda task: task["force"], default={"label": ""})
    return {
        "dumbbells": _dumbbells(findings, scored) if scored else [],
        "gains": _gains(findings, scored) if scored else [],
        "rows": listed,
        "hidden": findings.size.tasks - len(listed),
        "sampled": findings.gain_counts is not None,
        "bounded": findings.epsilon is not None,
        "at_bound": {
            "count": len(at_bound),
            "of": len(tasks),
            "first": named(findings.task, hardest["label"]),
        },
    }


def _dumbbells(findings: Findings, tasks: list[dict[str, Any]]) -> list[Figure]:
    """Draw all tasks, or those with the largest and smallest gains if there are too many."""
    if len(tasks) <= 2 * _EITHER_END:
        parts = {"All, sorted by gain": tasks}
    else:
        parts = {
            f"The {_EITHER_END} that gain most": tasks[:_EITHER_END],
            f"The {_EITHER_END} that lose most or gain least": tasks[-_EITHER_END:],
        }
    labels, against = findings.comparison.labels, findings.comparison.against
    scores = [task[method] for part in parts.values() for task in part for method in labels]
    room = 0.04 * (max(scores) - min(scores) or 1.0)
    domain = (min(scores) - room, max(scores) + room)
    words = {"name": findings.score.name, "kind": findings.task, "against": against}
    key = " ".join(f"{mark}: {labels[m]}." for m, mark in _MARKS.items() if m in labels)
    return [
        Figure(f"tasks-{k}", caption, dumbbells(part, domain, labels, **words), key)
        for k, (caption, part) in enumerate(parts.items(), 1)
    ]


def _gains(findings: Findings, tasks: list[dict[str, Any]]) -> list[Figure]:
    """Draw gains against sizes; if some tasks stand for very many, a histogram of all gains."""
    kind, bins = findings.task, findings.gain_counts or ()
    everyone = sum(part.count for part in bins)
    some = f" ({len(tasks):,} of {everyone:,})" if bins else ""
    rival = findings.comparison.labels[findings.comparison.against]
    caption = f"Gain over {rival}, by size of the {kind}{some}; above 0, sharing helps"
    figures = [Figure("gains", caption, gains(tasks, kind=kind))]
    if bins:
        caption = f"Distribution of the gains of all {everyone:,}; right of 0, sharing helps"
        # The sign of the middle of a bin is its colour.
        rows = [{**to_json(part), "gain": part.low + part.high} for part in bins]
        figures.append(Figure("gain-counts", caption, gain_counts(rows, kind=kind)))
    return figures
