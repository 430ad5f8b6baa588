"""Charts of image domains and categories."""

from __future__ import annotations

import altair as alt

from crosslearning.report.charts.pieces import Records, Spec, chart, spec, tips
from crosslearning.report.charts.style import CROSS, INK, METHODS

_NAMES = {"pooled": "pooled", "cross-learned": "cross", "separate": "separate"}


def domain_bars(values: Records) -> Spec:
    """Draw test accuracies, rows with `domain`, `method`, `epsilon`, `accuracy` and `spread`."""
    methods = [name for name in _NAMES if any(row["method"] == name for row in values)]
    colours = alt.Scale(domain=methods, range=[METHODS[_NAMES[name]] for name in methods])
    base = chart(values).encode(
        y=alt.Y("domain:N", sort=None, title=None, axis=alt.Axis(labelFontSize=13)),
        yOffset=alt.YOffset("method:N", sort=methods),
        x=alt.X("accuracy:Q", axis=alt.Axis(title=None, orient="top", format="%", tickCount=5)),
    )
    bars = base.mark_bar(height=13, cornerRadiusEnd=2).encode(
        color=alt.Color("method:N", sort=methods, scale=colours, legend=None),
        tooltip=tips(
            domain="domain",
            method="method",
            epsilon="ε",
            accuracy=("test accuracy", ".1%"),
            spread="over seeds",
        ),
    )
    text = base.mark_text(align="left", dx=4, fontSize=11)
    return spec(
        "Test accuracy of each domain: pooled, cross-learned and separate networks",
        bars,
        text.encode(text=alt.Text("accuracy:Q", format=".1%")),
        height=len({row["domain"] for row in values}) * (17 * len(methods) + 12),
    )


def confusion(cells: Records, names: list[str]) -> Spec:
    """Draw a confusion matrix.

    `cells` are rows with `truth`, `predicted`, `count`, `total` and `share`.
    """
    across = alt.Axis(orient="top", labelAngle=-50, labelLimit=100, domain=False, ticks=False)
    base = chart(cells).encode(
        y=alt.Y("truth:N", sort=names, title="true category", axis=alt.Axis(labelLimit=120)),
        x=alt.X("predicted:N", sort=names, title="predicted category", axis=across),
        tooltip=tips(
            truth="is",
            predicted="predicted",
            count=("images", ","),
            total=("of", ","),
            share=("share", ".0%"),
        ),
    )
    right = alt.datum.truth == alt.datum.predicted
    # Opacity, not a colour scheme, as the page may be light or dark.
    shade = alt.Scale(domain=[0, 1], range=[0.04, 1])
    squares = base.mark_rect(stroke="var(--surface)").encode(
        color=alt.condition(right, alt.value(INK), alt.value(CROSS)),
        opacity=alt.Opacity("share:Q", scale=shade, legend=None),
    )
    side = 24 * len(names)
    about = "Confusion between the categories with the lowest accuracy"
    return spec(about, squares, height=side, width=side)


def improvement_bars(values: Records) -> Spec:
    """Draw improvements, two bars for each domain and baseline.

    `values` are rows with `what`, `at`, `percent` and `label`.
    """
    kinds = list(dict.fromkeys(row["at"] for row in values))
    percents = [row["percent"] for row in values]
    low, high = min(0.0, *percents), max(0.0, *percents)
    room = 0.35 * (high - low or 1.0)  # for the labels
    ends = [low - room * (low < 0), high + room * (high > 0 or low == 0)]
    base = chart(values).encode(
        y=alt.Y("what:N", sort=None, title=None, axis=alt.Axis(labelLimit=260)),
        yOffset=alt.YOffset("at:N", sort=kinds),
        x=alt.X("percent:Q", title="%", scale=alt.Scale(domain=ends, nice=False)),
    )
    colours = alt.Scale(domain=kinds, range=[CROSS, METHODS["pooled"]])
    bars = base.mark_bar(height=11).encode(
        color=alt.Color("at:N", scale=colours, legend=None),
        tooltip=tips(what=" ", at=" ", label=" "),
    )
    above, text = alt.datum.percent >= 0, base.encode(text="label:N")
    return spec(
        "Improvement in test accuracy by cross-learning over separate and pooled networks",
        bars,
        text.transform_filter(above).mark_text(align="left", dx=4, fontSize=11),
        text.transform_filter(~above).mark_text(align="right", dx=-4, fontSize=11),
        height=36 * len({row["what"] for row in values}),
    )
