"""How much tasks differ: standard deviations between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt

from crosslearning.report.charts.style import METHODS, SOFT, VALUE, rows, short, spec, tips

if TYPE_CHECKING:
    from crosslearning.report.charts.style import Records, Spec

__all__ = ["task_spread"]


def task_spread(values: Records, *, kind: str, unit: str) -> Spec:
    """Draw standard deviations with their intervals, and the noise within tasks as a diamond.

    `values` are rows with `what`, `sd`, `at`, `low`, `high`, `center` and, of the noise, `text`.
    """
    base = alt.Chart(rows(values)).encode(
        y=alt.Y("what:N", sort=None, title=None, axis=alt.Axis(labelLimit=150, labelFontSize=13)),
        x=alt.X("at:Q", axis=short(orient="top"), scale=alt.Scale(zero=True)),
        tooltip=tips(
            ("what:N", " "),
            ("sd:Q", f"standard deviation, in {unit}", VALUE),
            ("low:Q", "at least", VALUE),
            ("high:Q", "at most", VALUE),
            ("center:Q", "effect at the centre", VALUE),
        ),
    )
    tasks, noise = (base.transform_filter(test) for test in ("!datum.text", "datum.text"))
    bar = tasks.mark_rule(color=METHODS["cross"], strokeWidth=4, opacity=0.4)
    layers = [
        bar.encode(x="low:Q", x2="high:Q"),
        tasks.mark_point(filled=True, size=90, opacity=1, color=METHODS["cross"]),
    ]
    if any("text" in row for row in values):
        layers.append(noise.mark_point(shape="diamond", size=90, strokeWidth=2, color=SOFT))
        layers.append(noise.mark_text(align="right", dx=-12).encode(text="text:N"))
    return spec(
        alt.layer(*layers),
        f"Standard deviation between every {kind}, of the level and of each effect",
        height=28 * len(values),
    )
