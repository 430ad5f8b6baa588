"""Models tried, differences between tasks, effects of columns, checks of predictions."""

from __future__ import annotations

from typing import Any

from crosslearning.evaluation.numbers import capital, number, percent
from crosslearning.report.chapters.chapter import Figure
from crosslearning.report.charts.checks import calibration, predicted_actual
from crosslearning.report.charts.effects import partial_effect
from crosslearning.report.charts.models import model_errors, task_spread
from crosslearning.report.charts.pieces import Spec

_FEATURES = 20
_FAR = 4  # times the median distance from the best; models beyond would compress the axis


def models(content: dict[str, Any]) -> Spec | None:
    """Draw the errors of all models tried, outliers at the end of the axis."""
    tried = [model for model in content.get("models", []) if model["score"] is not None]
    if not tried:
        return None
    tried.sort(key=lambda model: model["difference"])
    behind = [model["difference"] for model in tried if model["difference"] > 0] or [0.0]
    limit = _FAR * behind[len(behind) // 2]
    sign = -1 if content["score"]["greater_is_better"] else 1
    rows = [_placed(model, sign * max(0.0, model["difference"] - limit)) for model in tried]
    return model_errors(rows, name=content["score"]["name"])


def _placed(model: dict[str, Any], beyond: float) -> dict[str, Any]:
    """Place a model and its bar on the axis; one `beyond` the axis at its end."""
    score, chosen = model["score"], bool(model.get("chosen"))
    error = 0.0 if beyond else model.get("difference_error") or 0.0
    at, arrow = score - beyond, (" →" if beyond > 0 else " ←") if beyond else ""
    known = ("label", "kind", "score", "difference", "difference_error", "seconds")
    return {
        **{name: model.get(name) for name in known},
        "chosen": chosen,
        "at": at,
        "low": max(at - error, min(at, 0.0)),
        "high": at + error,
        "text": number(score) + arrow + " · chosen" * chosen,
    }


def spread(content: dict[str, Any]) -> dict[str, Any] | None:
    """Draw the standard deviations between tasks, and explain those of the level and ε."""
    found = content.get("spread")
    if not found:
        return None
    level, noise = found.get("level") or {}, found.get("noise") or {}
    known = [row for row in found.get("features", []) if row["sd"] is not None]
    features = sorted(known, key=lambda row: -row["sd"])
    constant = content.get("constant_within_tasks", [])
    features = [row for row in features if row["feature"] not in constant]
    rows = [{**row, "what": row["feature"], "at": row["sd"]} for row in features[:_FEATURES]]
    if level.get("sd") is not None:
        rows.insert(0, {**level, "what": "level", "at": level["sd"]})
    if noise.get("sd") is not None:
        end = 1.5 * max((row["high"] or row["sd"] for row in rows), default=noise["sd"])
        text = number(noise["sd"], 3) + " →" * (noise["sd"] > end)
        at = min(noise["sd"], end)
        rows.append({**noise, "what": f"within a {content['task']}", "at": at, "text": text})
    classes = content.get("target_kind") == "classification"
    unit = "log-odds" if classes else content["target"]
    differ = any(row["sd"] > 0 for row in rows if "text" not in row)
    return {
        "chart": task_spread(rows, kind=content["task"], unit=unit) if differ else None,
        "in": unit,
        "level": {name: number(value, 3) for name, value in level.items()},
        "noise": number(noise["sd"], 3) if noise.get("sd") is not None else None,
        "unit": features[0].get("unit") if features else None,
        "epsilon": found.get("epsilon") and number(found["epsilon"], 3),
        "hidden": len(features) - len(features[:_FEATURES]),
    }


def effects(content: dict[str, Any]) -> list[Figure]:
    """Draw partial effects on a common vertical axis."""
    found = content.get("effects") or []
    lines = [line for e in found for line in (e["center"], *(t["values"] for t in e["tasks"]))]
    values = [value for line in lines for value in line if value is not None]
    if not values:
        return []
    words = {"kind": content["task"], "target": content["target"]}
    ends = (min(values), max(values))
    constant = content.get("constant_within_tasks", [])  # no task can tell an effect of its own
    return [
        Figure(
            effect["feature"],
            partial_effect(
                effect | ({"tasks": []} if effect["feature"] in constant else {}), ends, **words
            ),
        )
        for effect in found
    ]


def checks(content: dict[str, Any]) -> dict[str, Any]:
    """Draw predictions and intervals against actual values, and summarise the coverage."""
    points = [point for point in content.get("calibration") or [] if point["observed"] is not None]
    rows = [
        {**row, "task": str(row.get("task"))}
        for row in content.get("predicted") or []
        if all(isinstance(row[name], int | float) for name in ("actual", "predicted"))
    ]
    figures = []
    if rows and content.get("target_kind") != "classification":
        caption = f"{capital(content['target'])}: actual against predicted, on held-out rows"
        figures.append(Figure(caption, predicted_actual(rows, kind=content["task"])))
    if points:
        caption = "Coverage: share of held-out rows inside their intervals"
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
