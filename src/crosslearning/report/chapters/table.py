"""The chapter on a table: models of many tasks."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from crosslearning.evaluation.numbers import capital, count, number
from crosslearning.report.chapters.chapter import Chapter, Number
from crosslearning.report.chapters.findings import checks, effects, judged_elsewhere, models, spread
from crosslearning.report.chapters.parameters import coefficients, parameter_map
from crosslearning.report.chapters.provenance import provenance
from crosslearning.report.chapters.task_list import listed, task_figures
from crosslearning.report.reading import Results


def table(results: Results) -> Chapter:
    """Build the chapter on which model to use, who gains, and how tasks differ."""
    content = results.content
    tasks, size, chosen = listed(content), content["size"], content["chosen_model"]
    higher, command = content["score"]["greater_is_better"], _predict(results.path.parent)
    return Chapter(
        kind="table",
        title=content["title"],
        subtitle=f"{count(size['rows'], 'row')}, {count(size['tasks'], 'task')}: a model of "
        f"{content['target']} for each {content['task']}",
        sentence=content["sentence"],
        numbers=(
            Number("Use this model", chosen["label"], chosen["why"], words=True, command=command),
            _error(content),
            _helped(content),
        ),
        remarks=_remarks(content),
        warnings=content["warnings"],
        notes=[f"{capital(note)}." for note in content["notes"]],
        details={
            "task": content["task"],
            "target": content["target"],
            "score": content["score"]["name"],
            "labels": content["comparison"]["labels"],
            "against": content["comparison"]["labels"][content["comparison"]["against"]],
            "scored": content["score"]["rows"],
            "held_out": judged_elsewhere(content),
            "horizon": content["horizon"],
            "better": "higher is better" if higher else "lower is better",
            "models": models(content),
            "checks": checks(content),
            "counts": content["family"] == "poisson",
            "spread": spread(content),
            "coefficients": coefficients(content),
            "effects": effects(content),
            "effect_on": content["effects"][0]["what"] if content["effects"] else None,
            "parts": len(chosen.get("parts", [])),
            "task_means": any("means" in part["name"] for part in chosen.get("parts", [])),
            "constant": content.get("constant_within_tasks", []),
            **task_figures(content, tasks),
            "map": parameter_map(content, tasks),
            "provenance": provenance(content)
            | {"predict": command and f"{command} --out predicted.csv"},
        },
    )


def _remarks(content: dict[str, Any]) -> list[dict[str, str]]:
    """Return what other features bring, and who gains and loses most."""
    beyond = content["beyond_linear"]
    first = [{"lead": "Beyond linear models", "text": beyond}] if beyond else []
    return first + list(content["remarks"])


def _predict(folder: Path) -> str | None:
    """Return the command that predicts with the model in a folder, if it has one."""
    if not any(folder.glob("model.*")):
        return None
    return f"crosslearning predict {shlex.quote(str(folder))} new.csv"


def _error(content: dict[str, Any]) -> Number:
    """Return the expected error and those of the alternatives, in units of the target."""
    typical = content["typical_error"]
    correct = typical["what"] == "percent correct"
    errors = {row["label"]: number(row["value"], 3) for row in typical["rows"]}
    own, sign = typical["value"], 1 if correct else -1
    better = any(sign * row["value"] > sign * own for row in typical["rows"])
    name = "Predictions that are correct" if correct else "Typical error of a prediction"
    best: dict[str, str] = {}  # of each kind
    for model in content["models"]:
        if not model["chosen"]:
            best.setdefault(model["kind"], model["label"])
    others = tuple((label, errors[label]) for label in best.values() if label in errors)
    notes = [] if correct else [f"{typical['what']}, in units of {typical['unit']}"]
    score = content["score"]["name"]
    if better and not judged_elsewhere(content) and score != "mean squared error":
        sure = ", which also counts how sure a prediction was" if score == "log loss" else ""
        notes.append(f"models are chosen by {score}{sure}, and may rank differently here")
    value = number(own, 3) + " %" * correct
    return Number(name, value, capital("; ".join(notes)), others)


def _helped(content: dict[str, Any]) -> Number:
    """Return how many tasks do better than with what the sentence compares with."""
    comparison = content["comparison"]
    rows = {row["method"]: row for row in comparison["overall"]}
    rival, labels = rows[comparison["against"]], comparison["labels"]
    note = f"do better with {labels['cross']} than with {labels[comparison['against']]}; "
    note += f"{rival['hurt']:,} do worse"
    helped = f"{rival['helped']:,} of {comparison['n_tasks']:,}"
    return Number("Tasks helped by sharing", helped, note)
