"""Charts of tasks: their scores, gains against size, and the distribution of gains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt

from crosslearning.evaluation.numbers import joined
from crosslearning.report.charts.pieces import Records, Spec, chart, short, spec, tips
from crosslearning.report.charts.style import CROSS, GAIN, GAINS, METHODS, SOFT, VALUE

_SHAPES = {"pooled": "diamond", "separate": "circle", "cross": "circle"}


def dumbbells(
    tasks: Records,
    domain: tuple[float, float],
    labels: Mapping[str, str],
    *,
    name: str,
    kind: str,
    against: str,
) -> Spec:
    """Draw the scores of models of tasks, in their order; `labels` name the models.

    `tasks` are rows with `label`, `rows`, the score of each model, and `gain`, the gain of `cross`
    over the model `against`.
    """
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
        filled, colour = method == "cross", METHODS[method]
        mark = base.mark_point(
            shape=_SHAPES[method], filled=filled, size=75, color=colour, opacity=1, strokeWidth=1.8
        )
        return mark.encode(x=at(method))

    rule = base.mark_rule(color=CROSS, strokeWidth=3, opacity=0.45)
    return spec(
        f"{name} of {joined(list(labels.values()))}, by {kind}",
        rule.encode(x=at(against), x2="cross:Q"),
        *(point(method) for method in _SHAPES if method in labels),
        height=19 * len(tasks),
    )


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
    return spec(
        f"Gain against the rows of each {kind}",
        zero,
        points.mark_point(filled=True, size=45, opacity=0.75),
        height=280,
    )


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
