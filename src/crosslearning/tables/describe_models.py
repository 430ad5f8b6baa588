"""A fit to be described: the models that were tried, and the one that is kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.evaluation.choice import standard_error
from crosslearning.evaluation.numbers import number
from crosslearning.tables.checks import Checks, RowSummary, baseline_name
from crosslearning.tables.final import HeldOutScores
from crosslearning.tables.findings import (
    ChosenModel,
    Holdout,
    ModelScore,
    PartialEffect,
    Score,
    TypicalError,
)
from crosslearning.tables.learners.features import BLOCKS
from crosslearning.tables.learners.trials import Trials, over_tasks, paired
from crosslearning.tables.metrics import Metric
from crosslearning.tables.model import TableModel
from crosslearning.tables.schema import Schema
from crosslearning.tables.verdict import reason


@dataclass(frozen=True, eq=False, kw_only=True)
class Fit:
    """A fit of a table; `estimator`, linear in the columns, is the one whose tasks are described.

    `words` say which rows models were scored on; `sharing` is the estimator that says how much
    tasks differ; `held_out` has the scores of all models on another table, `holdout` those of some
    if it was read in chunks.
    """

    model: TableModel
    schema: Schema
    trials: Trials
    words: str
    rows: RowSummary
    checks: Checks
    effects: tuple[PartialEffect, ...]
    estimator: Any
    sharing: Any
    held_out: HeldOutScores | None
    holdout: Holdout | None
    notes: Sequence[str]
    command: str
    python: str
    seconds: float

    @property
    def scored(self) -> HeldOutScores:
        """The scores that decide the verdict: those on another table, or on held-out rows."""
        if self.held_out:
            return self.held_out
        among, counts = self.rows.compared, self.rows.counts
        labels = self.estimator.tasks_[among]
        return HeldOutScores(self.trials, labels, counts[among], self.rows.baseline, self.words)

    @property
    def metric(self) -> Metric:
        """What models were chosen by."""
        return self.schema.metric

    @property
    def baseline_name(self) -> str:
        """What the baseline predicts."""
        return baseline_name(self.schema.target.kind, self.metric.quantile)


def score(fit: Fit) -> Score:
    """Return the metric, and what the baseline and the choice of a model score by it."""
    metric, baseline, words = fit.metric, fit.scored.baseline, fit.scored.words
    nested = metric.reported(fit.trials.nested_score)
    choice = f"models were chosen {fit.words}"
    if not fit.held_out:
        choice = "choosing the model without the rows that it is scored on gives " + number(nested)
    return Score(
        metric=metric.name,
        name=metric.words,
        greater_is_better=not metric.error,
        baseline=baseline,
        nested=nested,
        rows=words,
        explanation=f"{words}, mean over tasks; predicting {fit.baseline_name} gives "
        f"{number(baseline)}; {choice}",
    )


def models(fit: Fit) -> tuple[ModelScore, ...]:
    """Everything that was tried, best first."""
    trials, folds = fit.scored.trials, dict(zip(fit.trials.names, fit.trials.means, strict=True))
    means, values, reported = trials.means, trials.scores.by_task, fit.metric.reported
    errors, best = _errors(fit), trials.names.index(trials.chosen.name)
    order = np.argsort(means[best] - means, kind="stable").tolist()
    return tuple(
        ModelScore(
            name=candidate.name,
            label=candidate.label,
            kind=candidate.end,
            score=reported(float(means[k])),
            error=errors[k],
            folds=reported(float(folds[candidate.name])) if fit.held_out else None,
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
    means = over_tasks(fit.scored.trials.plain)
    if fit.schema.target.kind == "classification":
        return 100.0 * means
    return -means if fit.metric.quantile is not None else np.sqrt(np.maximum(-means, 0.0))


def typical_error(fit: Fit) -> TypicalError:
    """Error of the chosen model in units of the target, or the percentage that it gets right."""
    trials, classes = fit.scored.trials, fit.schema.target.kind == "classification"
    what = "percent correct" if classes else "root mean squared error"
    return TypicalError(
        value=_errors(fit)[trials.names.index(trials.chosen.name)],
        what=what if fit.metric.quantile is None else fit.metric.words,
        unit=fit.schema.target.name,
        percent_correct=classes,
    )


def chosen_model(fit: Fit) -> ChosenModel:
    """Return the model that is kept, and why."""
    trials = fit.scored.trials
    bases = [trials.named(name).base for name in trials.parts]
    return ChosenModel(
        name=trials.chosen.name,
        label=trials.chosen.label,
        why=reason(fit.trials, fit.words),
        parts=trials.listed_parts,
        task_means=any("means" in BLOCKS.get(base, ()) for base in bases),
    )


def holdout(fit: Fit) -> Holdout | None:
    """Scores on another table."""
    if fit.held_out is None:
        return fit.holdout
    trials = fit.held_out.trials
    scores = map(fit.metric.reported, trials.means.tolist())
    rows = fit.held_out.counts.sum()
    return Holdout(rows=rows, scores=dict(zip(trials.names, scores, strict=True)))
