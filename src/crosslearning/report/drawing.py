"""Building blocks of charts, and their style."""

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

import altair as alt

Records: TypeAlias = "Sequence[dict[str, Any]]"
Spec: TypeAlias = dict[str, Any]

# The page's style sheet decides on colours, for light and dark.
INK, SOFT = "var(--ink)", "var(--soft)"
METHODS = {name: f"var(--{name})" for name in ("pooled", "separate", "cross")}
CROSS = METHODS["cross"]
SERIES = [f"var(--series-{k})" for k in range(1, 7)]
# Tasks that gain and tasks that lose, distinguished without colour too.
GAINS = {
    "color": alt.condition("datum.gain > 0", alt.value(CROSS), alt.value(SOFT)),
    "shape": alt.condition("datum.gain > 0", alt.value("circle"), alt.value("triangle-down")),
}

VALUE, GAIN = ",.4~r", "+,.4~r"  # numbers in tooltips: four significant digits, no exponents
# Numbers on axes: ten thousands as k, millions as M, billions as B; no comma in years.
SHORT = (
    "abs(datum.value) >= 1e4 ? replace(format(datum.value, '.4~s'), 'G', 'B') : "
    "datum.value != 0 && abs(datum.value) < 1e-4 ? format(datum.value, '.2~e') : "
    "format(datum.value, '.4~r')"
)

_FONT = {"labelFontSize": 12, "titleColor": SOFT}
CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif",
    "padding": {"left": 2, "right": 6, "top": 2, "bottom": 2},
    "view": {"stroke": None},
    "axis": {
        **_FONT,
        **dict.fromkeys(("labelColor", "domainColor", "tickColor"), SOFT),
        "gridColor": "var(--line)",
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
    },
    "axisY": {"domain": False, "ticks": False, "labelPadding": 6},
    "legend": {
        **_FONT, "orient": "top", "direction": "horizontal", "labelColor": INK, "title": None,
    },
    # With `paint-order: stroke` in the style sheet, this keeps lines off the letters.
    "text": {"fontSize": 12, "color": INK, "stroke": "var(--surface)", "strokeWidth": 3},
}  # fmt: skip


def chart(values: Records) -> alt.Chart:
    """Pass rows to a chart, as text, which `spec` parses: Altair would validate every number."""
    return alt.Chart(alt.InlineData(values=json.dumps(list(values))))


def spec(description: str, *layers: Any, height: int) -> Spec:
    """Return the specification of a chart as wide as its place, without the theme Altair adds."""
    size = {"width": "container", "height": height, "autosize": "fit-x"}
    drawn = alt.layer(*layers) if len(layers) > 1 else layers[0]
    result: Spec = drawn.properties(**size, description=description).to_dict(validate=False)
    del result["config"]
    for name, text in result["datasets"].items():  # with no more digits than are shown
        rows = json.loads(text, parse_float=lambda number: float(f"{float(number):.7g}"))
        result["datasets"][name] = rows
    return result


def tips(**fields: str | tuple[str, str]) -> list[alt.Tooltip]:
    """Say what the pointer shows of fields: their titles, and the formats of numbers."""
    return [
        alt.Tooltip(f"{name}:N", title=about)
        if isinstance(about, str)
        else alt.Tooltip(f"{name}:Q", title=about[0], format=about[1])
        for name, about in fields.items()
    ]


def short(**options: Any) -> alt.Axis:
    """Return an axis of numbers where room is short."""
    return alt.Axis(**{"title": None, "labelExpr": SHORT, "tickCount": 5, **options})


def names(field: str, sort: list[str] | None = None, **options: Any) -> alt.Y:
    """Return an axis of names, down the side of a chart."""
    axis = {"labelLimit": 150, "labelFontSize": 13, **options}
    return alt.Y(f"{field}:N", sort=sort, title=None, axis=alt.Axis(**axis))


def beside(*, left: bool, gap: float) -> dict[str, Any]:
    """Place a text on the left or the right of a mark."""
    return {"align": "right", "dx": -gap} if left else {"align": "left", "dx": gap}


def level(
    method: str, text: str, place: dict[str, float], *, left: bool, above: bool
) -> list[alt.Chart]:
    """Draw a dashed line at a score to compare with, and its name on one side of one end.

    `place` has the score as ``level`` and the end by the field of the chart's horizontal axis.
    """
    (end,) = place.keys() - {"level"}
    base = chart([place]).encode(y="level:Q")
    name = base.mark_text(
        text=text,
        color=METHODS[method],
        align="left" if left else "right",
        baseline="bottom" if above else "top",
        dy=-4 if above else 4,
        fontWeight="bold",
    )
    rule = base.mark_rule(color=METHODS[method], strokeDash=[5, 4], strokeWidth=1.5)
    return [rule, name.encode(x=f"{end}:Q")]
