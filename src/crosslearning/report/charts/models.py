"""Dot charts with intervals: models tried, and differences between tasks."""

from __future__ import annotations

from typing import Any

import altair as alt

from crosslearning.report.charts.pieces import Records, Spec, chart, names, short, spec, tips
from crosslearning.report.charts.style import CROSS, GAIN, INK, METHODS, SOFT, VALUE

_COLOURS = {**METHODS, "levels": SOFT}


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
    drawn = base.transform_filter(~alt.datum.far)
    chosen = drawn.transform_filter(alt.datum.chosen)
    shape = alt.condition("datum.kind == 'levels'", alt.value("cross"), alt.value("circle"))
    layers = [
        chart([row for row in models if row["chosen"]])
        .mark_rule(color=INK, strokeDash=[3, 3])
        .encode(x="at:Q"),
        drawn.mark_rule(strokeWidth=3, opacity=0.45).encode(x="low:Q", x2="high:Q"),
        drawn.mark_point(filled=True, size=90, opacity=1).encode(shape=shape),
        chosen.mark_point(size=240, strokeWidth=2).encode(color=alt.value(INK)),
        drawn.mark_text(align="left", dx=10).encode(
            x="high:Q", text="text:N", color=alt.value(INK)
        ),
    ]
    if len(near) < len(models):
        far = base.transform_filter(alt.datum.far).encode(x=alt.value("width" if right else 0))
        side: dict[str, Any] = (
            {"align": "right", "dx": -10} if right else {"align": "left", "dx": 10}
        )
        layers += [
            far.mark_point(filled=True, size=90, opacity=1).encode(shape=shape),
            far.mark_text(**side).encode(text="text:N", color=alt.value(INK)),
        ]
    return spec(f"{name} of every model tried", *layers, height=34 * len(models))


def task_differences(values: Records, end: float, *, kind: str, unit: str) -> Spec:
    """Draw standard deviations with their intervals, and the noise within tasks as a diamond.

    `values` are rows with `what`, `sd`, `at`, `low`, `high`, `center`, `columns` and, of the noise,
    which is at most at the `end` of the axis, `text`.
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
    if any("text" in row for row in values):
        layers.append(noise.mark_point(shape="diamond", size=90, strokeWidth=2, color=SOFT))
        left = next(row["at"] for row in values if "text" in row) > 0.6 * end
        side: dict[str, Any] = (
            {"align": "right", "dx": -12} if left else {"align": "left", "dx": 12}
        )
        layers.append(noise.mark_text(**side).encode(text="text:N"))
    return spec(
        f"Standard deviation between {kind} models, of the level and of each effect",
        *layers,
        height=28 * len(values),
    )
