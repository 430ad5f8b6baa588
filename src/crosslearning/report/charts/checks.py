"""Charts that check predictions on held-out rows."""

from __future__ import annotations

from typing import Any

import altair as alt

from crosslearning.report.charts.pieces import Records, Spec, chart, short, spec, tips
from crosslearning.report.charts.style import CROSS, SOFT, VALUE

_HEIGHT = 280
_UNIT = alt.Scale(domain=[0, 1], nice=False)


def _diagonal(low: float, high: float, scale: alt.Scale) -> Any:
    ends = chart([{"x": low, "y": low}, {"x": high, "y": high}])
    line = ends.mark_line(color=SOFT, strokeDash=[5, 4], strokeWidth=1.5)
    return line.encode(x=alt.X("x:Q", scale=scale), y=alt.Y("y:Q", scale=scale))


def _shares(points: Records, field: str) -> alt.Chart:
    """Place `observed` shares against those of another field."""
    axis: dict[str, Any] = {"format": "%", "values": [0, 0.25, 0.5, 0.75, 1]}
    return chart(points).encode(
        x=alt.X(f"{field}:Q", scale=_UNIT, axis=alt.Axis(title=field, grid=False, **axis)),
        y=alt.Y("observed:Q", scale=_UNIT, axis=alt.Axis(title="observed", **axis)),
    )


def calibration(points: Records) -> Spec:
    """Draw the observed against the nominal coverage of intervals."""
    hover = tips(nominal=("nominal", ".0%"), observed=("observed", ".1%"))
    base = _shares(points, "nominal").encode(tooltip=hover)
    return spec(
        "Observed against nominal coverage of the intervals on held-out rows",
        _diagonal(0, 1, _UNIT),
        base.mark_line(color=CROSS, strokeWidth=2),
        base.mark_point(filled=True, size=90, opacity=1, color=CROSS),
        height=_HEIGHT,
    )


def reliability(bins: Records, *, kind: str) -> Spec:
    """Draw observed frequencies against predicted probabilities, `count` rows or images each."""
    hover = tips(
        predicted=("predicted", ".1%"),
        observed=("observed", ".1%"),
        low=("at least", ".1%"),
        high=("at most", ".1%"),
        count=(kind, ","),
    )
    base = _shares(bins, "predicted").encode(tooltip=hover)
    size = alt.Size("count:Q", scale=alt.Scale(range=[30, 200]), legend=None)
    return spec(
        f"Observed against predicted probabilities of held-out {kind}",
        _diagonal(0, 1, _UNIT),
        base.mark_line(color=CROSS, strokeWidth=2),
        base.mark_rule(color=CROSS, strokeWidth=3, opacity=0.4).encode(y="low:Q", y2="high:Q"),
        base.mark_point(filled=True, opacity=1, color=CROSS).encode(size=size),
        height=_HEIGHT,
    )


def predicted_actual(points: Records, *, kind: str) -> Spec:
    """Draw held-out rows with `actual`, `predicted` and `task`."""
    values = [row[name] for row in points for name in ("actual", "predicted")]
    low, high = min(values), max(values)
    scale = alt.Scale(domain=[low, high], nice=True, zero=False)
    base = chart(points).encode(
        x=alt.X("predicted:Q", scale=scale, axis=short(title="predicted", grid=False)),
        y=alt.Y("actual:Q", scale=scale, axis=short(title="actual")),
        tooltip=tips(task=kind, actual=("actual", VALUE), predicted=("predicted", VALUE)),
    )
    dots = base.mark_point(filled=True, size=22, opacity=0.35, color=CROSS)
    about = "Actual against predicted values of held-out rows"
    return spec(about, dots, _diagonal(low, high, scale), height=_HEIGHT)
