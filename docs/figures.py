"""Pictures of the guide, drawn from library code: ``python docs/figures.py``, or ``make docs``.

They are committed, so that the pages show them in a repository browser, too.
"""

from __future__ import annotations

import math
import shutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from PIL import Image

from crosslearning import (
    CrossRidgeCV,
    Tether,
    cross_ridge_path,
    project,
    report,
    smallest_enclosing_ball,
)
from crosslearning.datasets import load_hsb82, load_pictures32
from crosslearning.images.folder import draw_contact_sheet
from crosslearning.paper.gaussian import experiment as gaussian

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POOLED, SEPARATE, CROSS = "#6b6f76", "#0067a8", "#c84c00"  # as in the report
CENTER, GREY = "0.1", "0.45"
DOCS = Path(__file__).parent
FIGURES = DOCS / "_static" / "figures"
BENCHMARKS = DOCS.parent / "benchmarks" / "results"
STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10,
    "savefig.transparent": True,
    "svg.fonttype": "none",  # letters stay letters
    "svg.hashsalt": "crosslearning",  # the same picture is the same file
}


TASKS = np.array([[0.0, 2.1], [1.9, 1.2], [2.3, -0.9], [0.5, -0.4], [-1.2, -1.8], [-2.2, 0.6]])


@cache
def _chosen() -> CrossRidgeCV:
    """Fit the schools with a cross-validated radius."""
    pupils = load_hsb82()
    model = CrossRidgeCV(alphas=[1.0], smallest=1e-2)
    return model.fit(pupils.X, pupils.y, tasks=pupils.tasks)


def idea() -> Figure:
    """Six tasks in the plane at three radii: what they would be alone, and where they end."""
    figure = Figure(figsize=(8.4, 3.1), layout="constrained")
    for axes, (epsilon, title) in zip(
        figure.subplots(1, 3, sharex=True, sharey=True),
        [(0.0, "ε = 0: pooled"), (1.0, "ε = 1: cross-learned"), (math.inf, "ε = ∞: separate")],
        strict=True,
    ):
        result = project(TASKS, epsilon)
        for before, after in zip(TASKS, result.thetas, strict=True):
            axes.plot(*np.stack([before, after]).T, color=GREY, linewidth=0.8)
        axes.plot(*TASKS.T, "o", color=GREY, markerfacecolor="none", label="best for the task")
        axes.plot(*result.thetas.T, "o", color=CROSS, label="model of the task")
        axes.plot(*result.center, "x", color=CENTER, markersize=8, label="centre")
        if 0 < epsilon < math.inf:
            axes.add_patch(Circle(result.center, epsilon, color=CROSS, alpha=0.12))
        axes.set(title=title, aspect="equal", xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def schools() -> Figure:
    """Lines of 160 schools, pooled, cross-learned and separate, and how well they predict."""
    pupils = load_hsb82()
    radii = [0.0, _chosen().epsilon_, math.inf]
    found = cross_ridge_path(pupils.X, pupils.y, pupils.tasks, epsilons=radii, alpha=1.0)
    rows = np.tile(pupils.X.mean(), (2, 1))
    rows[:, pupils.X.columns.get_loc("ses")] = (-2.0, 2.0)
    figure = Figure(figsize=(8.4, 3.1), layout="constrained")
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    for axes, k, method in zip(panels, (0, 1, 2), ("pooled", "cross", "separate"), strict=True):
        lines = found.intercept[k][:, None] + found.coef[k] @ rows.T
        center = found.center_intercept[k] + found.center_coef[k] @ rows.T
        axes.plot((-2, 2), lines.T, color=CROSS, alpha=0.25, linewidth=0.8)
        axes.plot((-2, 2), center, color=CENTER, linewidth=2)
        error = -_chosen().comparison_.summary["score"][method]
        axes.set_title(f"{'cross-learned' if method == 'cross' else method}: error {error:.1f}")
        axes.set(xlabel="socioeconomic status", ylim=(-5, 30))
    panels[0].set_ylabel("predicted math score")
    return figure


def path() -> Figure:
    """Parameters of every fourth school along the path of radii, from pooled to separate."""
    pupils = load_hsb82()
    found = cross_ridge_path(
        pupils.X, pupils.y, pupils.tasks, n_epsilons=25, smallest=1e-2, alpha=1.0
    )
    share = np.array(found.epsilons[1:-1]) / found.epsilons[-2]
    figure = Figure(figsize=(8.4, 3.1), layout="constrained")
    for axes, values, center, name in zip(
        figure.subplots(1, 2),
        (found.intercept, found.coef[..., -1]),
        (found.center_intercept, found.center_coef[:, -1]),
        ("intercept", "slope of socioeconomic status"),
        strict=True,
    ):
        axes.plot(share, values[1:-1, ::4], color=CROSS, alpha=0.25, linewidth=0.8)
        axes.plot(share, center[1:-1], color=CENTER, linewidth=2)
        axes.set(xscale="log", xlabel="ε / ε_max", title=name)
    return figure


def choice() -> Figure:
    """Cross-validated error against the radius, with the two ends and the choice."""
    model = _chosen()
    figure = Figure(figsize=(8.4, 3.1), layout="constrained")
    axes = figure.subplots()
    _draw_choice(axes, model.epsilons_, model.score_path_, model.epsilon_, model.epsilon_max_)
    axes.set(xlabel="ε / ε_max", ylabel="mean squared error")
    figure.legend(loc="outside right upper", frameon=False)
    return figure


def _draw_choice(
    axes: Axes, epsilons: np.ndarray, scores: np.ndarray, chosen: float, largest: float
) -> None:
    """Draw a path of scores with its two ends, which have no place on a logarithmic axis."""
    error, spread = -scores.mean(axis=1), scores.std(axis=1, ddof=1) / scores.shape[1] ** 0.5
    inner = slice(1, -1)
    share = epsilons[inner] / largest
    axes.axhline(error[0], color=POOLED, linestyle="--", linewidth=1, label="pooled (ε = 0)")
    axes.axhline(error[-1], color=SEPARATE, linestyle=":", linewidth=1.4, label="separate (ε = ∞)")
    low, high = error - spread, error + spread
    axes.fill_between(share, low[inner], high[inner], color=CROSS, alpha=0.12, linewidth=0)
    axes.plot(share, error[inner], color=CROSS, label="cross-learned")
    axes.plot(min(chosen, largest) / largest, error.min(), "o", color=CROSS, label="chosen")
    axes.set_xscale("log")


def tethers() -> Figure:
    """Where a task ends that wants to be at a distance, for four laws."""
    wanted = np.linspace(0, 4, 401)
    figure = Figure(figsize=(8.4, 2.7), layout="constrained")
    for axes, (name, tether) in zip(
        figure.subplots(1, 4, sharex=True, sharey=True),
        {
            "bound": Tether(epsilon=1.5),
            "spring": Tether(stiffness=1),
            "tension": Tether(tension=1.5),
            "bound and spring": Tether(epsilon=1.5, stiffness=0.5),
        }.items(),
        strict=True,
    ):
        axes.plot(wanted, wanted, color=GREY, linestyle=":", linewidth=1)
        axes.plot(wanted, tether.final_distance(wanted), color=CROSS)
        axes.set(title=name, aspect="equal", xlabel="distance wanted")
    figure.axes[0].set_ylabel("distance allowed")
    return figure


def ball() -> Figure:
    """Separate solutions, the smallest ball that holds them, and the path of the centre."""
    center, radius = smallest_enclosing_ball(TASKS)
    centers = np.stack([project(TASKS, share * radius).center for share in np.linspace(0, 1, 60)])
    figure = Figure(figsize=(3.6, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.add_patch(Circle(center, radius, fill=False, color=GREY, linestyle="--"))
    axes.plot(*TASKS.T, "o", color=GREY, markerfacecolor="none", label="separate solutions")
    axes.plot(*centers.T, color=CENTER, label="centre, ε from 0 to ε_max")
    axes.plot(*center, "x", color=CENTER, markersize=8)
    axes.set(aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    figure.legend(loc="outside lower center")
    return figure


def pictures_epsilon() -> Figure:
    """Scores on pictures32 against ε after pooled epochs, as `benchmarks/pictures.py` found them.

    The band is one standard error of the difference from pooled, paired by seed.
    """
    runs = pd.read_csv(BENCHMARKS / "pictures.csv").query("images == 0.3 and kind == 'longer'")
    radii = runs["job"].isin(["radii", "ε = ∞"]) & (runs["method"] != "fine-tuned")
    some = runs[radii].assign(test=100 * runs["test"])
    figure = Figure(figsize=(8.4, 3.1), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2)
    _draw_radii(left, some, "test", "{:.1f} %")
    _draw_radii(right, some, "test_loss", "{:.2f}")
    left.set(title="test accuracy, %")
    right.set(title="log loss (lower is better)")
    figure.supxlabel("ε, largest distance to the centre", fontsize=10)
    return figure


def _draw_radii(axes: Axes, runs: pd.DataFrame, score: str, style: str) -> None:
    """Draw means over domains and seeds at each radius, and lines at both ends."""
    by_seed = runs.groupby(["epsilon", "seed"])[score].mean().unstack("epsilon").dropna()  # noqa: PD010
    mean, error = by_seed.mean(), by_seed.sub(by_seed[0.0], axis=0).sem()
    places = np.arange(len(mean))
    axes.fill_between(places, mean - error, mean + error, color=CROSS, alpha=0.15, linewidth=0)
    axes.plot(places, mean, "o-", color=CROSS, markersize=4)
    down = 1 if mean[0.0] > mean[math.inf] else -1  # the text of an end lies on its worse side
    for end, name, color, line in [
        (0.0, "pooled (ε = 0)", POOLED, "--"),
        (math.inf, "separate (ε = ∞)", SEPARATE, ":"),
    ]:
        axes.axhline(mean[end], color=color, linestyle=line, linewidth=1.2)
        text = f"{name}: {style.format(mean[end])}"
        at = (0, mean[end]), (0, -9 * down if not end else 9 * down)
        axes.annotate(text, *at, textcoords="offset points", va="center", color=color)
    axes.set_xticks(places, ["0", *(f"{radius:g}" for radius in mean.index[1:-1]), "∞"])
    axes.margins(y=0.1)


PICTURES = [idea, schools, path, choice, tethers, ball]


def draw_all(folder: Path) -> None:
    """Draw all pictures as SVG files, named as their functions, and others into a folder."""
    FIGURES.mkdir(exist_ok=True)
    folder.mkdir(exist_ok=True)
    with mpl.rc_context(STYLE):
        for picture in PICTURES:
            figure = picture()
            figure.savefig(FIGURES / f"{picture.__name__}.svg", metadata={"Date": None})
    gaussian.run(gaussian.GaussianConfig(), folder / "gaussian")
    report.draw(folder / "gaussian", ["svg"])
    shutil.copy(folder / "gaussian" / "gaussian.svg", FIGURES)


def draw_pictures(path: Path) -> None:
    """Draw examples of the packaged pictures; the file is kept, since the README shows it."""
    pictures = load_pictures32()
    draw_contact_sheet(pictures, pictures.pixels(), path)
    Image.open(path).quantize(256).save(path, optimize=True)  # a third of the bytes


def draw_front() -> None:
    """Draw the picture that the front page shows, on white for pages of any colour."""
    with mpl.rc_context(STYLE | {"savefig.transparent": False}):
        pictures_epsilon().savefig(DOCS / "_static" / "pictures-epsilon.png", dpi=200)


if __name__ == "__main__":
    draw_all(DOCS / "_generated")
    draw_pictures(DOCS / "_static" / "pictures.png")
    draw_front()
