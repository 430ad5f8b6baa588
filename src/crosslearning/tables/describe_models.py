"""The models that were tried, and the one that is kept."""

import numpy as np

from crosslearning.evaluation.choice import standard_error
from crosslearning.evaluation.numbers import number
from crosslearning.tables.facts import guess_of
from crosslearning.tables.findings import (
    ChosenModel,
    Holdout,
    ModelError,
    ModelScore,
    Part,
    Score,
    TypicalError,
)
from crosslearning.tables.fit import Fit
from crosslearning.tables.learners.features import BLOCKS
from crosslearning.tables.learners.trials import over_tasks, paired
from crosslearning.tables.verdict import reason


def score(fit: Fit) -> Score:
    """Return the metric, and what a guess and the choice of a model score by it."""
    baseline, nested = fit.judge.baseline, fit.metric.shown(fit.trials.nested_score)
    choice = f"models were chosen {fit.words}"
    if not fit.held_out:
        choice = "choosing the model without the rows that it is scored on gives " + number(nested)
    return Score(
        metric=fit.metric.name,
        name=fit.metric.words,
        greater_is_better=not fit.metric.error,
        baseline=baseline,
        nested=nested,
        rows=fit.judge.words,
        explanation=f"{fit.judge.words}, mean over tasks; predicting "
        f"{guess_of(fit.target.kind, fit.model.quantile)} gives {number(baseline)}; {choice}",
    )


def holdout(fit: Fit) -> Holdout | None:
    """Scores on another table."""
    judge = fit.held_out
    if judge is None:
        return fit.holdout
    pairs = zip(judge.trials.names, judge.trials.means, strict=True)
    shown = {name: fit.metric.shown(float(mean)) for name, mean in pairs}
    return Holdout(rows=judge.counts.sum(), scores=shown)


def models(fit: Fit) -> tuple[ModelScore, ...]:
    """Everything that was tried, best first."""
    trials, folds = fit.judge.trials, dict(zip(fit.trials.names, fit.trials.means, strict=True))
    means, values, shown = trials.means, trials.scores.by_task, fit.metric.shown
    best = trials.names.index(trials.chosen.name)
    order = np.argsort(means[best] - means, kind="stable").tolist()
    return tuple(
        ModelScore(
            name=candidate.name,
            label=candidate.label,
            kind=candidate.end,
            score=shown(float(means[k])),
            folds=shown(float(folds[candidate.name])) if fit.held_out else None,
            standard_error=standard_error(trials.scores, k),
            difference=float(means[best] - means[k]),
            difference_error=paired(values[best], values[k])[1],
            seconds=round(trials.seconds[candidate.name], 3),
            chosen=k == best,
        )
        for k, candidate in ((k, trials.candidates[k]) for k in order)
    )


def chosen_model(fit: Fit) -> ChosenModel:
    """Return the model that is kept, and why."""
    trials = fit.judge.trials
    bases = [trials.named(name).base for name in trials.parts]
    return ChosenModel(
        name=trials.chosen.name,
        label=trials.chosen.label,
        why=reason(fit.trials, fit.words),
        parts=tuple(Part(**part) for part in trials.listed_parts),
        task_means=any("means" in BLOCKS.get(base, ()) for base in bases),
    )


def typical_error(fit: Fit) -> TypicalError:
    """Error of the chosen model in units of the target, or per cent correct, beside others."""
    classes, trials = fit.target.kind == "classification", fit.judge.trials
    chosen, means = trials.chosen, over_tasks(trials.plain)
    values = 100.0 * means if classes else np.sqrt(np.maximum(-means, 0.0))
    what = "percent correct" if classes else "root mean squared error"
    if fit.metric.quantile is not None:
        values, what = -means, fit.metric.words
    pairs = sorted(
        zip(trials.candidates, values, strict=True), key=lambda pair: pair[0] is not chosen
    )
    rows = [
        ModelError(name=c.name, label="this model" if c is chosen else c.label, value=value)
        for c, value in pairs
    ]
    return TypicalError(
        value=rows[0].value,
        unit=fit.target.name,
        rows=tuple(rows),
        what=what,
        percent_correct=classes,
    )
