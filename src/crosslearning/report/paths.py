"""Lines against the radius, on a logarithmic axis with 0 and ∞ at its ends."""

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from crosslearning.evaluation.numbers import radius as written
from crosslearning.report import drawing as draw

_HEIGHT = 300
_NAME, _FORM = "test accuracy", ".1%"
_OTHERS = [*draw.SERIES[2:], draw.SOFT, draw.INK]  # colours and shapes of baselines
_SHAPES = ["square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left"]


class RadiusAxis:
    """Where radii stand: logarithms from `low` to `high`, and `room` beyond for 0 and ∞."""

    def __init__(self, radii: Sequence[float]) -> None:
        logarithms = [math.log10(radius) for radius in radii if 0 < radius < math.inf] or [0.0]
        self.low, self.high = min(logarithms), max(logarithms)
        self.room = max(0.12 * (self.high - self.low), 0.1)

    def place(self, radius: float) -> float:
        """Return where a radius stands."""
        if radius == 0:
            return self.low - self.room
        return self.high + self.room if radius == math.inf else math.log10(radius)

    def _ticks(self) -> list[float]:
        """Places of round numbers, as many as a phone has room for, with those of 0 and ∞."""
        decades = range(math.floor(self.low), math.ceil(self.high) + 1)
        for digits in ((1, 2, 5), (1, 3), (1,)):
            places = [decade + math.log10(digit) for decade in decades for digit in digits]
            inside = [p for p in places if self.low - 1e-9 <= p <= self.high + 1e-9]
            if len(inside) <= 6:
                break
        step = math.ceil(len(inside) / 6) or 1
        return [self.place(0), *inside[::step], self.place(math.inf)]

    def encoding(self) -> alt.X:
        """Return the horizontal axis of a chart with the field `place`."""
        labels = f"datum.value < {self.low - self.room / 2} ? ['0', 'pooled'] : "
        labels += f"datum.value > {self.high + self.room / 2} ? ['∞', 'separate'] : "
        axis = alt.Axis(
            title="radius ε",
            values=self._ticks(),
            labelExpr=labels + draw.SHORT.replace("datum.value", "pow(10, datum.value)"),
            labelOverlap=False,
            labelFlush=False,
            grid=False,
        )
        ends = [self.place(0) - self.room / 3, self.place(math.inf) + self.room / 3]
        return alt.X("place:Q", axis=axis, scale=alt.Scale(domain=ends, nice=False))


def _base(points: draw.Records) -> tuple[RadiusAxis, draw.Records, alt.Chart]:
    """Place points on a common axis."""
    radii = [float(point["epsilon"]) for point in points]
    axis, pairs = RadiusAxis(radii), zip(points, radii, strict=True)
    placed = [{**point, "place": axis.place(r), "label": written(r)} for point, r in pairs]
    return axis, placed, draw.chart(placed).encode(x=axis.encoding())


def _accuracy() -> alt.Y:
    axis = alt.Axis(format=".1~%")
    return alt.Y("score:Q", title=None, scale=alt.Scale(zero=False), axis=axis)


def accuracy_path(
    points: draw.Records, levels: dict[str, float], chosen: float | None, baselines: draw.Records
) -> draw.Spec:
    """Draw accuracy against ε, with a band, any choice, levels and baselines to compare with.

    `points` have `epsilon`, `score`, `low` and `high`, `baselines` have `name` and `score`.
    """
    axis, placed, base = _base(points)
    about, tooltip = f"{_NAME} against the radius ε", draw.tips(label="ε", score=(_NAME, _FORM))
    layers = _baselines(baselines)
    if points[0]["low"] is not None:
        tooltip += draw.tips(low=("low", _FORM), high=("high", _FORM))
        band = base.mark_area(color=draw.CROSS, opacity=0.14)
        layers.append(band.encode(y="low:Q", y2="high:Q"))
    layers.append(base.mark_line(color=draw.CROSS, strokeWidth=2.5).encode(y=_accuracy()))
    if chosen is not None:
        layers += _choice(placed, axis.place(chosen), axis)
        about += f", which was chosen as {written(chosen)}"
    dots = base.mark_circle(color=draw.CROSS, opacity=1, size=50)
    dots = dots.encode(y=_accuracy(), tooltip=tooltip)  # on top, for the pointer to meet them
    return draw.spec(about, *layers, *_levels(levels, placed), dots, height=_HEIGHT)


def _baselines(rows: draw.Records) -> list[Any]:
    """Draw a dotted line for each baseline, with a mark at its end that a legend explains."""
    if not rows:
        return []
    names = [row["name"] for row in rows]
    legend = alt.Legend(orient="bottom", direction="vertical", columns=1, labelLimit=320)
    base = draw.chart(rows).encode(
        y=_accuracy(),
        color=alt.Color("name:N", scale=alt.Scale(domain=names, range=_OTHERS), legend=legend),
        tooltip=draw.tips(name="baseline", score=(_NAME, _FORM)),
    )
    mark = base.mark_point(filled=True, size=80, opacity=1, clip=False)
    shape = alt.Shape("name:N", scale=alt.Scale(domain=names, range=_SHAPES), legend=legend)
    rule = base.mark_rule(strokeDash=[1, 3], strokeWidth=1.5)
    return [rule, mark.encode(x=alt.value("width"), shape=shape)]


def _levels(levels: dict[str, float], placed: draw.Records) -> list[alt.Chart]:
    """Name each level at the end where the curve does not begin at it."""
    charts = []
    for method, value in levels.items():
        left = method == "separate"
        place = {"level": value, "place": placed[0 if left else -1]["place"]}
        above = value == max(levels.values())
        charts += draw.level(method, f"{method} {value:.1%}", place, left=left, above=above)
    return charts


def _choice(placed: draw.Records, place: float, axis: RadiusAxis) -> list[alt.Chart]:
    """Mark the chosen radius by a line and a label above the chart."""
    left = place > (axis.low + axis.high) / 2
    nearest = min(placed, key=lambda point: abs(point["place"] - place))
    base = draw.chart([{**nearest, "place": place}]).encode(x="place:Q")
    ring = base.mark_point(shape="circle", size=130, color=draw.INK, strokeWidth=2)
    look: Any = {"baseline": "bottom", "dy": -3, "y": 0, "fontWeight": "bold"}
    text = f"chosen: ε = {nearest['label']}"
    return [
        base.mark_rule(color=draw.INK, strokeWidth=1),
        ring.encode(y="score:Q"),
        base.mark_text(text=text, **draw.beside(left=left, gap=-4), **look),
    ]


def accuracy_lines(points: draw.Records) -> draw.Spec:
    """Draw accuracy against ε, a line for each `series` of the points, and rings where `chosen`."""
    names = list(dict.fromkeys(point["series"] for point in points))
    base = _base(points)[2].encode(
        y=_accuracy(),
        color=alt.Color("series:N", sort=names, scale=alt.Scale(domain=names, range=draw.SERIES)),
        shape=alt.Shape("series:N", sort=names, scale=alt.Scale(domain=names)),
        tooltip=draw.tips(series=" ", label="ε", score=(_NAME, _FORM)),
    )
    dots = base.mark_point(filled=True, size=60, opacity=1)
    ring: Any = {"shape": "circle", "size": 220, "color": draw.INK, "strokeWidth": 1.5}
    rings = base.transform_filter(alt.datum.chosen).mark_point(**ring)
    about = f"{_NAME} against the radius ε, by domain"
    return draw.spec(about, base.mark_line(strokeWidth=2), dots, rings, height=_HEIGHT)


def parameter_paths(
    epsilons: Sequence[float], tasks: dict[str, Sequence[float]], center: Sequence[float], name: str
) -> draw.Spec:
    """Draw a parameter of every task against ε as a thin line, and of the centre as a thick one."""
    axis = RadiusAxis(epsilons)
    places = [{"place": axis.place(epsilon), "epsilon": written(epsilon)} for epsilon in epsilons]
    y = alt.Y("value:Q", scale=alt.Scale(zero=False), axis=draw.short())
    layers = []
    lines = (tasks, draw.CROSS, 1, 0.35), ({"centre": center}, draw.INK, 3, 1)
    for rows, color, width, opacity in lines:
        points = [
            {"label": label, "value": value, **place}
            for label, values in rows.items()
            for value, place in zip(values, places, strict=True)
        ]
        line = draw.chart(points).mark_line(color=color, strokeWidth=width, opacity=opacity)
        hover = draw.tips(label="task", epsilon="ε", value=(name, draw.VALUE))
        layers.append(line.encode(x=axis.encoding(), y=y, detail="label:N", tooltip=hover))
    return draw.spec(f"{name} of every task against the radius ε", *layers, height=260)
