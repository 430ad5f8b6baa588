"""The models that were tried, and how much tasks differ: dots with intervals."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

import altair as alt

from crosslearning.evaluation.numbers import capital, number
from crosslearning.evaluation.records import to_json
from crosslearning.report.chapter import Figure
from crosslearning.report.drawing import Records, Spec, beside, chart, names, short, spec, tips
from crosslearning.report.style import CROSS, GAIN, INK, METHODS, SOFT, VALUE
from crosslearning.tables.findings import Difference, Findings, ModelScore

COLUMNS = 20  # whose differences are drawn
_LINE = 28  # letters of a name of a model
_FAR = 4  # times the median distance from the best; models beyond would compress the axis
_COLOURS = {**METHODS, "levels": SOFT}


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


def model_errors(models: Records, *, name: str, right: bool = True) -> Spec:
    """Draw the error of each model, with a bar of one standard error of the difference.

    `models` are rows with `label`, the same in `lines`, `kind`, `chosen`, `score`, `at`, `low`,
    `high`, `text`, `difference`, `difference_error` and perhaps `seconds`, in the order to show.
    Those that are `far` are drawn at the edge, on the `right` or the left.
    """
    seconds = {"seconds": ("seconds", ".2~f")} if "seconds" in models[0] else {}
    near = [row for row in models if not row["far"]]
    start, end = min(row["low"] for row in near), max(row["high"] for row in near)
    room = (end - start) or abs(end) or 1.0  # on the right for the text
    scale = alt.Scale(domain=[start - 0.06 * room, end + 0.5 * room], nice=False, zero=False)
    colours = alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values()))
    base = chart(models).encode(
        y=names("lines", labelExpr="split(datum.label, '\\n')", labelLimit=190, labelFontSize=12),
        x=alt.X("at:Q", scale=scale, axis=short(orient="top", grid=False)),
        color=alt.Color("kind:N", scale=colours, legend=None),
        tooltip=tips(
            label="model",
            score=(name, VALUE),
            difference=("worse than the chosen model by", GAIN),
            difference_error=("standard error", VALUE),
            **seconds,
        ),
    )
    drawn, ink = base.transform_filter(~alt.datum.far), alt.value(INK)
    chosen = chart([row for row in models if row["chosen"]]).encode(x="at:Q")
    shape = alt.condition("datum.kind == 'levels'", alt.value("cross"), alt.value("circle"))
    dot: Any = {"filled": True, "size": 90, "opacity": 1}
    ring = drawn.transform_filter(alt.datum.chosen).mark_point(size=240, strokeWidth=2)
    text = drawn.mark_text(align="left", dx=10)
    layers = [
        chosen.mark_rule(color=INK, strokeDash=[3, 3]),
        drawn.mark_rule(strokeWidth=3, opacity=0.45).encode(x="low:Q", x2="high:Q"),
        drawn.mark_point(**dot).encode(shape=shape),
        ring.encode(color=ink),
        text.encode(x="high:Q", text="text:N", color=ink),
    ]
    if len(near) < len(models):
        far = base.transform_filter(alt.datum.far).encode(x=alt.value("width" if right else 0))
        layers += [
            far.mark_point(**dot).encode(shape=shape),
            far.mark_text(**beside(left=right, gap=10)).encode(text="text:N", color=ink),
        ]
    return spec(f"{name} of every model tried", *layers, height=34 * len(models))


def differences(findings: Findings) -> Figure | None:
    """Draw the standard deviations between tasks, if there are any."""
    stored = findings.differences
    unit, noise = stored.unit, stored.noise
    within = f" ({findings.task})" if stored.outer else ""
    levels = [(f" ({group.name})", group.shown) for group in stored.outer]
    levels.append((within, stored.shown))
    rows = [_drawn(row, name) for name, shown in levels for row in shown[: COLUMNS + 1]]
    if not rows:
        return None
    end = 1.5 * max(row["high"] or row["sd"] for row in rows)
    if noise is not None:
        text = f"{number(noise, 3)} →" if noise > end else number(noise, 3)
        what = f"within a {findings.task}"
        rows.append({"sd": noise, "what": what, "at": min(noise, end), "text": text})
    caption = f"Standard deviation between tasks, in units of {unit}"
    return Figure("spread", caption, task_differences(rows, end, kind=findings.task, unit=unit))


def _drawn(row: Difference, of_level: str) -> dict[str, Any]:
    """Return a mark of the chart; `of_level` says which groups within groups differ."""
    what, columns = f"{row.what}{of_level}", ", ".join(row.columns)
    return {**to_json(row), "what": what, "at": row.sd, "columns": columns}


def task_differences(values: Records, end: float, *, kind: str, unit: str) -> Spec:
    """Draw standard deviations with their intervals, and the noise within tasks as a diamond.

    The noise, the row with a `text`, is at most at the `end` of the axis.
    """
    base = chart(values).encode(
        y=names("what", [row["what"] for row in values], labelLimit=190),
        x=alt.X("at:Q", axis=short(orient="top"), scale=alt.Scale(zero=True)),
        tooltip=tips(
            what=" ",
            sd=(f"standard deviation, in {unit}", VALUE),
            low=("at least", VALUE),
            high=("at most", VALUE),
            center=("effect at the centre", VALUE),
            columns="columns",
        ),
    )
    tasks, noise = (base.transform_filter(test) for test in ("!datum.text", "datum.text"))
    bar = tasks.mark_rule(color=CROSS, strokeWidth=4, opacity=0.4)
    layers = [
        bar.encode(x="low:Q", x2="high:Q"),
        tasks.mark_point(filled=True, size=90, opacity=1, color=CROSS),
    ]
    if "text" in values[-1]:
        side = beside(left=values[-1]["at"] > 0.6 * end, gap=12)
        layers.append(noise.mark_point(shape="diamond", size=90, strokeWidth=2, color=SOFT))
        layers.append(noise.mark_text(**side).encode(text="text:N"))
    about = f"Standard deviation between {kind} models, of the level and of each effect"
    return spec(about, *layers, height=28 * len(values))
