"""Models tried, differences between tasks, effects of columns, checks of predictions."""

from __future__ import annotations

from typing import Any

from crosslearning.evaluation.numbers import capital, number, percent
from crosslearning.report.chapters.chapter import Figure
from crosslearning.report.charts.checks import calibration, predicted_actual, reliability
from crosslearning.report.charts.effects import partial_effect
from crosslearning.report.charts.models import model_errors, task_spread

_FEATURES = 20
_LOGARITHMIC = ("poisson", "gamma", "tweedie")  # families
_FAR = 4  # times the median distance from the best; models beyond would compress the axis


def models(content: dict[str, Any]) -> Figure:
    """Draw the errors of all models tried, outliers at the end of the axis."""
    tried = [model for model in content["models"] if model["score"] is not None]
    tried.sort(key=lambda model: model["difference"])
    behind = [model["difference"] for model in tried if model["difference"] > 0] or [0.0]
    limit = _FAR * behind[len(behind) // 2]
    name, sign = content["score"]["name"], -1 if content["score"]["greater_is_better"] else 1
    rows = [_placed(model, sign * max(0.0, model["difference"] - limit)) for model in tried]
    caption = f"{capital(name)} of every model, nested"
    key = "Bars: one standard error of the difference from the chosen model."
    return Figure("models", caption, model_errors(rows, name=name), key)


def _placed(model: dict[str, Any], beyond: float) -> dict[str, Any]:
    """Place a model and its bar on the axis; one `beyond` the axis at its end."""
    error = 0.0 if beyond else model["difference_error"]
    at, arrow = model["score"] - beyond, (" →" if beyond > 0 else " ←") if beyond else ""
    return {
        **model,
        "at": at,
        "low": max(at - error, min(at, 0.0)),
        "high": at + error,
        "text": number(model["score"]) + arrow + " · chosen" * model["chosen"],
    }


def spread(content: dict[str, Any]) -> dict[str, Any]:
    """Draw the standard deviations between tasks, and explain those of the level and ε."""
    found, constant = content["spread"], content.get("constant_within_tasks", [])
    unit, level, noise = content["target"], found["level"], found["noise"]["sd"]
    if content["target_kind"] == "classification":
        unit = "log-odds"
    elif content["estimator"] == "CrossBayesianGLM" and content["family"] in _LOGARITHMIC:
        unit, noise = f"the logarithm of {unit}", None
    features = [row for row in found["features"] if row["feature"] not in constant]
    features.sort(key=lambda row: -row["sd"])
    rows = [{**row, "what": row["feature"], "at": row["sd"]} for row in features[:_FEATURES]]
    rows.insert(0, {**level, "what": "level", "at": level["sd"]})
    differ = any(row["sd"] > 0 for row in rows)
    if noise is not None:
        end = 1.5 * max(row["high"] for row in rows)
        text = number(noise, 3) + " →" * (noise > end)
        what = f"within a {content['task']}"
        rows.append({"sd": noise, "what": what, "at": min(noise, end), "text": text})
    caption = f"Standard deviation between tasks, in units of {unit}"
    chart = Figure("spread", caption, task_spread(rows, kind=content["task"], unit=unit))
    return {
        "chart": chart if differ else None,
        "of": "" if unit == content["target"] else f", in {unit},",
        "level": {name: number(value, 3) for name, value in level.items()},
        "noise": noise and number(noise, 3),
        "unit": features[0]["unit"] if features else None,
        "epsilon": found["epsilon"] and number(found["epsilon"], 3),
        "hidden": len(features) - len(features[:_FEATURES]),
    }


def effects(content: dict[str, Any]) -> list[Figure]:
    """Draw partial effects on a common vertical axis."""
    found = content["effects"]
    constant = content.get("constant_within_tasks", [])  # no task can tell an effect of its own
    found = [e | ({"tasks": []} if e["feature"] in constant else {}) for e in found]
    lines = [line for e in found for line in (e["center"], *(t["values"] for t in e["tasks"]))]
    values = [value for line in lines for value in line]
    return [
        Figure(
            f"effect-{k}",
            effect["feature"],
            partial_effect(effect, (min(values), max(values)), kind=content["task"]),
            f"Predicted {effect['what']}. Thick: the centre. Thin: each {content['task']}.",
        )
        for k, effect in enumerate(found, 1)
    ]


def checks(content: dict[str, Any]) -> dict[str, Any]:
    """Draw predictions, intervals and probabilities against what was so, and sum them up."""
    points, found = content.get("calibration", []), content.get("reliability")
    figures = []
    if content.get("predicted"):
        rows = [{**row, "task": str(row["task"])} for row in content["predicted"]]
        caption = f"{capital(content['target'])}: actual against predicted, on held-out rows"
        chart = predicted_actual(rows, kind=content["task"])
        figures.append(Figure("predicted", caption, chart))
    if points:
        caption = "Coverage: share of held-out rows inside their intervals"
        figures.append(Figure("calibration", caption, calibration(points)))
    if found:
        figures.append(reliability_figure(found, "rows", content["target"]))
    shares = {
        percent(round(p["nominal"], 2)).replace(".0", ""): percent(p["observed"]) for p in points
    }
    return {
        "figures": figures,
        "kept": shares.pop("90\N{NO-BREAK SPACE}%", None),
        "others": shares,
        "off": found and f"{100 * found['off']:.1f}",
    }


def reliability_figure(found: dict[str, Any], kind: str, target: str) -> Figure:
    """Draw the probabilities of one value of the target, or of the predicted one."""
    event = f"the predicted {target}" if found["class"] is None else f"{target} = {found['class']}"
    caption = f"How often {event} was true, by its predicted probability"
    return Figure("reliability", caption, reliability(found["bins"], kind=kind))
