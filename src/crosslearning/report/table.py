"""The chapter on a table: the models that were tried, their predictions, and how tasks differ."""

import shlex
from collections.abc import Iterator
from textwrap import wrap
from typing import Any

import altair as alt

from crosslearning.archive import to_json
from crosslearning.evaluation.comparison import Effect
from crosslearning.evaluation.numbers import capital, count, number
from crosslearning.report import drawing as draw
from crosslearning.report.page import Chapter, Number, Results
from crosslearning.report.plots import Figure
from crosslearning.report.tasks import coefficients, effects, task_figures
from crosslearning.tables.findings import Findings, ModelScore

_COLUMNS = 20  # whose differences are drawn
_LINE = 28  # letters of a name of a model
_FAR = 4  # times the median distance from the best; models beyond would compress the axis
_HEIGHT = 280
_UNIT = alt.Scale(domain=[0, 1], nice=False)


def table(results: Results) -> Chapter:
    """Build the chapter on which model to use, who gains, and how tasks differ."""
    findings: Findings = results.content
    size, chosen, folder, command = findings.size, findings.chosen_model, results.path.parent, None
    if (folder / "model.npz").is_file():
        command = f"crosslearning predict {shlex.quote(str(folder))} new.csv"
    remarks = [to_json(remark) for remark in findings.remarks]
    if findings.beyond_linear:
        remarks.insert(0, {"lead": "Beyond linear models", "text": findings.beyond_linear})
    return Chapter(
        kind="table",
        title=findings.title,
        subtitle=f"{count(size.rows, 'row')}, {count(size.tasks, 'task')}: a model of "
        f"{findings.target} for each {findings.task}",
        sentence=findings.sentence,
        numbers=(
            Number("Use this model", chosen.label, chosen.why, words=True, command=command),
            _error(findings),
            *_helped(findings),
        ),
        remarks=remarks,
        warnings=list(findings.warnings),
        notes=[f"{capital(note)}." for note in findings.notes],
        content=findings,
        details={
            "models": models(findings),
            "checks": list(checks(findings)),
            "differences": differences(findings),
            "coefficients": coefficients(findings),
            "effects": effects(findings),
            **task_figures(findings),
            "predict": command and f"{command} --out predicted.csv",
        },
    )


def _error(findings: Findings) -> Number:
    """Return the expected error and those of the alternatives, in units of the target."""
    best: dict[str, ModelScore] = {}  # of each kind
    for model in findings.models:
        best.setdefault("chosen" if model.chosen else model.kind, model)
    value = number(best.pop("chosen").error, 3)
    others = tuple((model.label, number(model.error, 3)) for model in best.values())
    if findings.target_kind == "classification":
        name = findings.score.name
        other = f"Models are compared by {name}, and may rank differently here"
        note = "" if name == "accuracy" else other
        return Number("Predictions that are correct", f"{value} %", note, others)
    note = capital(f"{findings.score.error}, in units of {findings.target}")
    if findings.holdout:
        note += f"; {findings.score.name} on the {count(findings.holdout.rows, 'row')} of the "
        note += f"held-out table: {number(findings.holdout.score)}"
    return Number("Typical error of a prediction", value, note, others)


def _helped(findings: Findings) -> Iterator[Number]:
    """Count the tasks that do better than with what the sentence compares with, if with any."""
    verdict = findings.verdict
    chosen, other = verdict.labels["cross"], verdict.labels[verdict.against]
    pooled = any(model.chosen and model.kind == "pooled" for model in findings.models)
    if verdict.effect is Effect.NOTHING or pooled or chosen == other:
        return
    note = f"do better with {chosen} than with {other}; {verdict.hurt:,} do worse"
    helped = f"{verdict.helped:,} of {verdict.n_tasks:,}"
    alone = any(model.chosen and model.kind == "separate" for model in findings.models)
    yield Number(f"Tasks helped by {'separate models' if alone else 'sharing'}", helped, note)


def models(findings: Findings) -> Figure:
    """Draw the errors of all models tried."""
    tried = [to_json(model) for model in findings.models if model.difference is not None]
    tried.sort(key=lambda row: row["difference"])
    name, right = findings.score.name, not findings.score.greater_is_better
    key = "Bars: one standard error of the difference from the chosen model."
    chart = model_errors(tried, name=name, right=right)
    return Figure("models", f"{capital(name)} of every model, on held-out rows", chart, key)


def _placed(row: dict[str, Any], far: bool, right: bool) -> dict[str, Any]:
    """Place a model and its bar on the axis; a far one, with an arrow, belongs at its end."""
    at, error, text = row["score"] or 0.0, row["difference_error"] or 0.0, number(row["score"])
    if far:
        text = f"{text} →" if right else f"← {text}"
    if row["chosen"]:
        text += " · chosen"
    if not row.get("kept", True):
        text += " · no bound"
    lines = "\n".join(wrap(row["label"], _LINE))
    ends = {"low": max(at - error, min(at, 0.0)), "high": at + error}
    return {**row, "lines": lines, "far": far, "at": at, **ends, "text": text}


def model_errors(tried: draw.Records, *, name: str, right: bool = True) -> draw.Spec:
    """Draw the error of each model, with a bar of one standard error of the difference.

    Rows have `label`, `kind`, `chosen`, `score`, `difference`, `difference_error` and perhaps
    `seconds` and `kept`. Those far behind are at the edge, on the `right` or the left.
    """
    behind = [row["difference"] for row in tried if row["difference"] > 0] or [0.0]
    limit = _FAR * behind[len(behind) // 2]
    models = [_placed(row, row["difference"] > limit, right) for row in tried]
    seconds = {"seconds": ("seconds", ".2~f")} if "seconds" in models[0] else {}
    near = [row for row in models if not row["far"]]
    start, end = min(row["low"] for row in near), max(row["high"] for row in near)
    room = (end - start) or abs(end) or 1.0  # on the right for the text
    scale = alt.Scale(domain=[start - 0.06 * room, end + 0.5 * room], nice=False, zero=False)
    colours = alt.Scale(domain=[*draw.METHODS, "levels"], range=[*draw.METHODS.values(), draw.SOFT])
    lines: Any = {"labelExpr": "split(datum.label, '\\n')", "labelLimit": 190, "labelFontSize": 12}
    base = draw.chart(models).encode(
        y=draw.names("lines", **lines),
        x=alt.X("at:Q", scale=scale, axis=draw.short(orient="top", grid=False)),
        color=alt.Color("kind:N", scale=colours, legend=None),
        tooltip=draw.tips(
            label="model",
            score=(name, draw.VALUE),
            difference=("worse than the chosen model by", draw.GAIN),
            difference_error=("standard error", draw.VALUE),
            **seconds,
        ),
    )
    drawn, ink = base.transform_filter(~alt.datum.far), alt.value(draw.INK)
    chosen = draw.chart([row for row in models if row["chosen"]]).encode(x="at:Q")
    shape = alt.condition("datum.kind == 'levels'", alt.value("cross"), alt.value("circle"))
    dot: Any = {"filled": True, "size": 90, "opacity": 1}
    ring = drawn.transform_filter(alt.datum.chosen).mark_point(size=240, strokeWidth=2)
    layers = [
        chosen.mark_rule(color=draw.INK, strokeDash=[3, 3]),
        drawn.mark_rule(strokeWidth=3, opacity=0.45).encode(x="low:Q", x2="high:Q"),
        drawn.mark_point(**dot).encode(shape=shape),
        ring.encode(color=ink),
        drawn.mark_text(align="left", dx=10).encode(x="high:Q", text="text:N", color=ink),
    ]
    if len(near) < len(models):
        far = base.transform_filter(alt.datum.far).encode(x=alt.value("width" if right else 0))
        layers += [
            far.mark_point(**dot).encode(shape=shape),
            far.mark_text(**draw.beside(left=right, gap=10)).encode(text="text:N", color=ink),
        ]
    return draw.spec(f"{name} of every model tried", *layers, height=34 * len(models))


def differences(findings: Findings) -> Figure | None:
    """Draw the standard deviations between tasks with their intervals, if there are any."""
    stored, unit = findings.differences, findings.differences.unit
    nested = len(stored.levels) > 1
    rows = [
        {
            **to_json(row),
            "what": f"{row.what} ({level.name})" if nested else row.what,
            "columns": ", ".join(row.columns),
        }
        for level in stored.levels
        for row in level.shown[: _COLUMNS + 1]
    ]
    if not rows:
        return None
    base = draw.chart(rows).encode(
        y=draw.names("what", [row["what"] for row in rows], labelLimit=190),
        x=alt.X("sd:Q", axis=draw.short(orient="top"), scale=alt.Scale(zero=True)),
        tooltip=draw.tips(
            what=" ",
            sd=(f"standard deviation, in {unit}", draw.VALUE),
            low=("at least", draw.VALUE),
            high=("at most", draw.VALUE),
            center=("effect at the centre", draw.VALUE),
            columns="columns",
        ),
    )
    bar = base.mark_rule(color=draw.CROSS, strokeWidth=4, opacity=0.4)
    dots = base.mark_point(filled=True, size=90, opacity=1, color=draw.CROSS)
    about = f"Standard deviation between {findings.task} models, of the level and of each effect"
    caption = f"Standard deviation between tasks, in units of {unit}"
    layers = bar.encode(x="low:Q", x2="high:Q"), dots
    return Figure("differences", caption, draw.spec(about, *layers, height=28 * len(rows)))


def checks(findings: Findings) -> Iterator[Figure]:
    """Draw predictions, intervals and probabilities against what was so."""
    if findings.predicted:
        yield _predicted(findings)
    if reliable := findings.reliability:
        bins = to_json(reliable.bins)
        yield reliability(bins, findings.target, reliable.class_, kind="rows")


def _predicted(findings: Findings) -> Figure:
    rows = [{**to_json(row), "task": str(row.task)} for row in findings.predicted]
    values = [row[name] for row in rows for name in ("actual", "predicted")]
    low, high = min(values), max(values)
    scale = alt.Scale(domain=[low, high], nice=True, zero=False)
    hover = {name: (name, draw.VALUE) for name in ("actual", "predicted")}
    base = draw.chart(rows).encode(
        x=alt.X("predicted:Q", scale=scale, axis=draw.short(title="predicted", grid=False)),
        y=alt.Y("actual:Q", scale=scale, axis=draw.short(title="actual")),
        tooltip=draw.tips(task=findings.task, **hover),
    )
    dots = base.mark_point(filled=True, size=22, opacity=0.35, color=draw.CROSS)
    about = "Actual against predicted values of held-out rows"
    drawn = draw.spec(about, dots, _diagonal(low, high, scale), height=_HEIGHT)
    caption = f"Actual against predicted {findings.target}, on held-out rows"
    return Figure("predicted", caption, drawn)


def _diagonal(low: float, high: float, scale: alt.Scale) -> Any:
    ends = draw.chart([{"x": low, "y": low}, {"x": high, "y": high}])
    line = ends.mark_line(color=draw.SOFT, strokeDash=[5, 4], strokeWidth=1.5)
    return line.encode(x=alt.X("x:Q", scale=scale), y=alt.Y("y:Q", scale=scale))


def reliability(bins: draw.Records, target: str, label: Any, *, kind: str) -> Figure:
    """Draw how often a value of the target, or the predicted one, was true, by probability."""
    event = f"the predicted {target}" if label is None else f"{target} = {label}"
    shares = {name: (name, ".1%") for name in ("predicted", "observed")}
    shares |= {"low": ("at least", ".1%"), "high": ("at most", ".1%")}
    axis: dict[str, Any] = {"format": "%", "values": [0, 0.25, 0.5, 0.75, 1]}
    base = draw.chart(bins).encode(
        x=alt.X("predicted:Q", scale=_UNIT, axis=alt.Axis(title="predicted", grid=False, **axis)),
        y=alt.Y("observed:Q", scale=_UNIT, axis=alt.Axis(title="observed", **axis)),
        tooltip=draw.tips(**shares, count=(kind, ",")),
    )
    size = alt.Size("count:Q", scale=alt.Scale(range=[30, 200]), legend=None)
    drawn = draw.spec(
        f"Observed against predicted probabilities of held-out {kind}",
        _diagonal(0, 1, _UNIT),
        base.mark_line(color=draw.CROSS, strokeWidth=2),
        base.mark_rule(color=draw.CROSS, strokeWidth=3, opacity=0.4).encode(y="low:Q", y2="high:Q"),
        base.mark_point(filled=True, opacity=1, color=draw.CROSS).encode(size=size),
        height=_HEIGHT,
    )
    caption = f"How often {event} was true, by its predicted probability"
    return Figure("reliability", caption, drawn)
