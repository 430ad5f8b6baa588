"""Lines of tasks: parameters along a path of radii, and losses along the epochs of a run."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from crosslearning.evaluation.numbers import radius
from crosslearning.report.charts.pieces import Records, Spec, chart, short, spec, tips
from crosslearning.report.charts.radius import RadiusAxis
from crosslearning.report.charts.style import CROSS, INK, METHODS, VALUE

_HEIGHT = 260


def parameter_paths(
    epsilons: Sequence[float], tasks: Records, center: Sequence[float], *, name: str
) -> Spec:
    """Draw a parameter of every task against ε as a thin line, and of the centre as a thick one.

    `tasks` are rows with `label` and `values`, one for each radius.
    """
    axis = RadiusAxis.of(epsilons)
    places = [{"place": axis.place(epsilon), "epsilon": radius(epsilon)} for epsilon in epsilons]
    y = alt.Y("value:Q", scale=alt.Scale(zero=False), axis=short())
    layers = []
    for rows, color, width, opacity in [
        (tasks, CROSS, 1, 0.35),
        ([{"label": "centre", "values": center}], INK, 3, 1),
    ]:
        points = [
            {"label": row["label"], "value": value, **place}
            for row in rows
            for value, place in zip(row["values"], places, strict=True)
        ]
        line = chart(points).mark_line(color=color, strokeWidth=width, opacity=opacity)
        hover = tips(label="task", epsilon="ε", value=(name, VALUE))
        layers.append(line.encode(x=axis.encoding(), y=y, detail="label:N", tooltip=hover))
    return spec(f"{name} of every task against the radius ε", *layers, height=_HEIGHT)


def training(epochs: Records) -> Spec:
    """Draw the training loss, and the validation score on an axis of its own if there is one.

    `epochs` are rows with `epoch`, `loss` and `score`, None without validation.
    """
    hover = tips(epoch=("epoch", ","), loss=("loss", VALUE), score=("score", VALUE))
    epoch = alt.X("epoch:Q", scale=alt.Scale(nice=False), axis=short(title="epoch", grid=False))
    base = chart(epochs).encode(x=epoch, tooltip=hover)
    lines = {"loss": METHODS["separate"], "score": CROSS}
    drawn = [
        base.mark_line(color=color, strokeWidth=2, point={"color": color}).encode(
            y=alt.Y(f"{name}:Q", scale=alt.Scale(zero=False), axis=_axis(name, color))
        )
        for name, color in lines.items()
        if epochs[0][name] is not None
    ]
    layers = alt.layer(*drawn).resolve_scale(y="independent")
    return spec("Training loss and validation score by epoch", layers, height=180)


def _axis(name: str, color: str) -> alt.Axis:
    """Name an axis in the colour of its line."""
    title = {"loss": "training loss", "score": "validation score"}[name]
    return short(title=title, titleColor=color, grid=name == "loss")
