"""From a fit to its findings."""

import platform
import warnings
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

import crosslearning
from crosslearning.evaluation import sentences
from crosslearning.evaluation.comparison import Comparison
from crosslearning.evaluation.numbers import number
from crosslearning.evaluation.records import from_json, to_json
from crosslearning.tables import describe_models
from crosslearning.tables.describe_tasks import (
    MOST_TASKS,
    comparison_summary,
    gain_counts,
    gains_over,
    task_findings,
    to_list,
)
from crosslearning.tables.facts import guess_of
from crosslearning.tables.findings import (
    VERSION,
    About,
    Findings,
    Horizon,
    Provenance,
    Remark,
    UsedColumn,
)
from crosslearning.tables.fit import Fit
from crosslearning.tables.model import TableModel
from crosslearning.tables.verdict import beyond_linear, compared, sentence, verdict_of

_LIBRARIES = ("numpy", "pandas", "scikit-learn", "scipy")


def with_findings(fit: Fit, caught: Sequence[Any], python: str) -> TableModel:
    """Return the model with its findings, and repeat each warning once."""
    messages = list(dict.fromkeys(" ".join(str(w.message).split()) for w in caught))
    for message in messages:
        warnings.warn(message, stacklevel=3)
    findings = _findings(fit, _about(fit, tuple(messages), python))
    # The same numbers as those in the file: rounded, and None where they are not finite.
    return replace(fit.model, findings=from_json(Findings, to_json(findings)))


def _findings(fit: Fit, about: About) -> Findings:
    judge, among = fit.judge, fit.facts.compared
    trials = judge.trials
    comparison = compared(trials, judge.labels, judge.counts)
    verdict = verdict_of(comparison, trials)
    gains = gains_over(comparison, verdict.against)
    shown = listed = to_list(gains, fit.estimator.distances_[among])
    if fit.held_out:  # which may have other tasks
        shown = to_list(gains, np.zeros(len(gains)))
        listed = np.arange(len(among))[:MOST_TASKS]
    return Findings(
        **vars(about),
        **vars(task_findings(fit, among[listed])),
        sentence=_useless(fit) + sentence(verdict, comparison, trials, fit.measure),
        beyond_linear=beyond_linear(trials, comparison, fit.measure),
        remarks=_remarks(fit, comparison),
        score=describe_models.score(fit),
        models=describe_models.models(fit),
        chosen_model=describe_models.chosen_model(fit),
        described_model=fit.trials.described.label,
        typical_error=describe_models.typical_error(fit),
        comparison=comparison_summary(verdict, comparison, trials, fit.metric, shown),
        gain_counts=gain_counts(gains) if len(shown) < len(gains) else None,
        holdout=describe_models.holdout(fit),
        effects=fit.effects,
        calibration=fit.checks.calibration,
        predicted=fit.checks.predicted,
        reliability=fit.checks.reliability,
    )


def _about(fit: Fit, messages: tuple[str, ...], python: str) -> About:
    model, target = fit.model, fit.target
    return About(
        kind="table",
        version=VERSION,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        title=f"{model.predicts} by {model.task}",
        target=fit.goal,
        task=model.task,
        estimator=type(fit.estimator).__name__,
        target_kind=target.kind,
        target_rule=target.why,
        family=target.family if target.kind == "regression" else None,
        horizon=Horizon(**model.horizon) if model.horizon else None,
        notes=_notes(fit),
        warnings=messages,
        command=fit.settings["command"],
        python=python,
        provenance=_provenance(fit),
    )


def _remarks(fit: Fit, comparison: Comparison) -> tuple[Remark, ...]:
    shared = "with this model"
    remarks = sentences.extremes(comparison, fit.model.task, fit.measure, shared=shared)
    return tuple(Remark(**remark) for remark in remarks)


def _useless(fit: Fit) -> str:
    """Say that no model is better than a guess, if none is."""
    best, guess_score = fit.metric.shown(float(fit.judge.trials.means.max())), fit.judge.baseline
    if best < guess_score if fit.metric.error else best > guess_score:
        return ""
    guess = guess_of(fit.target.kind, fit.model.quantile)
    return f"No model is better than predicting {guess}, which gives {number(guess_score)}. "


def _notes(fit: Fit) -> tuple[str, ...]:
    """Say what was left out."""
    unlabelled, described = fit.settings["unlabelled"], fit.trials.described
    spreading, chosen = fit.trials.spreading, fit.trials.chosen
    without = {"task": unlabelled, "target": fit.settings["dropped"] - unlabelled}
    notes = [
        f"{count:,} {'row' if count == 1 else 'rows'} without a {what} left out"
        for what, count in without.items()
        if count
    ]
    notes += [f"column {column.name} left out: {column.reason}" for column in fit.features.ignored]
    notes += [column.note for column in fit.features.used if column.note]
    notes += fit.settings["notes"]
    if fit.sharing is not None and spreading is not chosen:
        others = "differences between tasks"
        if described is not chosen:
            others = f"coefficients and {others}"
        notes.append(f"{others} are those of: {spreading.label}")
    return tuple(notes)


def _provenance(fit: Fit) -> Provenance:
    versions = {"python": platform.python_version(), "crosslearning": crosslearning.__version__}
    return Provenance(
        command=fit.settings["command"],
        seed=fit.settings["seed"],
        seconds=fit.settings["seconds"],
        dropped=fit.settings["dropped"],
        versions=versions | {name: version(name) for name in _LIBRARIES},
        fingerprint=fit.facts.fingerprint,
        rows=fit.facts.counts.sum(),
        columns=tuple(
            UsedColumn(name=c.name, type=c.type, levels=c.levels, missing=c.missing)
            for c in fit.features.used
        ),
    )
