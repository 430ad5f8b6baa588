"""What all charts share: colours by name, a configuration and how a chart becomes a specification.

Colours are CSS variables, so that the page's style sheet decides on them, for light and dark.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

import altair as alt

if TYPE_CHECKING:
    from collections.abc import Sequence


Records: TypeAlias = "Sequence[dict[str, Any]]"
Spec: TypeAlias = dict[str, Any]

INK, SOFT = "var(--ink)", "var(--soft)"
METHODS = {name: f"var(--{name})" for name in ("pooled", "separate", "cross")}
SERIES = [f"var(--series-{k})" for k in range(1, 7)]
# Tasks that gain and those that lose, also for those who do not see the colours.
GAINS = {
    "color": alt.condition("datum.gain > 0", alt.value(METHODS["cross"]), alt.value(SOFT)),
    "shape": alt.condition("datum.gain > 0", alt.value("circle"), alt.value("triangle-down")),
}

# How tooltips write numbers: four digits that count, none of them as an exponent.
VALUE, GAIN = ",.4~r", "+,.4~r"
# How axes do, where room is short: thousands as k, millions as M, billions as B.
SHORT = (
    "abs(datum.value) >= 1e4 ? replace(format(datum.value, '.4~s'), 'G', 'B') : "
    "datum.value != 0 && abs(datum.value) < 1e-4 ? format(datum.value, '.2~e') : "
    "format(datum.value, ',.4~r')"
)

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"

CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": _FONT,
    "padding": {"left": 2, "right": 6, "top": 2, "bottom": 2},
    "view": {"stroke": None},
    "axis": {
        "labelColor": SOFT,
        "titleColor": SOFT,
        "gridColor": "var(--line)",
        "domainColor": SOFT,
        "tickColor": SOFT,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
    },
    "axisY": {"domain": False, "ticks": False, "labelPadding": 6},
    "legend": {
        "orient": "top",
        "direction": "horizontal",
        "labelColor": INK,
        "titleColor": SOFT,
        "labelFontSize": 12,
        "title": None,
    },
    # With `paint-order: stroke` in the style sheet, this keeps lines off the letters.
    "text": {"fontSize": 12, "color": INK, "stroke": "var(--surface)", "strokeWidth": 3},
}


def rows(values: Records) -> alt.InlineData:
    """Give rows to a chart without a data frame between, and with no more digits than show."""
    # As text, which `spec` reads again: Altair would check every number of every row.
    return alt.InlineData(values=json.dumps(_short(list(values))))


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _short(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_short(each) for each in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def tips(*fields: tuple[str, ...]) -> list[alt.Tooltip]:
    """Say what the pointer shows: name and type of a field, its title, and its format if any."""
    return [
        alt.Tooltip(name, title=title, format=form[0] if form else alt.Undefined)
        for name, title, *form in fields
    ]


def short(**options: Any) -> alt.Axis:
    """Return an axis of numbers where room is short."""
    return alt.Axis(**{"title": None, "labelExpr": SHORT, "tickCount": 5, **options})


def level(
    method: str, text: str, place: dict[str, float], *, left: bool, above: bool
) -> list[alt.Chart]:
    """Draw a dashed line at a score to compare with, and its name on one side of one end.

    `place` has the score as ``level`` and the end by the field of the chart's horizontal axis.
    """
    (end,) = place.keys() - {"level"}
    base = alt.Chart(rows([place])).encode(y="level:Q")
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


def spec(chart: Any, description: str, *, height: int, width: int | str = "container") -> Spec:
    """Return the specification of a chart, without the theme Altair adds."""
    fit = "fit-x" if width == "container" else "pad"
    sized = chart.properties(width=width, height=height, description=description, autosize=fit)
    result: Spec = sized.to_dict()
    del result["config"]
    result["datasets"] = {k: json.loads(text) for k, text in result["datasets"].items()}
    return result
