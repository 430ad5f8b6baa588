"""The chapter on a table: models of many tasks."""

from __future__ import annotations

import shlex
from pathlib import Path

from crosslearning.evaluation.numbers import capital, count, number
from crosslearning.evaluation.records import to_json
from crosslearning.report.chapter import Chapter, Number
from crosslearning.report.checks import checks, effects
from crosslearning.report.models import COLUMNS, differences, models
from crosslearning.report.parameters import coefficients, parameter_map
from crosslearning.report.reading import Results
from crosslearning.report.tasks import listed, task_figures
from crosslearning.tables.findings import Findings, ModelScore


def table(results: Results) -> Chapter:
    """Build the chapter on which model to use, who gains, and how tasks differ."""
    findings: Findings = results.content
    size, chosen, command = findings.size, findings.chosen_model, _predict(results.path.parent)
    remarks, tasks = [to_json(remark) for remark in findings.remarks], listed(findings)
    if findings.beyond_linear:
        remarks.insert(0, {"lead": "Beyond linear models", "text": findings.beyond_linear})
    return Chapter(
        kind="table",
        title=findings.title,
        subtitle=f"{count(size.rows, 'row')}, {count(size.tasks, 'task')}: a model of "
        f"{findings.target} for each {findings.task}",
        sentence=findings.sentence,
        numbers=(
            Number("Use this model", chosen.label, chosen.why, words=True, command=command),
            _error(findings),
            _helped(findings),
        ),
        remarks=remarks,
        warnings=list(findings.warnings),
        notes=[f"{capital(note)}." for note in findings.notes],
        content=findings,
        details={
            "models": models(findings),
            "checks": checks(findings),
            "differences": differences(findings),
            "hidden_columns": max(len(findings.differences.shown) - COLUMNS - 1, 0),
            "coefficients": coefficients(findings),
            "effects": effects(findings),
            **task_figures(findings, tasks),
            "map": parameter_map(findings, tasks),
            "predict": command and f"{command} --out predicted.csv",
        },
    )


def _predict(folder: Path) -> str | None:
    """Return the command that predicts with the model in a folder, if it has one."""
    if not any(folder.glob("model.*")):
        return None
    return f"crosslearning predict {shlex.quote(str(folder))} new.csv"


def _error(findings: Findings) -> Number:
    """Return the expected error and those of the alternatives, in units of the target."""
    typical, score = findings.typical_error, findings.score
    best: dict[str, ModelScore] = {}  # of each kind
    for model in findings.models:
        if not model.chosen:
            best.setdefault(model.kind, model)
    others = tuple((model.label, number(model.error, 3)) for model in best.values())
    notes = []
    if not typical.percent_correct:
        notes.append(f"{typical.what}, in units of {typical.unit}")
    if _may_rank_differently(findings):
        sure = ", which also counts how sure a prediction was" if score.metric == "log-loss" else ""
        notes.append(f"models are chosen by {score.name}{sure}, and may rank differently here")
    name, value = "Typical error of a prediction", number(typical.value, 3)
    if typical.percent_correct:
        name, value = "Predictions that are correct", f"{value} %"
    return Number(name, value, capital("; ".join(notes)), others)


def _may_rank_differently(findings: Findings) -> bool:
    """Whether a model that was not chosen has a better typical error, by another metric."""
    typical, sign = findings.typical_error, 1 if findings.typical_error.percent_correct else -1
    values = [sign * model.error for model in findings.models if model.error is not None]
    better = typical.value is not None and max(values) > sign * typical.value
    return better and not findings.scored_on_holdout and findings.score.metric != "mse"


def _helped(findings: Findings) -> Number:
    """Return how many tasks do better than with what the sentence compares with."""
    comparison, labels = findings.comparison, findings.comparison.labels
    note = f"do better with {labels['cross']} than with {labels[comparison.against]}; "
    note += f"{comparison.hurt:,} do worse"
    helped = f"{comparison.helped:,} of {comparison.n_tasks:,}"
    return Number("Tasks helped by sharing", helped, note)
