"""Colours, number formats and configuration of all charts.

Colours are CSS variables, so that the page's style sheet decides on them, for light and dark.
"""

from __future__ import annotations

from typing import Any

import altair as alt

INK, SOFT = "var(--ink)", "var(--soft)"
METHODS = {name: f"var(--{name})" for name in ("pooled", "separate", "cross")}
CROSS = METHODS["cross"]
SERIES = [f"var(--series-{k})" for k in range(1, 7)]
# Tasks that gain and tasks that lose, distinguished without colour too.
GAINS = {
    "color": alt.condition("datum.gain > 0", alt.value(CROSS), alt.value(SOFT)),
    "shape": alt.condition("datum.gain > 0", alt.value("circle"), alt.value("triangle-down")),
}

# Numbers in tooltips: four significant digits, no exponents.
VALUE, GAIN = ",.4~r", "+,.4~r"
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
