"""The chapter on a table: linear models of many tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crosslearning.evaluation.numbers import capital, count, number, percent, radius
from crosslearning.report.chapters.chapter import Chapter, Figure, Number, Remark
from crosslearning.report.chapters.parameters import coefficients, parameter_map
from crosslearning.report.chapters.provenance import provenance
from crosslearning.report.chapters.task_list import listed, task_figures
from crosslearning.report.charts.radius import score_path

if TYPE_CHECKING:
    from crosslearning.report.reading import Results

__all__ = ["table"]

BLOCK_NAMES = {"all": "", "coef": "coefficients", "intercept": "intercept"}


def table(results: Results) -> Chapter:
    """Lay out what sharing did for the tasks of a table."""
    content = results.content
    tasks = listed(content)
    overall = {row["method"]: row for row in content["comparison"]["overall"]}
    rows = sum(task["rows"] for task in tasks)
    return Chapter(
        kind="table",
        title=content["title"],
        subtitle=f"{count(rows, 'row')}, {count(len(tasks), 'task')}: one model of "
        f"{content['target']} for every {content['task']} ({content['estimator']})",
        sentence=content["sentence"],
        numbers=(
            _choice(content["chosen"]),
            _score(content["score"], overall),
            _helped(overall["separate"], len(tasks)),
        ),
        remarks=tuple(Remark(**remark) for remark in content.get("remarks", [])),
        details={
            "task": content["task"],
            "score": content["score"]["name"],
            "better": _better(content["score"]),
            "paths": _paths(content, overall),
            "notes": content.get("notes", []),
            "blocks": list(content["chosen"]),
            "block_names": BLOCK_NAMES,
            **task_figures(content, tasks),
            "coefficients": coefficients(content),
            "map": parameter_map(content, tasks),
            "provenance": provenance(content),
        },
    )


def _better(score: dict[str, Any]) -> str:
    return "higher is better" if score["greater_is_better"] else "lower is better"


def _choice(chosen: dict[str, Any]) -> Number:
    """Tell the radius, or that of each block; shares are of the way from pooled to separate."""
    values = " · ".join(radius(choice["epsilon"]).split()[0] for choice in chosen.values())
    shares = [
        f"{_block(block)} {percent(float(choice['share']))}".strip()
        for block, choice in chosen.items()
    ]
    return Number("Chosen ε", values, f"{' · '.join(shares)} of the way from pooled to separate")


def _block(name: str) -> str:
    return BLOCK_NAMES.get(name, name)


def _score(score: dict[str, Any], overall: dict[str, Any]) -> Number:
    values = {method: number(row["score"]) for method, row in overall.items()}
    return Number(
        capital(score["name"]),
        values["cross"],
        f"separate {values['separate']} · pooled {values['pooled']} ({_better(score)})",
    )


def _helped(against: dict[str, Any], tasks: int) -> Number:
    return Number(
        "Tasks helped",
        f"{against['helped']:,} of {tasks:,}",
        f"do better than alone; {against['hurt']:,} do worse",
    )


def _paths(content: dict[str, Any], overall: dict[str, Any]) -> list[Figure]:
    levels = {method: overall[method]["score"] for method in ("pooled", "separate")}
    name = content["score"]["name"]
    figures = []
    for block, choice in content["chosen"].items():
        points = [point for point in content["path"].get(block, []) if point["score"] is not None]
        about, ends = "", ("pooled", "separate")
        if _block(block):
            about, ends = f" of the {_block(block)}", ("same", "free")
        caption = f"{capital(name)} ({_better(content['score'])}) by ε{about}; "
        if points:
            chart = score_path(points, levels, float(choice["epsilon"]), name=name, ends=ends)
            figures.append(Figure(f"{caption}{radius(choice['epsilon'])} was chosen", chart))
    return figures
