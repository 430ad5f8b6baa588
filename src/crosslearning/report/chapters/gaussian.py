"""The chapter on two Gaussian means."""

from __future__ import annotations

from typing import Any

from crosslearning.evaluation.numbers import number
from crosslearning.report.chapters.chapter import Chapter, Figure, Number
from crosslearning.report.charts.gaussian import error_curve
from crosslearning.report.reading import Results

_KEY = "Line: closed form. Points: simulated."


def gaussian(results: Results) -> Chapter:
    """Build the chapter on the error of two means against the allowed gap."""
    content = results.content
    config = content["config"]
    caption = "Mean squared error of each mean (lower is better) by allowed gap"
    lowest, at = number(content["minimum"], 3), number(content["minimum_at"], 3)
    return Chapter(
        kind="gaussian",
        title="The idea: two means that share",
        subtitle="Figure 1 of the paper: two groups, each with a mean to estimate",
        sentence=_sentence(content),
        numbers=(
            Number("Best allowed gap", at, f"the true means are {config['gap']:g} apart"),
            Number("Error there", lowest, "mean squared error of each mean"),
            Number(
                "Error at the extremes",
                f"{number(content['agnostic'], 3)} · {number(content['consensus'], 3)}",
                "separate means · one pooled mean",
            ),
        ),
        details={
            "curve": Figure("gaussian", caption, error_curve(content), _KEY),
            "claims": content["claims"],
            "config": config,
            "deviation": number(content["monte_carlo_deviation"], 2),
            "pooled_in_view": content["consensus"] <= 2 * content["agnostic"],
            "consensus": number(content["consensus"], 3),
        },
    )


def _sentence(content: dict[str, Any]) -> str:
    gap, lowest = content["minimum_at"], number(content["minimum"], 3)
    if gap == 0:
        return f"The true means are equal, so one pooled mean is best: its error is {lowest}."
    return (
        f"If two estimates may differ by at most {number(gap, 3)}, each has an error of "
        f"{lowest}, below separate means ({number(content['agnostic'], 3)}) and one pooled mean "
        f"({number(content['consensus'], 3)})."
    )
