"""The chapter on two Gaussian means, with Figure 1 of the paper."""

from typing import Any

import altair as alt

from crosslearning.evaluation.numbers import number
from crosslearning.report.drawing import CROSS, INK, SOFT, VALUE, Spec, chart, level, spec, tips
from crosslearning.report.page import Chapter, Number, Results
from crosslearning.report.plots import Figure


def gaussian(results: Results) -> Chapter:
    """Build the chapter on the error of two means against the allowed gap."""
    content = results.content
    caption = "Mean squared error of each mean (lower is better) by allowed gap"
    key = "Line: closed form. Points: simulated."
    lowest, at, pooled, separate = (
        number(content[name], 3) for name in ("minimum", "minimum_at", "consensus", "agnostic")
    )
    sentence = f"The true means are equal, so one pooled mean is best: its error is {lowest}."
    if content["minimum_at"] != 0:
        sentence = (
            f"If two estimates may differ by at most {at}, each has an error of {lowest}, below "
            f"separate means ({separate}) and one pooled mean ({pooled})."
        )
    gap, ends = f"the true means are {content['config']['gap']:g} apart", f"{separate} · {pooled}"
    return Chapter(
        kind="gaussian",
        title="The idea: two means that share",
        subtitle="Figure 1 of the paper: two groups, each with a mean to estimate",
        sentence=sentence,
        numbers=(
            Number("Best allowed gap", at, gap),
            Number("Error there", lowest, "mean squared error of each mean"),
            Number("Error at the extremes", ends, "separate means · one pooled mean"),
        ),
        content=content,
        details={"curve": Figure("gaussian", caption, _error_curve(content), key)},
    )


def _error_curve(content: dict[str, Any]) -> Spec:
    """Draw the closed form as a line, the simulation as points and the extremes as levels."""
    curve, low, separate = content["curve"], content["minimum"], content["agnostic"]
    high = min(max(content["consensus"], separate), 2 * separate)  # a larger one would flatten it
    room = high - low or high
    top = high + 0.12 * room
    axis = alt.Axis(title="allowed gap between the two means", tickCount=7, grid=False)
    x = alt.X("max_gap:Q", scale=alt.Scale(nice=False), axis=axis)
    y = alt.Scale(domain=[low - 0.22 * room, top], zero=False, nice=False)
    base = chart(curve).encode(x=x)
    shown = {"mse": ("closed form", VALUE), "monte_carlo": ("simulated", VALUE)}
    tooltip = tips(max_gap=("allowed gap", ".3~g"), **shown)
    line = base.mark_line(color=CROSS, strokeWidth=2.5, clip=True)
    dots = base.mark_point(color=INK, size=28, strokeWidth=1, opacity=0.8, clip=True)
    return spec(
        "Mean squared error of two cross-learned means against the allowed gap between them",
        *_levels(content, top),
        line.encode(y=alt.Y("mse:Q", title=None, scale=y)),
        dots.encode(y="monte_carlo:Q", tooltip=tooltip),
        *_truth(content["config"]["gap"], content["at_gap"], curve[-1]["max_gap"]),
        *_lowest(content["minimum_at"], content["minimum"], curve[-1]["max_gap"]),
        height=300,
    )


def _levels(content: dict[str, Any], top: float) -> list[alt.Chart]:
    """Draw the errors of separate and pooled means, labelled on the right."""
    errors = {"pooled": content["consensus"], "separate": content["agnostic"]}
    charts, close = [], abs(errors["pooled"] - errors["separate"]) < 0.1 * top
    lower = min(errors, key=errors.__getitem__)  # one of them, also in a tie
    for method, error in errors.items():
        if error <= top:
            name = "one pooled mean" if method == "pooled" else "separate means"
            place = {"level": error, "end": content["curve"][-1]["max_gap"]}
            above = not (close and method == lower)
            charts += level(method, f"{name} {number(error, 3)}", place, left=False, above=above)
    return charts


def _side(share: float) -> Any:
    """Align a text so that it stays inside the chart."""
    return "left" if share < 0.3 else "right" if share > 0.7 else "center"


def _truth(gap: float, error: float, end: float) -> list[alt.Chart]:
    """Mark the true gap from the curve up, with its name above the chart."""
    if gap > end:
        return []
    base = chart([{"gap": gap, "error": error}]).encode(x="gap:Q")
    look: Any = {"y": 0, "dy": -4, "align": _side(gap / end), "baseline": "bottom", "color": SOFT}
    rule = base.mark_rule(color=SOFT, strokeDash=[2, 3], y2=0).encode(y="error:Q")
    return [rule, base.mark_text(text=f"true gap {gap:g}", **look)]


def _lowest(place: float, error: float, end: float) -> list[alt.Chart]:
    base = chart([{"place": place, "error": error}]).encode(x="place:Q", y="error:Q")
    text = f"lowest: {number(error, 3)} at {number(place, 3)}"
    look: Any = {"baseline": "top", "align": _side(place / end), "dy": 12, "fontWeight": "bold"}
    return [base.mark_point(size=130, color=INK, strokeWidth=2), base.mark_text(text=text, **look)]
