"""Tasks one by one: three scores of each, gains against size, and what holds them back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from crosslearning.report.charts.style import GAIN, METHODS, SHORT, SOFT, VALUE, rows, spec

if TYPE_CHECKING:
    from crosslearning.report.charts.style import Records, Spec

__all__ = ["dumbbells", "forces", "gains"]

_STEP = 19


def dumbbells(tasks: Records, domain: tuple[float, float], *, name: str, kind: str) -> Spec:
    """Draw the scores of separate, cross-learned and pooled models of tasks, in their order.

    Parameters
    ----------
    tasks : rows with `label`, `rows`, `separate`, `cross`, `pooled` and `gain`
    domain : ends of the axis, the same for all charts that are compared
    name, kind : what the score and what a task is
    """
    label = alt.Y(
        "label:N", sort=None, title=None, axis=alt.Axis(labelLimit=150, grid=True, gridDash=[1, 3])
    )
    scale = alt.Scale(domain=list(domain), zero=False, nice=False)
    base = alt.Chart(rows(tasks)).encode(
        y=label,
        tooltip=[
            alt.Tooltip("label:N", title=kind),
            alt.Tooltip("rows:Q", format=","),
            alt.Tooltip("separate:Q", format=VALUE),
            alt.Tooltip("cross:Q", title="cross-learned", format=VALUE),
            alt.Tooltip("pooled:Q", format=VALUE),
            alt.Tooltip("gain:Q", title="gain over separate", format=GAIN),
        ],
    )

    def at(method: str) -> alt.X:
        return alt.X(
            f"{method}:Q",
            scale=scale,
            axis=alt.Axis(title=None, orient="top", tickCount=5, labelExpr=SHORT),
        )

    def point(method: str, shape: str, *, filled: bool) -> Any:
        mark = base.mark_point(
            shape=shape, filled=filled, size=75, color=METHODS[method], opacity=1, strokeWidth=1.8
        )
        return mark.encode(x=at(method))

    layers = [
        base.mark_rule(color=METHODS["cross"], strokeWidth=3, opacity=0.45).encode(
            x=at("separate"), x2="cross:Q"
        ),
        point("pooled", "diamond", filled=False),
        point("separate", "circle", filled=False),
        point("cross", "circle", filled=True),
    ]
    return spec(
        alt.layer(*layers),
        f"{name} of separate, cross-learned and pooled models, by {kind}",
        height=_STEP * len(tasks),
    )


def gains(tasks: Records, *, kind: str) -> Spec:
    """Draw the gain of every task over its separate model, against its number of rows."""
    sizes = [task["rows"] for task in tasks]
    wide = max(sizes) > 20 * max(min(sizes), 1)
    base = alt.Chart(rows(tasks))
    points = base.mark_point(filled=True, size=45, opacity=0.75).encode(
        x=alt.X(
            "rows:Q",
            title=f"rows of the {kind}",
            scale=alt.Scale(type="log") if wide else alt.Scale(zero=False),
            axis=alt.Axis(grid=False, tickCount=6, format="~s"),
        ),
        y=alt.Y("gain:Q", title=None, axis=alt.Axis(labelExpr=SHORT)),
        color=alt.condition("datum.gain > 0", alt.value(METHODS["cross"]), alt.value(SOFT)),
        shape=alt.condition("datum.gain > 0", alt.value("circle"), alt.value("triangle-down")),
        tooltip=[
            alt.Tooltip("label:N", title=kind),
            alt.Tooltip("rows:Q", format=","),
            alt.Tooltip("gain:Q", format=GAIN),
        ],
    )
    zero = alt.Chart(rows([{"gain": 0}])).mark_rule(color=SOFT).encode(y="gain:Q")
    return spec(
        zero + points,
        f"Gain over separate models against the rows of each {kind}",
        height=280,
    )


def forces(tasks: Records, *, kind: str) -> Spec:
    """Draw how hard the bound holds tasks back.

    Parameters
    ----------
    tasks : rows with `label`, `rows`, `force` and `distance`, in the order to show
    kind : what a task is
    """
    base = alt.Chart(rows(tasks)).encode(
        y=alt.Y("label:N", sort=None, title=None, axis=alt.Axis(labelLimit=150)),
        x=alt.X("force:Q", axis=alt.Axis(title=None, orient="top", tickCount=4, labelExpr=SHORT)),
        tooltip=[
            alt.Tooltip("label:N", title=kind),
            alt.Tooltip("rows:Q", format=","),
            alt.Tooltip("force:Q", format=VALUE),
            alt.Tooltip("distance:Q", title="distance from the centre", format=VALUE),
        ],
    )
    return spec(
        base.mark_bar(color=METHODS["separate"], height=11, cornerRadiusEnd=2),
        f"Force of the bound on each {kind}",
        height=_STEP * len(tasks),
    )
