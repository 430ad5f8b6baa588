"""What was tried, how much tasks differ, what columns do, and whether to trust predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crosslearning.evaluation.numbers import capital, number, percent
from crosslearning.report.chapters.chapter import Figure
from crosslearning.report.charts.checks import calibration, predicted_actual
from crosslearning.report.charts.effects import partial_effect
from crosslearning.report.charts.models import model_errors
from crosslearning.report.charts.spread import task_spread

if TYPE_CHECKING:
    from crosslearning.report.charts.style import Spec

__all__ = ["checks", "effects", "models", "spread"]

_FEATURES = 20
_FAR = 4  # times the median distance from the best: beyond, a model would squeeze the others


def models(content: dict[str, Any]) -> Spec | None:
    """Draw the errors of all models that were tried, those far off at the end of the axis."""
    tried = [model for model in content.get("models", []) if model["score"] is not None]
    if not tried:
        return None
    tried.sort(key=lambda model: model["score"])
    best = tried[0]["score"]
    gaps = [model["score"] - best for model in tried if model["score"] > best] or [0.0]
    chosen = [model["score"] for model in tried if model.get("chosen")]
    limit = max(best + _FAR * gaps[len(gaps) // 2], *chosen)
    rows = [_placed(model, limit) for model in tried]
    return model_errors(rows, name=content["score"]["name"])


def _placed(model: dict[str, Any], limit: float) -> dict[str, Any]:
    """Place a model on the axis, with a bar that does not reach beyond 0 or the limit."""
    score, chosen = model["score"], bool(model.get("chosen"))
    error = model.get("difference_error") or 0.0
    return {
        **{name: model.get(name) for name in ("label", "kind", "score", "seconds")},
        **{name: model.get(name) for name in ("difference", "difference_error")},
        "chosen": chosen,
        "at": min(score, limit),
        "low": min(max(score - error, min(score, 0.0)), limit),
        "high": min(score + error, limit),
        "text": number(score) + " →" * (score > limit) + " · chosen" * chosen,
    }


def spread(content: dict[str, Any]) -> dict[str, Any] | None:
    """Draw the standard deviations between tasks, and say what the largest and ε mean."""
    found = content.get("spread")
    if not found:
        return None
    task, level, noise = content["task"], found.get("level"), found.get("noise")
    features = _varying(content, found.get("features", []))
    features.sort(key=lambda row: -row["sd"])
    rows = [{**row, "what": row["feature"], "noise": False} for row in features[:_FEATURES]]
    if level and level["sd"] is not None:
        rows.insert(0, {**level, "what": "level", "noise": False})
    if noise and noise["sd"] is not None:
        rows.append({**noise, "what": f"within a {task}", "noise": True})
    return {
        "chart": task_spread(rows, kind=task, unit=content["target"]) if rows else None,
        "level": level and {name: number(level.get(name), 3) for name in ("sd", "low", "high")},
        "noise": noise and number(noise["sd"], 3),
        "unit": features[0].get("unit") if features else None,
        "epsilon": found.get("epsilon") and number(found["epsilon"], 3),
        "hidden": len(features) - len(features[:_FEATURES]),
    }


def _varying(content: dict[str, Any], features: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what no task can tell: effects of columns that are constant within tasks."""
    constant = content.get("constant_within_tasks", [])
    return [row for row in features if row["sd"] is not None and row["feature"] not in constant]


def effects(content: dict[str, Any]) -> list[Figure]:
    """Draw partial effects on one vertical axis, so that they can be compared."""
    found = content.get("effects") or []
    lines = [line for e in found for line in (e["center"], *(t["values"] for t in e["tasks"]))]
    values = [value for line in lines for value in line if value is not None]
    if not values:
        return []
    words = {"kind": content["task"], "target": content["target"]}
    ends = (min(values), max(values))
    constant = content.get("constant_within_tasks", [])
    figures = []
    for effect in found:
        if effect["feature"] in constant:
            effect = {**effect, "tasks": []}
        figures.append(Figure(effect["feature"], partial_effect(effect, ends, **words)))
    return figures


def checks(content: dict[str, Any]) -> dict[str, Any]:
    """Draw predictions and intervals against what came true, and say how it went in words."""
    points = [point for point in content.get("calibration") or [] if point["observed"] is not None]
    rows = [
        {**row, "task": str(row.get("task"))}
        for row in content.get("predicted") or []
        if all(isinstance(row[name], int | float) for name in ("actual", "predicted"))
    ]
    figures = []
    if rows and content.get("target_kind") != "classification":
        caption = f"{capital(content['target'])}: actual against predicted, on rows left out"
        figures.append(Figure(caption, predicted_actual(rows, kind=content["task"])))
    if points:
        caption = "Rows inside their intervals: as many as promised?"
        figures.append(Figure(caption, calibration(points)))
    shares = [(f"{100 * p['nominal']:.3g} %", percent(p["observed"])) for p in points]
    main = next((pair for pair in shares if pair[0] == "90 %"), shares[-1] if shares else None)
    return {
        "figures": figures,
        "promised": main and main[0],
        "kept": main and main[1],
        "others": [
            f"{nominal}: {observed}" for nominal, observed in shares if (nominal, observed) != main
        ],
    }
