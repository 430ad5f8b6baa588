"""The tasks of a table one by one, sorted by gain: rows to sort, and charts of their scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt

from crosslearning.evaluation.numbers import joined
from crosslearning.evaluation.records import to_json
from crosslearning.report.chapter import Figure
from crosslearning.report.drawing import Records, Spec, chart, short, spec, tips
from crosslearning.report.style import CROSS, GAIN, GAINS, METHODS, SOFT, VALUE
from crosslearning.tables.findings import Findings, TaskRow

_EITHER_END = 20
_MOST_ROWS = 1000
_MARKS = {"separate": "Circle", "cross": "Dot", "pooled": "Diamond"}
_SHAPES = {"pooled": "diamond", "separate": "circle", "cross": "circle"}


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
    labels, half = findings.comparison.labels, _MOST_ROWS // 2
    scored = [
        {name: task[name] for name in ("label", "rows", *labels, "gain")}
        for task in tasks
        if task["gain"] is not None and None not in [task[method] for method in labels]
    ]
    at_bound = [task for task in tasks if task["force"] > 0]
    return {
        "dumbbells": _dumbbells(findings, scored) if scored else [],
        "gains": _gains(findings, scored) if scored else [],
        "rows": tasks if len(tasks) <= _MOST_ROWS else tasks[:half] + tasks[-half:],
        "n_tasks": len(tasks),
        "at_bound": sorted(at_bound, key=lambda task: -task["force"]),
    }


def _dumbbells(findings: Findings, tasks: list[dict[str, Any]]) -> list[Figure]:
    """Draw all tasks, or those with the largest and smallest gains if there are too many."""
    parts = {"All, sorted by gain": tasks}
    if len(tasks) > 2 * _EITHER_END:
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


def dumbbells(
    tasks: Records,
    domain: tuple[float, float],
    labels: Mapping[str, str],
    *,
    name: str,
    kind: str,
    against: str,
) -> Spec:
    """Draw the scores of models of tasks, in their order, and the gain over one of them."""
    scale = alt.Scale(domain=list(domain), zero=False, nice=False)
    label = alt.Axis(labelLimit=150, grid=True, gridDash=[1, 3])
    base = chart(tasks).encode(
        y=alt.Y("label:N", sort=None, title=None, axis=label),
        tooltip=tips(
            label=kind,
            rows=("rows", ","),
            **{method: (label, VALUE) for method, label in labels.items()},
            gain=(f"gain over {against}", GAIN),
        ),
    )

    def at(method: str) -> alt.X:
        return alt.X(f"{method}:Q", scale=scale, axis=short(orient="top"))

    def point(method: str) -> Any:
        look: Any = {
            "shape": _SHAPES[method],
            "color": METHODS[method],
            "filled": method == "cross",
        }
        return base.mark_point(size=75, opacity=1, strokeWidth=1.8, **look).encode(x=at(method))

    rule = base.mark_rule(color=CROSS, strokeWidth=3, opacity=0.45)
    return spec(
        f"{name} of {joined(list(labels.values()))}, by {kind}",
        rule.encode(x=at(against), x2="cross:Q"),
        *(point(method) for method in _SHAPES if method in labels),
        height=19 * len(tasks),
    )


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


def gains(tasks: Records, *, kind: str) -> Spec:
    """Draw the gains of tasks against their numbers of rows."""
    sizes = [task["rows"] for task in tasks]
    wide = max(sizes) > 20 * max(min(sizes), 1)
    points = chart(tasks).encode(
        x=alt.X(
            "rows:Q",
            title=f"rows of the {kind}",
            scale=alt.Scale(type="log", nice=False, padding=8) if wide else alt.Scale(zero=False),
            axis=alt.Axis(grid=False, tickCount=6, format="~s"),
        ),
        y=alt.Y("gain:Q", axis=short()),
        **GAINS,
        tooltip=tips(label=kind, rows=("rows", ","), gain=("gain", GAIN)),
    )
    zero = chart([{"gain": 0}]).mark_rule(color=SOFT).encode(y="gain:Q")
    dots = points.mark_point(filled=True, size=45, opacity=0.75)
    return spec(f"Gain against the rows of each {kind}", zero, dots, height=280)


def gain_counts(bins: Records, *, kind: str) -> Spec:
    """Draw a histogram of gains; bins are rows with `low`, `high`, `gain` and `count`."""
    bars = chart(bins).encode(
        x=alt.X("low:Q", scale=alt.Scale(nice=False, zero=False), axis=short(grid=False)),
        x2="high:Q",
        y=alt.Y("count:Q", axis=short(), scale=alt.Scale(zero=True)),
        y2=alt.Y2(datum=0),
        color=GAINS["color"],
        tooltip=tips(low=("gain from", GAIN), high=("to", GAIN), count=(kind, ",")),
    )
    return spec(f"Histogram of the gains of each {kind}", bars.mark_rect(), height=180)
