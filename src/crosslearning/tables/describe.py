"""From a fit to its findings."""

import platform
import time as clock
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import crosslearning
import crosslearning.tables.differences as differences
import crosslearning.tables.findings as records
import crosslearning.tables.verdict as verdicts
from crosslearning.archive import from_json, to_json
from crosslearning.evaluation.comparison import Comparison, Measure, Remark, extreme
from crosslearning.evaluation.numbers import number
from crosslearning.evaluation.scores import standard_error
from crosslearning.frames.columns import class_codes
from crosslearning.tables.forecast import BLOCKS, cost_of_learners, predictions
from crosslearning.tables.model import TableModel
from crosslearning.tables.pipeline import Fit

Array = NDArray[np.float64]
_MOST_TASKS = 2000  # that are listed one by one
_AT_ENDS = 40  # of these, those with the smallest and with the largest gains
_LIBRARIES = ("numpy", "pandas", "scikit-learn", "scipy")
# Partial effects: of so many columns and tasks, averaged over so many rows.
_COLUMNS, _LINES, _ROWS = 12, 30, 40
_NUMBERS = 2**24  # to go through in all: features, nodes of integrals and trees; else fewer rows
_NODES = 64  # that each probability of three or more classes is an average over


def describe(fit: Fit, command: str) -> records.Findings:
    """Return findings with the numbers that their file has: rounded, None for those not finite."""
    findings = _findings(fit, command)
    stored: records.Findings = from_json(records.Findings, to_json(findings))
    return replace(stored, comparison=findings.comparison)  # with the labels of the table


def _findings(fit: Fit, command: str) -> records.Findings:
    model, compared, trials = fit.model, fit.compared, fit.compared.trials
    schema, rows, described = compared.schema, compared.rows, compared.described
    measure = Measure(schema.metric.words, percent=schema.metric.name == "accuracy")
    comparison = verdicts.compared(trials, schema.labels[rows.compared], rows.counts[rows.compared])
    verdict = verdicts.verdict_of(comparison, trials)
    listed = _tasks_to_list(comparison.gains(verdict.against))
    target = model.predicts if model.quantile is None else f"the {model.predicts}"
    return records.Findings(
        kind="table",
        version=records.VERSION,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        title=f"{model.predicts} by {' in '.join(reversed(model.task_columns))}",
        target=target,
        task=model.task,
        estimator=type(described).__name__,
        target_kind=schema.target.kind,
        target_rule=schema.target.why,
        family=schema.target.family if schema.target.kind == "regression" else None,
        horizon=model.horizon,
        notes=_notes(fit),
        warnings=fit.messages,
        python=fit.python,
        provenance=_provenance(fit, command),
        sentence=_sentence(fit, verdict, comparison, measure),
        beyond_linear=verdicts.beyond_linear(trials, comparison, measure),
        remarks=_remarks(fit, comparison, measure),
        size=rows.size,
        score=_score(fit, comparison),
        models=_models(fit),
        chosen_model=_chosen_model(fit),
        described_model=trials.described.label,
        verdict=verdict,
        comparison=comparison.some(listed),
        holdout=fit.held_out and records.Holdout(fit.held_out.rows, fit.held_out.score),
        differences=_differences(fit, target),
        tasks=_task_rows(described, rows.counts, rows.compared[listed]),
        coefficients=differences.coefficients(described, model, rows.compared[listed]),
        center=differences.center_summary(compared.sharing, model),
        constant_within_tasks=tuple(rows.constant),
        epsilon=float(np.min(described.epsilon_)),  # of groups within groups, the smallest
        effects=effects(model, schema.survey.sample, rows.constant),
        calibration=compared.checks.calibration,
        predicted=compared.checks.predicted,
        reliability=compared.checks.reliability,
    )


def _differences(fit: Fit, target: str) -> records.TaskDifferences:
    compared, weighted = fit.compared, fit.compared.schema.settings.weights is not None
    about = fit.model, target, compared.rows.constant
    return differences.task_differences(compared.sharing, *about, weighted=weighted)


def _task_rows(
    model: Any, counts: NDArray[np.int64], some: NDArray[np.intp]
) -> tuple[records.TaskRow, ...]:
    columns = (model.tasks_, counts, model.distances_, model.forces_)
    return tuple(map(records.TaskRow, *(column[some] for column in columns)))


def _remarks(fit: Fit, comparison: Comparison, measure: Measure) -> tuple[Remark, ...]:
    """Say which tasks gain and lose most over separate models of the same learners."""
    alone = verdicts.against_separate(fit.compared.trials, comparison) or comparison
    shared = "with this model" if alone is comparison else "cross-learned"
    both = (extreme(alone, sign, fit.model.task, measure, shared=shared) for sign in (1, -1))
    return tuple(filter(None, both))


def _notes(fit: Fit) -> tuple[str, ...]:
    """Say what was left out."""
    schema, trials = fit.compared.schema, fit.compared.trials
    survey, features = schema.survey, schema.features
    without = {"task": survey.unlabelled, "target": survey.dropped - survey.unlabelled}
    notes = [
        f"{n:,} {'row' if n == 1 else 'rows'} without a {what} left out"
        for what, n in without.items()
        if n
    ]
    notes += [f"column {column.name} left out: {column.reason}" for column in features.ignored]
    notes += [column.note for column in features.used if column.note]
    notes += fit.notes
    if trials.spreading is not trials.chosen:
        also = "coefficients and " if trials.described is not trials.chosen else ""
        notes.append(f"{also}differences between tasks are those of: {trials.spreading.label}")
    return tuple(notes)


def _provenance(fit: Fit, command: str) -> records.Provenance:
    schema = fit.compared.schema
    versions = {"python": platform.python_version(), "crosslearning": crosslearning.__version__}
    columns = ((c.name, c.type, c.levels, c.missing) for c in schema.features.used)
    return records.Provenance(
        command=command,
        seed=schema.settings.seed,
        seconds=round(clock.monotonic() - fit.started, 3),
        dropped=schema.survey.dropped,
        versions=versions | {name: version(name) for name in _LIBRARIES},
        fingerprint=fit.compared.rows.fingerprint,
        columns=tuple(records.UsedColumn(*column) for column in columns),
    )


def _sentence(fit: Fit, verdict: records.Verdict, comparison: Comparison, measure: Measure) -> str:
    """Say whether sharing helps, and first that the choice does not beat the baseline, if so."""
    trials = fit.compared.trials
    text = verdicts.sentence(verdict, comparison, trials, measure)
    if trials.nested_score > trials.baseline:
        return text
    who = "The chosen model is no" if trials.means.max() > trials.baseline else "No model is"
    return f"{who} better than predicting {_baseline(fit)}. {text}"


def _baseline(fit: Fit) -> str:
    """Say what the baseline predicts."""
    if fit.model.quantile is not None:
        return f"the training {fit.model.quantile:g} quantile"
    return "the training mean" if fit.model.classes is None else "the class frequencies"


def _score(fit: Fit, comparison: Comparison) -> records.Score:
    """Return the metric, and what the baseline and choices among some models score by it."""
    schema, trials = fit.compared.schema, fit.compared.trials
    metric = schema.metric
    baseline, nested = metric.reported(trials.baseline), metric.reported(trials.nested_score)
    choices = verdicts.nested_scores(trials, comparison)
    among = [f", among {kind} {number(metric.reported(one))}" for kind, one in choices.items()]
    error = "root mean squared error" if schema.classes is None else "percent correct"
    return records.Score(
        name=metric.words,
        greater_is_better=not metric.error,
        baseline=baseline,
        explanation=f"{schema.words}, mean over tasks; predicting {_baseline(fit)} gives "
        f"{number(baseline)}; choosing the model without the rows that it is scored on gives "
        f"{number(nested)}{''.join(among)}",
        error=error if metric.quantile is None else metric.words,
    )


def _models(fit: Fit) -> tuple[records.ModelScore, ...]:
    """Everything that was tried, best first."""
    trials, metric, models = fit.compared.trials, fit.compared.schema.metric, []
    means, values, errors = trials.means, trials.scores.by_task, -trials.plain_means
    if fit.model.classes is not None:
        errors = -100.0 * errors  # percentages that are correct
    elif fit.model.quantile is None:
        errors = np.sqrt(np.maximum(errors, 0.0))
    best = trials.names.index(trials.chosen.name)
    for k in np.argsort(means[best] - means, kind="stable").tolist():
        candidate, ahead = trials.candidates[k], values[best] - values[k]
        ahead = ahead[np.isfinite(ahead)]
        error = ahead.std(ddof=1) / len(ahead) ** 0.5 if len(ahead) > 1 else 0.0
        models.append(
            records.ModelScore(
                name=candidate.name,
                label=candidate.label,
                kind=candidate.end,
                score=metric.reported(float(means[k])),
                error=errors[k],
                standard_error=standard_error(trials.scores, k),
                difference=float(means[best] - means[k]),
                difference_error=float(error),
                seconds=round(trials.seconds[candidate.name], 3),
                chosen=k == best,
                kept=candidate.kept,
            )
        )
    return tuple(models)


def _chosen_model(fit: Fit) -> records.ChosenModel:
    trials = fit.compared.trials
    return records.ChosenModel(
        name=trials.chosen.name,
        label=trials.chosen.label,
        why=verdicts.reason(trials, fit.compared.schema.words),
        parts=tuple(records.Part(c.name, c.label, weight) for c, weight in trials.listed_parts),
        task_means=any("means" in BLOCKS.get(c.base, ()) for c, _ in trials.listed_parts),
    )


def _tasks_to_list(gains: Array) -> NDArray[np.intp]:
    """Tasks to list one by one: all, or of many those at the ends and some of the others."""
    if len(gains) <= _MOST_TASKS:
        return np.arange(len(gains))
    order = np.argsort(gains)
    evenly = np.linspace(0, len(gains) - 1, _MOST_TASKS - 2 * _AT_ENDS).astype(np.intp)
    return np.unique(np.concatenate([order[:_AT_ENDS], order[-_AT_ENDS:], evenly]))


def effects(
    model: TableModel, frame: pd.DataFrame, constant: Collection[str] = ()
) -> tuple[records.PartialEffect, ...]:
    """Predictions, or probabilities of a class, as one column changes, averaged over rows.

    For columns with the largest effects at the centre, unless they are very many; also in some
    tasks, but not for columns whose features are `constant` within all of them.
    """
    grids, classes, shown, what = model.encoder.grids(frame), model.classes, 1, model.predicts
    if not grids or model.rotation is not None:
        return ()
    if classes is not None:
        if len(classes) > 2:  # the most frequent one
            mark = model.encoder.marks.get(model.target)
            shown = int(np.bincount(class_codes(frame[model.target], classes, mark)).argmax())
        what = f"probability of {model.target} = {classes[shown]}"
    X = _encoded(model, frame, grids)
    centers = {name: _averaged(model, X[name], -1, shown) for name in grids}
    largest = sorted(grids, key=lambda name: -np.ptp(centers[name]))[:_COLUMNS]
    labels = model._tasks.labels
    drawn = range(0, len(labels), -(-len(labels) // _LINES))
    alike = [name for name in grids if {*model.encoder.features_of(name)} <= {*constant}]
    tasks = {name: () if name in alike else drawn for name in grids}
    return tuple(
        records.PartialEffect(
            feature=name,
            what=what,
            probability=classes is not None,
            grid=tuple(grids[name]),
            center=tuple(centers[name]),
            tasks=tuple(labels[task] for task in tasks[name]),
            lines=tuple(tuple(_averaged(model, X[name], task, shown)) for task in tasks[name]),
        )
        for name in largest
    )


def _encoded(
    model: TableModel, frame: pd.DataFrame, grids: dict[str, NDArray[Any]]
) -> dict[str, Array]:
    """Features of some rows for each value of each grid: (values, rows, features)."""
    encoder, n_scores = model.encoder, 1 if model.classes is None else len(model.classes) - 1
    names, n_points = np.array(encoder.feature_names), sum(map(len, grids.values()))
    each = n_scores * (len(names) + (_NODES if n_scores > 1 else 0)) + cost_of_learners(model.state)
    n_rows = min(int(np.clip(_NUMBERS // (n_points * each * (_LINES + 1)), 1, _ROWS)), len(frame))
    some = frame.iloc[np.linspace(0, len(frame) - 1, n_rows).astype(np.intp)]
    rows, longest = encoder.encode(some), max(map(len, grids.values()))
    varied = {name: np.resize(grid, longest) for name, grid in grids.items()}
    values = encoder.encode(frame.iloc[[0] * longest].assign(**varied))
    X = {}
    for name, grid in grids.items():
        changed = np.isin(names, [*encoder.features_of(name), f"{name} missing"])
        X[name] = np.where(changed, values[: len(grid), np.newaxis], rows)
    return X


def _averaged(model: TableModel, X: Array, task: int, shown: int) -> Array:
    """Mean predictions of a task (-1: centre), or of a class, over rows, by value of a grid."""
    rows = X.reshape(-1, X.shape[-1])
    values = predictions(model.state, rows, np.full(len(rows), task))
    values = values if model.classes is None else values[:, shown]
    return np.asarray(values.reshape(X.shape[:-1]).mean(axis=1))
