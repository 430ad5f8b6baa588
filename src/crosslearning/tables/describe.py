"""From a fit to its findings."""

import platform
import time as clock
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

import crosslearning
import crosslearning.tables.differences as differences
import crosslearning.tables.findings as records
import crosslearning.tables.verdict as verdicts
from crosslearning.evaluation.comparison import Comparison
from crosslearning.evaluation.numbers import number
from crosslearning.evaluation.records import from_json, to_json
from crosslearning.evaluation.scores import standard_error
from crosslearning.evaluation.sentences import Measure, extremes
from crosslearning.tables.effects import effects
from crosslearning.tables.final import Compared, RowSummary
from crosslearning.tables.forecast import BLOCKS, Score
from crosslearning.tables.learners.candidates import over_tasks, paired
from crosslearning.tables.metrics import Metric
from crosslearning.tables.model import TableModel

_MOST_TASKS = 2000  # that are listed one by one
_AT_ENDS = 40  # of the tasks with the smallest and with the largest gains and distances
_LIBRARIES = ("numpy", "pandas", "scikit-learn", "scipy")


@dataclass(frozen=True, eq=False, kw_only=True)
class Fit:
    """A fit to be described; `held_out` is the score of the model on another table."""

    compared: Compared
    model: TableModel
    held_out: Score | None
    notes: Sequence[str]
    messages: tuple[str, ...]
    command: str
    python: str
    started: float

    @property
    def metric(self) -> Metric:
        """What models were chosen by."""
        return self.compared.schema.metric

    @property
    def baseline_name(self) -> str:
        """What the baseline predicts."""
        if self.metric.quantile is not None:
            return f"the training {self.metric.quantile:g} quantile"
        return "the training mean" if self.model.classes is None else "the class frequencies"


def describe(fit: Fit) -> records.Findings:
    """Return findings with the numbers that their file has: rounded, None for those not finite."""
    record: records.Findings = from_json(records.Findings, to_json(_findings(fit, _about(fit))))
    return record


def _findings(fit: Fit, about: records.About) -> records.Findings:
    model, made, trials = fit.model, fit.compared, fit.compared.trials
    rows = made.rows
    labels, counts = made.schema.labels[rows.compared], rows.counts[rows.compared]
    measure = Measure(fit.metric.words, percent=fit.metric.name == "accuracy")
    comparison = verdicts.compared(trials, labels, counts)
    verdict = verdicts.verdict_of(comparison, trials)
    alone = verdicts.against_separate(trials, comparison)
    gains, described = _gains(comparison, verdict.against), made.described
    listed = _tasks_to_list(gains, described.distances_[rows.compared])
    some, names = rows.compared[listed], model.encoder.feature_names
    axes = getattr(model.rotation, "axes", None)
    coef, intercept = differences.standardised(described, axes)
    place, explained = differences.places(coef, intercept)
    both = np.append(some, len(coef) - 1)  # and the centre
    return records.Findings(
        **vars(about),
        sentence=_useless(fit) + verdicts.sentence(verdict, comparison, trials, measure),
        beyond_linear=verdicts.beyond_linear(trials, comparison, measure),
        remarks=extremes(
            alone or comparison,
            model.task,
            measure,
            shared="with this model" if alone is comparison else "cross-learned",
        ),
        size=_size(rows),
        score=_score(fit),
        models=_models(fit),
        typical_error=_typical_error(fit),
        chosen_model=_chosen_model(fit),
        described_model=made.trials.described.label,
        comparison=verdicts.comparison_summary(verdict, comparison, trials, fit.metric, listed),
        gain_counts=_gain_counts(gains) if len(listed) < len(gains) else None,
        holdout=_holdout(fit),
        differences=differences.task_differences(
            made.sharing, names, axes, about.target, rows.constant
        ),
        tasks=_tasks(made, some, place),
        coefficients=differences.coefficients(described, coef[both], intercept[both], names),
        center=_center(fit),
        constant_within_tasks=tuple(rows.constant),
        explained=explained,
        epsilon=differences.bound_of(described),
        effects=_effects(fit),
        calibration=made.checks.calibration,
        predicted=made.checks.predicted,
        reliability=made.checks.reliability,
    )


def _about(fit: Fit) -> records.About:
    model, target = fit.model, fit.compared.schema.target
    return records.About(
        kind="table",
        version=records.VERSION,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        title=f"{model.predicts} by {' in '.join(reversed(model.task_columns))}",
        target=model.predicts if model.quantile is None else f"the {model.predicts}",
        task=model.task,
        estimator=type(fit.compared.described).__name__,
        target_kind=target.kind,
        target_rule=target.why,
        family=target.family if target.kind == "regression" else None,
        horizon=model.horizon,
        notes=_notes(fit),
        warnings=fit.messages,
        python=fit.python,
        provenance=_provenance(fit),
    )


def _notes(fit: Fit) -> tuple[str, ...]:
    """Say what was left out."""
    schema, trials = fit.compared.schema, fit.compared.trials
    survey, features = schema.survey, schema.features
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


def _provenance(fit: Fit) -> records.Provenance:
    schema = fit.compared.schema
    versions = {"python": platform.python_version(), "crosslearning": crosslearning.__version__}
    return records.Provenance(
        command=fit.command,
        seed=schema.settings.seed,
        seconds=round(clock.monotonic() - fit.started, 3),
        dropped=schema.survey.dropped,
        versions=versions | {name: version(name) for name in _LIBRARIES},
        fingerprint=fit.compared.rows.fingerprint,
        columns=tuple(
            records.UsedColumn(name=c.name, type=c.type, levels=c.levels, missing=c.missing)
            for c in schema.features.used
        ),
    )


def _useless(fit: Fit) -> str:
    """Say that no model is better than the baseline, if none is."""
    trials, baseline = fit.compared.trials, fit.compared.rows.baseline
    best = fit.metric.reported(float(trials.means.max()))
    if best < baseline if fit.metric.error else best > baseline:
        return ""
    return (
        f"No model is better than predicting {fit.baseline_name}, which gives {number(baseline)}. "
    )


def _score(fit: Fit) -> records.Score:
    """Return the metric, and what the baseline and the choice of a model score by it."""
    made, metric = fit.compared, fit.metric
    baseline, words = made.rows.baseline, made.schema.words
    nested = metric.reported(made.trials.nested_score)
    return records.Score(
        metric=metric.name,
        name=metric.words,
        greater_is_better=not metric.error,
        baseline=baseline,
        nested=nested,
        rows=words,
        explanation=f"{words}, mean over tasks; predicting {fit.baseline_name} gives "
        f"{number(baseline)}; choosing the model without the rows that it is scored on gives "
        f"{number(nested)}",
    )


def _models(fit: Fit) -> tuple[records.ModelScore, ...]:
    """Everything that was tried, best first."""
    trials = fit.compared.trials
    means, values, reported = trials.means, trials.scores.by_task, fit.metric.reported
    errors, best = _errors(fit), trials.names.index(trials.chosen.name)
    order = np.argsort(means[best] - means, kind="stable").tolist()
    return tuple(
        records.ModelScore(
            name=candidate.name,
            label=candidate.label,
            kind=candidate.end,
            score=reported(float(means[k])),
            error=errors[k],
            standard_error=standard_error(trials.scores, k),
            difference=float(means[best] - means[k]),
            difference_error=paired(values[best], values[k])[1],
            seconds=round(trials.seconds[candidate.name], 3),
            chosen=k == best,
        )
        for k, candidate in ((k, trials.candidates[k]) for k in order)
    )


def _errors(fit: Fit) -> NDArray[np.float64]:
    """Typical errors of models in units of the target, or percentages that are correct."""
    means = over_tasks(fit.compared.trials.plain)
    if fit.model.classes is not None:
        return 100.0 * means
    return -means if fit.metric.quantile is not None else np.sqrt(np.maximum(-means, 0.0))


def _typical_error(fit: Fit) -> records.TypicalError:
    trials, classes = fit.compared.trials, fit.model.classes is not None
    what = "percent correct" if classes else "root mean squared error"
    return records.TypicalError(
        value=_errors(fit)[trials.names.index(trials.chosen.name)],
        what=what if fit.metric.quantile is None else fit.metric.words,
        unit=fit.model.target,
        percent_correct=classes,
    )


def _chosen_model(fit: Fit) -> records.ChosenModel:
    trials = fit.compared.trials
    bases = [trials.named(name).base for name in trials.parts]
    return records.ChosenModel(
        name=trials.chosen.name,
        label=trials.chosen.label,
        why=verdicts.reason(fit.compared.trials, fit.compared.schema.words),
        parts=tuple(
            records.Part(name=c.name, label=c.label, weight=w) for c, w in trials.listed_parts
        ),
        task_means=any("means" in BLOCKS.get(base, ()) for base in bases),
    )


def _holdout(fit: Fit) -> records.Holdout | None:
    """Score on another table."""
    if fit.held_out is None:
        return None
    scores = {fit.compared.trials.chosen.name: fit.held_out.score}
    return records.Holdout(rows=fit.held_out.rows, scores=scores)


def _center(fit: Fit) -> records.CenterSummary | None:
    """Summarise the centre, unless its features are principal axes."""
    model, sharing = fit.model, fit.compared.sharing
    if model.rotation is not None:
        return None
    levels = model.task_columns if len(sharing.groups_) else [model.task]
    return differences.center_summary(sharing, model.encoder.feature_names, levels)


def _size(rows: RowSummary) -> records.Size:
    counts = rows.counts
    return records.Size(
        tasks=len(counts),
        compared=len(rows.compared),
        rows=counts.sum(),
        smallest=counts.min(),
        largest=counts.max(),
    )


def _effects(fit: Fit) -> tuple[records.PartialEffect, ...]:
    """Partial effects of columns, unless these are too many."""
    sample, constant = fit.compared.schema.survey.sample, fit.compared.rows.constant
    return effects(fit.model, sample, constant) if fit.model.rotation is None else ()


def _tasks(
    made: Compared, some: NDArray[np.intp], place: NDArray[np.float64]
) -> tuple[records.TaskRow, ...]:
    model = made.described
    columns = (model.tasks_, made.rows.counts, model.distances_, model.forces_, place)
    return tuple(
        records.TaskRow(task=label, rows=rows, distance=distance, force=force, place=tuple(at))
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


def _gain_counts(gains: NDArray[np.float64]) -> tuple[records.GainCount, ...]:
    """Histogram of gains without its tails, whose tasks are listed."""
    low, high = np.quantile(gains, [0.005, 0.995])
    counts, edges = np.histogram(gains, bins=60, range=(low, high))
    return tuple(
        records.GainCount(low=a, high=b, count=count)
        for a, b, count in zip(edges[:-1], edges[1:], counts.tolist(), strict=True)
    )
