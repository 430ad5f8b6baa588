"""From a fit to its findings."""

import platform
import warnings
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

import crosslearning
from crosslearning.evaluation.comparison import Comparison
from crosslearning.evaluation.numbers import number
from crosslearning.evaluation.records import from_json, to_json
from crosslearning.evaluation.sentences import Measure, extremes
from crosslearning.tables import describe_models
from crosslearning.tables.checks import RowSummary
from crosslearning.tables.describe_models import Fit
from crosslearning.tables.differences import (
    bound_of,
    center_summary,
    coefficients,
    places,
    standardised,
    task_differences,
)
from crosslearning.tables.findings import (
    VERSION,
    About,
    CenterSummary,
    Findings,
    GainCount,
    Provenance,
    Size,
    TaskRow,
    UsedColumn,
)
from crosslearning.tables.model import TableModel
from crosslearning.tables.verdict import (
    beyond_linear,
    compared,
    comparison_summary,
    sentence,
    verdict_of,
)

_MOST_TASKS = 2000  # that are listed one by one
_AT_ENDS = 40  # of the tasks with the smallest and with the largest gains and distances
_LIBRARIES = ("numpy", "pandas", "scikit-learn", "scipy")


def with_findings(fit: Fit, caught: Sequence[Any]) -> TableModel:
    """Return the model with its findings, and repeat each warning once."""
    messages = tuple(dict.fromkeys(" ".join(str(w.message).split()) for w in caught))
    for message in messages:
        warnings.warn(message, stacklevel=3)
    findings = _findings(fit, _about(fit, messages))
    # The same numbers as those in the file: rounded, and None where they are not finite.
    return replace(fit.model, findings=from_json(Findings, to_json(findings)))


def _findings(fit: Fit, about: About) -> Findings:
    model, trials, rows, described = fit.model, fit.scored.trials, fit.rows, fit.estimator
    measure = Measure(fit.metric.words, percent=fit.metric.name == "accuracy")
    comparison = compared(trials, fit.scored.labels, fit.scored.counts)
    verdict = verdict_of(comparison, trials)
    gains = _gains(comparison, verdict.against)
    shown = listed = _tasks_to_list(gains, described.distances_[rows.compared])
    if fit.held_out:  # which may have other tasks
        shown = _tasks_to_list(gains, np.zeros(len(gains)))
        listed = np.arange(len(rows.compared))[:_MOST_TASKS]
    some, names = rows.compared[listed], model.encoder.feature_names
    axes = getattr(model.rotation, "axes", None)
    coef, intercept = standardised(described, axes)
    place, explained = places(coef, intercept)
    both = np.append(some, len(coef) - 1)  # and the centre
    return Findings(
        **vars(about),
        sentence=_useless(fit) + sentence(verdict, comparison, trials, measure),
        beyond_linear=beyond_linear(trials, comparison, measure),
        remarks=extremes(comparison, model.task, measure, shared="with this model"),
        size=_size(rows),
        score=describe_models.score(fit),
        models=describe_models.models(fit),
        typical_error=describe_models.typical_error(fit),
        chosen_model=describe_models.chosen_model(fit),
        described_model=fit.trials.described.label,
        comparison=comparison_summary(verdict, comparison, trials, fit.metric, shown),
        gain_counts=_gain_counts(gains) if len(shown) < len(gains) else None,
        holdout=describe_models.holdout(fit),
        differences=task_differences(fit.sharing, names, axes, about.target, rows.constant),
        tasks=_tasks(fit, some, place),
        coefficients=coefficients(described, coef[both], intercept[both], names),
        center=_center(fit),
        constant_within_tasks=tuple(rows.constant),
        explained=explained,
        epsilon=bound_of(described),
        effects=fit.effects,
        calibration=fit.checks.calibration,
        predicted=fit.checks.predicted,
        reliability=fit.checks.reliability,
    )


def _center(fit: Fit) -> CenterSummary | None:
    """Summarise the centre, unless its features are principal axes."""
    model = fit.model
    if model.rotation is not None:
        return None
    levels = model.task_columns if len(fit.sharing.groups_) else [model.task]
    return center_summary(fit.sharing, model.encoder.feature_names, levels)


def _about(fit: Fit, messages: tuple[str, ...]) -> About:
    model, target = fit.model, fit.schema.target
    return About(
        kind="table",
        version=VERSION,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        title=f"{model.predicts} by {' in '.join(reversed(model.task_columns))}",
        target=model.predicts if model.quantile is None else f"the {model.predicts}",
        task=model.task,
        estimator=type(fit.estimator).__name__,
        target_kind=target.kind,
        target_rule=target.why,
        family=target.family if target.kind == "regression" else None,
        horizon=model.horizon,
        notes=_notes(fit),
        warnings=messages,
        python=fit.python,
        provenance=_provenance(fit),
    )


def _useless(fit: Fit) -> str:
    """Say that no model is better than the baseline, if none is."""
    best, baseline = fit.metric.reported(float(fit.scored.trials.means.max())), fit.scored.baseline
    if best < baseline if fit.metric.error else best > baseline:
        return ""
    return (
        f"No model is better than predicting {fit.baseline_name}, which gives {number(baseline)}. "
    )


def _notes(fit: Fit) -> tuple[str, ...]:
    """Say what was left out."""
    survey, features, trials = fit.schema.survey, fit.schema.features, fit.trials
    without = {"task": survey.unlabelled, "target": survey.dropped - survey.unlabelled}
    notes = [
        f"{count:,} {'row' if count == 1 else 'rows'} without a {what} left out"
        for what, count in without.items()
        if count
    ]
    notes += [f"column {column.name} left out: {column.reason}" for column in features.ignored]
    notes += [column.note for column in features.used if column.note]
    notes += fit.notes
    if trials.spreading is not trials.chosen:
        others = "differences between tasks"
        if trials.described is not trials.chosen:
            others = f"coefficients and {others}"
        notes.append(f"{others} are those of: {trials.spreading.label}")
    return tuple(notes)


def _provenance(fit: Fit) -> Provenance:
    versions = {"python": platform.python_version(), "crosslearning": crosslearning.__version__}
    return Provenance(
        command=fit.command,
        seed=fit.schema.settings.seed,
        seconds=round(fit.seconds, 3),
        dropped=fit.schema.survey.dropped,
        versions=versions | {name: version(name) for name in _LIBRARIES},
        fingerprint=fit.rows.fingerprint,
        columns=tuple(
            UsedColumn(name=c.name, type=c.type, levels=c.levels, missing=c.missing)
            for c in fit.schema.features.used
        ),
    )


def _size(rows: RowSummary) -> Size:
    return Size(
        tasks=len(rows.counts),
        compared=len(rows.compared),
        rows=rows.counts.sum(),
        smallest=rows.counts.min(),
        largest=rows.counts.max(),
    )


def _tasks(fit: Fit, some: NDArray[np.intp], place: NDArray[np.float64]) -> tuple[TaskRow, ...]:
    model = fit.estimator
    columns = (model.tasks_, fit.rows.counts, model.distances_, model.forces_, place)
    return tuple(
        TaskRow(task=label, rows=rows, distance=distance, force=force, place=tuple(at))
        for label, rows, distance, force, at in zip(*(c[some] for c in columns), strict=True)
    )


def _gains(comparison: Comparison, rival: str) -> NDArray[np.float64]:
    """Gain of each task over a rival, 0 where it has no scores."""
    gains = comparison.scores[-1] - comparison.scores[comparison.methods.index(rival)]
    return np.where(np.isfinite(gains), gains, 0.0)


def _tasks_to_list(gains: NDArray[np.float64], distances: NDArray[np.float64]) -> NDArray[np.intp]:
    """Tasks to list one by one: all, or of many those at the ends and some of the others."""
    n_tasks = len(distances)
    if n_tasks <= _MOST_TASKS:
        return np.arange(n_tasks)
    orders = np.argsort(gains), np.argsort(distances)
    ends = [part for order in orders for part in (order[:_AT_ENDS], order[-_AT_ENDS:])]
    evenly = np.linspace(0, n_tasks - 1, _MOST_TASKS - 4 * _AT_ENDS).astype(np.intp)
    return np.unique(np.concatenate([*ends, evenly]))


def _gain_counts(gains: NDArray[np.float64]) -> tuple[GainCount, ...]:
    """Histogram of gains without its tails, whose tasks are listed."""
    low, high = np.quantile(gains, [0.005, 0.995])
    counts, edges = np.histogram(gains, bins=60, range=(low, high))
    return tuple(
        GainCount(low=a, high=b, count=count)
        for a, b, count in zip(edges[:-1], edges[1:], counts.tolist(), strict=True)
    )
