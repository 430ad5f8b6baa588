"""The chapter on a table: models of many tasks."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from crosslearning.evaluation.numbers import capital, count, number, percent, radius
from crosslearning.evaluation.sentences import NAMES
from crosslearning.report.chapters.chapter import Chapter, Figure, Number, Remark
from crosslearning.report.chapters.findings import checks, effects, models, spread
from crosslearning.report.chapters.parameters import coefficients, parameter_map
from crosslearning.report.chapters.provenance import provenance
from crosslearning.report.chapters.task_list import listed, task_figures
from crosslearning.report.charts.radius import score_path
from crosslearning.report.reading import Results

METHODS = ("pooled", "separate")
BLOCK_NAMES = {"all": "", "coef": "coefficients", "intercept": "intercept"}


def table(results: Results) -> Chapter:
    """Build the chapter on which model to use, who gains, and how tasks differ."""
    content = results.content
    tasks = listed(content)
    size = content.get("size", {"tasks": len(tasks), "rows": sum(task["rows"] for task in tasks)})
    chosen = content.get("chosen", {})
    return Chapter(
        kind="table",
        title=content["title"],
        subtitle=f"{count(size['rows'], 'row')}, {count(size['tasks'], 'task')}: a model of "
        f"{content['target']} for each {content['task']}",
        sentence=content["sentence"],
        numbers=(*_use(content), _error(content), *_helped(content, size)),
        remarks=tuple(Remark(**remark) for remark in content.get("remarks", [])),
        warnings=tuple(content.get("warnings", [])),
        notes=tuple(f"{capital(note)}." for note in content.get("notes", [])),
        details={
            "task": content["task"],
            "target": content["target"],
            "score": content["score"]["name"],
            "better": _better(content["score"]),
            "models": models(content),
            "spread": spread(content),
            "effects": effects(content),
            "constant": content.get("constant_within_tasks", []),
            "checks": checks(content),
            "paths": _paths(content),
            "choices": [_choice(_block(block), choice) for block, choice in chosen.items()],
            "blocks": {block: _block(block) for block in chosen},
            **task_figures(content, tasks),
            "coefficients": coefficients(content),
            "map": parameter_map(content, tasks),
            "provenance": provenance(content) | {"predict": _predict(results.folder)},
        },
    )


def _predict(folder: Path) -> str | None:
    """Return the command that predicts with the model in a folder, if it has one."""
    name = shlex.quote(folder.resolve().name)
    models = sorted(folder.glob("model.*"))
    return f"crosslearning predict {name} new.csv --out predicted.csv" if models else None


def _better(score: dict[str, Any]) -> str:
    return "higher is better" if score["greater_is_better"] else "lower is better"


def _use(content: dict[str, Any]) -> list[Number]:
    """Return which model to use, if the results say so."""
    chosen = content.get("chosen_model")
    return [Number("Use this model", chosen["label"], chosen["why"], words=True)] if chosen else []


def _error(content: dict[str, Any]) -> Number:
    """Return the expected error and those of the alternatives, in units of the target."""
    typical, score = content.get("typical_error"), content["score"]
    if typical:
        correct = typical["what"] == "percent correct"
        errors = {row["label"]: number(row["value"], 3) for row in typical["rows"]}
        others = [(name, errors[name]) for name in _rivals(content, list(errors))]
        unit = "%" if correct else typical["unit"]
        name = "Predictions that are correct" if correct else "Typical error of a prediction"
        note = "" if correct else typical["what"]
        return Number(name, f"{number(typical['value'], 3)} {unit}", note, tuple(others))
    values = _overall(content)
    others = [(NAMES.get(m, m), number(row["score"])) for m, row in values.items() if m != "cross"]
    return Number(
        capital(score["name"]), number(values["cross"]["score"]), _better(score), tuple(others)
    )


def _rivals(content: dict[str, Any], known: list[str]) -> list[str]:
    """Name the best alternative of each kind, of those whose typical error is known."""
    best: dict[str, str] = {}
    for model in content.get("models", []):
        if model["label"] in known and not model.get("chosen"):
            best.setdefault(model["kind"], model["label"])
    return list(best.values()) or [name for name in known if name != "this model"][:4]


def _overall(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["method"]: row for row in content["comparison"]["overall"]}


def _helped(content: dict[str, Any], size: dict[str, int]) -> list[Number]:
    """Return how many tasks do better than with the best alternative."""
    sign = 1 if content["score"]["greater_is_better"] else -1
    rivals = [row for row in content["comparison"]["overall"] if row["method"] != "cross"]
    if not rivals:
        return []
    best = max(rivals, key=lambda row: sign * (row["score"] or 0.0))
    name, scored = NAMES.get(best["method"], best["method"]), size.get("compared", size["tasks"])
    note = f"do better than with {name}, the best alternative; {best['hurt']:,} do worse"
    return [Number("Tasks helped by sharing", f"{best['helped']:,} of {scored:,}", note)]


def _choice(block: str, choice: dict[str, Any]) -> str:
    """Describe a radius in words."""
    size, about = radius(choice["epsilon"]), f" for the {block}" if block else ""
    return f"{size}{about}, {percent(float(choice['share']))} of the way from pooled to separate"


def _block(name: str) -> str:
    return BLOCK_NAMES.get(name, name)


def _paths(content: dict[str, Any]) -> list[Figure]:
    """Draw the score against the radius of each block."""
    overall = _overall(content)
    levels = {m: row["score"] for m, row in overall.items() if m in METHODS}
    name = content["score"]["name"]
    figures = []
    for block, choice in content.get("chosen", {}).items():
        paths = content.get("path", {})
        points = [point for point in paths.get(block, []) if point["score"] is not None]
        about, ends = "", ("pooled", "separate")
        if _block(block):
            about, ends = f" of the {_block(block)}", ("same", "free")
        caption = f"{capital(name)} ({_better(content['score'])}) by ε{about}; "
        if points:
            chart = score_path(points, levels, float(choice["epsilon"]), name=name, ends=ends)
            figures.append(Figure(f"{caption}{radius(choice['epsilon'])} was chosen", chart))
    return figures
