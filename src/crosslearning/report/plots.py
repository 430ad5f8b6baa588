"""Charts of fitted models and results in Python; notebooks show them without a network."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crosslearning.extras import require
from crosslearning.files import replacing

if TYPE_CHECKING:
    from crosslearning.evaluation import Comparison
    from crosslearning.linear.path import CrossPath
    from crosslearning.tables.findings import Findings

_NEEDED = ("altair", "vl_convert")
_COEFFICIENTS = 12  # of a model, as many as fit on a screen
_STROKES = 400  # of a coefficient; more would hide each other
_WIDTH, _NARROW = 640, 480
_SCALE = 2.0  # pixels of a PNG per pixel of the page


@dataclass(frozen=True)
class Figure:
    """A chart with its name as a file, its caption and, for export, the meaning of its marks."""

    name: str
    caption: str
    spec: dict[str, Any]
    key: str = ""


@dataclass(frozen=True, eq=False)
class Plot:
    """A chart: notebooks show it, `save` writes it, and `chart` is Altair's object to change it.

    `spec` is its Vega-Lite specification.
    """

    spec: dict[str, Any]

    @property
    def chart(self) -> Any:
        """The chart as an object of Altair, with tooltips where a notebook shows them."""
        import altair as alt

        return alt.Chart.from_dict(self.spec)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the chart as a file; its name ends with ``.png``, ``.svg`` or ``.pdf``."""
        import vl_convert

        path = Path(path)
        write: dict[str, Callable[[], bytes]] = {
            ".png": lambda: vl_convert.vegalite_to_png(self.spec, scale=_SCALE),
            ".pdf": lambda: vl_convert.vegalite_to_pdf(self.spec),
            ".svg": lambda: vl_convert.vegalite_to_svg(self.spec).encode(),
        }
        if path.suffix not in write:
            raise ValueError(
                f"A chart is saved as one of {', '.join(write)}; got {path.name!r}. Change the end "
                "of the file's name."
            )
        with replacing(path) as temporary:
            temporary.write_bytes(write[path.suffix]())

    def __repr__(self) -> str:
        return f"<Plot: {self.spec['description']}>"

    def _repr_html_(self) -> str:
        import vl_convert

        return f"<div>{vl_convert.vegalite_to_svg(self.spec)}</div>"


def plot(figure: Figure) -> Plot:
    """Return a chart that stands alone: with the page's light colours, its caption and width."""
    from crosslearning.report.drawing import CONFIG, INK, SOFT

    # Without a style sheet, outlines would be drawn over the letters.
    text = {**CONFIG["text"], "stroke": None}
    config = {**CONFIG, "background": "white", "font": "sans-serif", "padding": 10, "text": text}
    size = {"width": _WIDTH} if figure.spec.get("width") == "container" else {}
    title = {"text": figure.caption, "subtitle": figure.key, "anchor": "start", "offset": 20}
    title |= {"fontSize": 13, "color": INK, "subtitleColor": SOFT}
    chart = json.dumps({**figure.spec, **size, "title": title, "config": config})
    sheet = files("crosslearning.report").joinpath("templates", "style.css").read_text()
    # The first colour of each name, which is for light pages.
    colours = dict(reversed(re.findall(r"--([\w-]+): (#\w+);", sheet)))
    return Plot(json.loads(re.sub(r"var\(--([\w-]+)\)", lambda name: colours[name[1]], chart)))


def export(figure: Figure, folder: Path, formats: Iterable[str]) -> list[Path]:
    """Write a chart with its caption above, as "png", "pdf" or "svg" files of its name."""
    paths = [folder / f"{figure.name}.{kind}" for kind in formats]
    for path in paths:
        plot(figure).save(path)
    return paths


def html(sentence: str, table: pd.DataFrame, draw: Any) -> str:
    """Write a sentence, a small table and, where Altair is installed, a chart for a notebook."""
    parts = [f"<p>{escape(sentence)}</p>", table.to_html(float_format="{:.4g}".format, na_rep="")]
    if all(map(find_spec, _NEEDED)):
        parts.append(draw()._repr_html_())
    return "\n".join(parts)


def comparison(compared: Comparison) -> Plot:
    """Draw the score of every method, with a bar of one standard error of the difference."""
    require("A plot", *_NEEDED)
    from crosslearning.report.table import model_errors

    summary = compared.summary.sort_values("score", ascending=False)
    errors = bool(summary["score"].max() <= 0)  # scores that are negative errors
    rows = [
        {
            "label": method,
            "kind": method if method in ("pooled", "separate", "cross") else "levels",
            "chosen": method == compared.subject,
            "score": abs(score) if errors else score,
            "difference": gain,
            "difference_error": error,
        }
        for method, score, gain, error, *_ in summary.itertuples()
    ]
    name = "error" if errors else "score"
    key = f"Bars: one standard error of the difference from {compared.subject}."
    caption = f"Mean {name} of every method, on held-out rows"
    return plot(Figure("comparison", caption, model_errors(rows, name=name, right=errors), key))


def path(solutions: CrossPath, coefficient: int | None) -> Plot:
    """Draw a coefficient of every task against the radius."""
    require("A plot", *_NEEDED)
    from crosslearning.report.paths import parameter_paths

    epsilons = [radius for radius in solutions.epsilons if not isinstance(radius, dict)]
    if len(epsilons) < len(solutions.epsilons):
        raise ValueError(
            "`plot` draws a path of single radii; got radii by block. Plot `coef` and `intercept` "
            "of the path yourself."
        )
    n, tasks = len(epsilons), len(solutions.tasks)
    values = solutions.coef.reshape(n, tasks, -1)
    if coefficient is not None and coefficient not in range(values.shape[2]):
        last = values.shape[2] - 1
        raise ValueError(f"`coefficient` must be a number from 0 to {last}; got {coefficient!r}.")
    if coefficient is None:  # the one that differs most, as a share of its size
        size = np.abs(values[-1]).mean(axis=0)
        coefficient = int((values[-1].std(axis=0) / np.where(size > 0, size, 1.0)).argmax())
    shown = range(0, tasks, -(-tasks // _STROKES))
    rows = {str(solutions.tasks[k]): values[:, k, coefficient].tolist() for k in shown}
    center = solutions.center_coef.reshape(n, -1)[:, coefficient].tolist()
    chart = parameter_paths(epsilons, rows, center, f"coefficient {coefficient}")
    caption = f"Coefficient {coefficient} from pooled to separate"
    return plot(Figure("path", caption, chart, "Thin: every task. Thick: the centre."))


def coefficients(model: Any) -> Plot:
    """Draw the coefficients of every task of a linear model around those of the centre."""
    require("A plot", *_NEEDED)
    from crosslearning.report.tasks import Parameter, strips

    features = [str(name) for name in getattr(model, "feature_names_in_", ())]
    features = features or [f"x{k}" for k in range(model.coef_.shape[-1])]
    names, labels = ["intercept", *features], [str(task) for task in model.tasks_]
    coef = model.coef_.reshape(len(labels), -1, len(features))
    tasks = np.dstack([model.intercept_.reshape(len(labels), -1, 1), coef])
    middle = model.center_coef_.reshape(coef.shape[1], -1)
    center = np.column_stack([np.reshape(model.center_intercept_, -1), middle]).ravel().tolist()
    if len(middle) > 1:
        names = [f"{label}: {name}" for label in model.classes_ for name in names]
    step = -(-len(labels) // _STROKES)
    rows = zip(names, center, tasks.reshape(len(labels), -1).T.tolist(), strict=True)
    shown = [Parameter(*row) for row in rows][:_COEFFICIENTS]
    charts = [strips([parameter], labels, step, "task") for parameter in shown]
    some = f" (the first {_COEFFICIENTS} of {len(names)})" if len(names) > _COEFFICIENTS else ""
    key = "A stroke for each task, a diamond for the centre; every row has its own scale."
    return plot(Figure("tasks", f"Coefficients of the tasks{some}", _stacked(charts), key))


def _stacked(charts: list[dict[str, Any]]) -> dict[str, Any]:
    """Put charts below each other, with their data in one place."""
    whole = {name: charts[0][name] for name in ("$schema", "description")}
    data = {name: rows for chart in charts for name, rows in chart["datasets"].items()}
    drop = ("$schema", "autosize", "datasets")
    parts = [{k: v for k, v in chart.items() if k not in drop} for chart in charts]
    parts = [{**part, "width": _NARROW} for part in parts]
    return {**whole, "vconcat": parts, "datasets": data}


def table(findings: Findings) -> str:
    """Write the verdict on a table for a notebook, with the models that were tried."""
    rows = [(m.label, m.score, m.standard_error) for m in findings.models]
    tried = pd.DataFrame(rows, columns=["model", findings.score.name, "standard error"])
    return html(findings.sentence, tried.set_index("model"), lambda: table_models(findings))


def table_models(findings: Findings) -> Plot:
    """Draw the errors of all models that were tried on a table."""
    require("A plot", *_NEEDED)
    from crosslearning.report.table import models

    return plot(models(findings))


def table_tasks(findings: Findings | None) -> Plot:
    """Draw the coefficients of every task of a table around the centre, as the report does."""
    require("A plot", *_NEEDED)
    from crosslearning.report.tasks import coefficients

    if findings is None:
        raise ValueError(
            "`plot_tasks` needs the findings of a fit; this model was loaded from a file. Draw the "
            "saved ones with `crosslearning report`."
        )
    figures = coefficients(findings)
    charts = _stacked([figure.spec for figure in figures])
    return plot(Figure("tasks", figures[0].caption, charts, figures[0].key))
