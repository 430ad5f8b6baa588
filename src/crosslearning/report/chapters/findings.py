"""Models tried, differences between tasks, effects of columns, checks of predictions."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from crosslearning.evaluation.numbers import capital, number, percent
from crosslearning.report.chapters.chapter import Figure
from crosslearning.report.charts.checks import calibration, predicted_actual, reliability
from crosslearning.report.charts.effects import partial_effect
from crosslearning.report.charts.models import model_errors, task_spread

_FEATURES = 20
_LINE = 28  # letters of a name of a model
_FAR = 4  # times the median distance from the best; models beyond would compress the axis


def judged_elsewhere(content: dict[str, Any]) -> bool:
    """Whether scores are those on another table; if it was read in chunks, they are not."""
    return "folds" in content["models"][0]


def models(content: dict[str, Any]) -> Figure:
    """Draw the errors of all models tried, outliers at the end of the axis."""
    tried = [model for model in content["models"] if model["score"] is not None]
    tried.sort(key=lambda model: model["difference"])
    behind = [model["difference"] for model in tried if model["difference"] > 0] or [0.0]
    limit = _FAR * behind[len(behind) // 2]
    name, right = content["score"]["name"], not content["score"]["greater_is_better"]
    rows = [_placed(model, model["difference"] > limit, right) for model in tried]
    where = "on the held-out table" if judged_elsewhere(content) else "nested"
    key = "Bars: one standard error of the difference from the chosen model."
    chart = model_errors(rows, name=name, right=right)
    return Figure("models", f"{capital(name)} of every model, {where}", chart, key)


def _placed(model: dict[str, Any], far: bool, right: bool) -> dict[str, Any]:
    """Place a model and its bar on the axis; a far one, with an arrow, belongs at its end."""
    at, error, score = model["score"], model["difference_error"], number(model["score"])
    arrow = (f"{score} →" if right else f"← {score}") if far else score
    return {
        **model,
        "lines": "\n".join(wrap(model["label"], _LINE)),
        "far": far,
        "at": at,
        "low": max(at - error, min(at, 0.0)),
        "high": at + error,
        "text": arrow + " · chosen" * model["chosen"],
    }


def spread(content: dict[str, Any]) -> dict[str, Any] | None:
    """Draw the standard deviations between tasks, and explain those of the level and ε."""
    found = content["spread"]
    if found is None:
        return None
    unit, level, noise = found["unit"], found["level"], found["noise"]["sd"]
    rows = [
        {**row, "at": row["sd"], "columns": ", ".join(row["columns"])}
        for row in found["shown"][: _FEATURES + 1]
    ]
    end = 1.5 * max((row["high"] or row["sd"] for row in rows), default=0.0)
    differ, hidden = bool(rows), len(found["shown"]) - len(rows)
    if noise is not None:
        text = number(noise, 3) + " →" * (noise > end)
        what = f"within a {content['task']}"
        rows.append({"sd": noise, "what": what, "at": min(noise, end), "text": text})
    caption = f"Standard deviation between tasks, in units of {unit}"
    chart = task_spread(rows, end, kind=content["task"], unit=unit) if differ else None
    about = f" ({number(level['low'], 3)} to {number(level['high'], 3)})"
    return {
        "chart": chart and Figure("spread", caption, chart),
        "of": "" if unit == content["target"] else f", in {unit},",
        "level": level["sd"] > 0 and number(level["sd"], 3),
        "range": about if level["low"] is not None else "",
        "factor": found["factor"] and number(found["factor"], 2),
        "noise": noise and number(noise, 3),
        "unit": found["features"][0]["unit"] if found["features"] else None,
        "epsilon": found["epsilon"] and number(found["epsilon"], 3),
        "hidden": hidden,
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
        caption = f"Actual against predicted {content['target']}, on held-out rows"
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
