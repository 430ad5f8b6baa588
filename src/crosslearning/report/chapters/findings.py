"""Models tried, differences between tasks, effects of columns, checks of predictions."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from crosslearning.convex.residuals import Coverage
from crosslearning.evaluation.numbers import capital, in_brackets, interval, number, percent
from crosslearning.evaluation.records import to_json
from crosslearning.report.chapters.chapter import Figure
from crosslearning.report.charts.checks import calibration, predicted_actual, reliability
from crosslearning.report.charts.effects import partial_effect
from crosslearning.report.charts.models import model_errors, task_differences
from crosslearning.report.charts.pieces import Records
from crosslearning.tables.findings import (
    Difference,
    Findings,
    ModelScore,
)

_FEATURES = 20
_LINE = 28  # letters of a name of a model
_FAR = 4  # times the median distance from the best; models beyond would compress the axis
_COVERAGE = 0.9  # of the intervals that are spoken of first


def models(findings: Findings) -> Figure:
    """Draw the errors of all models tried, outliers at the end of the axis."""
    tried = [(m.difference, m) for m in findings.models if m.difference is not None]
    tried.sort(key=lambda pair: pair[0])
    behind = [difference for difference, _ in tried if difference > 0] or [0.0]
    limit = _FAR * behind[len(behind) // 2]
    name, right = findings.score.name, not findings.score.greater_is_better
    rows = [_placed(model, difference > limit, right) for difference, model in tried]
    where = "on the held-out table" if findings.scored_on_holdout else "on held-out rows"
    key = "Bars: one standard error of the difference from the chosen model."
    chart = model_errors(rows, name=name, right=right)
    return Figure("models", f"{capital(name)} of every model, {where}", chart, key)


def _placed(model: ModelScore, far: bool, right: bool) -> dict[str, Any]:
    """Place a model and its bar on the axis; a far one, with an arrow, belongs at its end."""
    at, error, text = model.score or 0.0, model.difference_error or 0.0, number(model.score)
    if far:
        text = f"{text} →" if right else f"← {text}"
    return {
        **to_json(model),
        "lines": "\n".join(wrap(model.label, _LINE)),
        "far": far,
        "at": at,
        "low": max(at - error, min(at, 0.0)),
        "high": at + error,
        "text": f"{text} · chosen" if model.chosen else text,
    }


def differences(findings: Findings) -> dict[str, Any]:
    """Draw the standard deviations between tasks, and explain those of the level and ε."""
    stored = findings.differences
    unit, level, noise = stored.unit, stored.level, stored.noise
    within = f" ({findings.task})" if stored.outer else ""
    rows = [
        _drawn(row, f" ({group.name})")
        for group in stored.outer
        for row in group.shown[: _FEATURES + 1]
    ]
    rows += [_drawn(row, within) for row in stored.shown[: _FEATURES + 1]]
    end = 1.5 * max((row["high"] or row["sd"] for row in rows), default=0.0)
    differ, hidden = bool(rows), max(len(stored.shown) - _FEATURES - 1, 0)
    if noise is not None:
        text = f"{number(noise, 3)} →" if noise > end else number(noise, 3)
        what = f"within a {findings.task}"
        rows.append({"sd": noise, "what": what, "at": min(noise, end), "text": text})
    caption = f"Standard deviation between tasks, in units of {unit}"
    chart = task_differences(rows, end, kind=findings.task, unit=unit) if differ else None
    return {
        "chart": chart and Figure("spread", caption, chart),
        "of": "" if unit == findings.target else f", in {unit},",
        "level": level.sd > 0 and number(level.sd, 3),
        "range": in_brackets(level.low, level.high),
        "groups": [
            {
                "name": group.name,
                "count": f"{group.groups:,}",
                "level": group.level.sd > 0 and number(group.level.sd, 3),
                "range": in_brackets(group.level.low, group.level.high),
            }
            for group in stored.outer
        ],
        "factor": stored.factor and number(stored.factor, 2),
        "noise": noise and number(noise, 3),
        "columns": bool(stored.features),
        "epsilon": stored.epsilon and number(stored.epsilon, 3),
        "hidden": hidden,
    }


def _drawn(row: Difference, of_level: str) -> dict[str, Any]:
    """Return a mark of the chart; `of_level` says which groups within groups differ."""
    what, columns = f"{row.what}{of_level}", ", ".join(row.columns)
    return {**to_json(row), "what": what, "at": row.sd, "columns": columns}


def center(findings: Findings) -> dict[str, Any] | None:
    """List the coefficients of the centre with their standard errors and intervals."""
    if findings.center is None:
        return None
    rows = [
        {
            "name": row.feature if row.class_ is None else f"{row.feature}, class {row.class_}",
            "estimate": row.estimate,
            "std_error": row.std_error,
            "interval": interval(row.low, row.high),
            "between": [
                {"sd": part.sd, "interval": interval(part.low, part.high)} for part in row.between
            ],
        }
        for row in findings.center.coefficients
    ]
    return {"levels": findings.center.levels, "rows": rows}


def effects(findings: Findings) -> list[Figure]:
    """Draw partial effects on a common vertical axis."""
    drawn = findings.effects
    values = [
        value for effect in drawn for line in (effect.center, *effect.lines) for value in line
    ]
    return [
        Figure(
            f"effect-{k}",
            effect.feature,
            partial_effect(effect, (min(values), max(values)), kind=findings.task),
            f"Predicted {effect.what}. Thick: the centre. Thin: each {findings.task}.",
        )
        for k, effect in enumerate(drawn, 1)
    ]


def checks(findings: Findings) -> dict[str, Any]:
    """Draw predictions, intervals and probabilities against what was so, and sum them up."""
    coverage, reliable = findings.calibration, findings.reliability
    figures = []
    if findings.predicted:
        rows = [{**to_json(row), "task": str(row.task)} for row in findings.predicted]
        caption = f"Actual against predicted {findings.target}, on held-out rows"
        chart = predicted_actual(rows, kind=findings.task)
        figures.append(Figure("predicted", caption, chart))
    if coverage:
        caption = "Coverage: share of held-out rows inside their intervals"
        figures.append(Figure("calibration", caption, calibration(to_json(coverage))))
    if reliable:
        bins = to_json(reliable.bins)
        figures.append(reliability_figure(findings.target, reliable.class_, bins, "rows"))
    first = next((point for point in coverage if point.nominal == _COVERAGE), None)
    return {
        "figures": figures,
        "kept": first and percent(first.observed),
        "others": {_level(p): percent(p.observed) for p in coverage if p is not first},
        "off": reliable and f"{100 * reliable.off:.1f}",
    }


def _level(point: Coverage) -> str:
    return f"{100 * point.nominal:.0f}\N{NO-BREAK SPACE}%"


def reliability_figure(target: str, label: Any, bins: Records, kind: str) -> Figure:
    """Draw the probabilities of one value of the target, or of the predicted one."""
    event = f"the predicted {target}" if label is None else f"{target} = {label}"
    caption = f"How often {event} was true, by its predicted probability"
    return Figure("reliability", caption, reliability(bins, kind=kind))
