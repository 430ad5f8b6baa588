"""What a fit found, as plain data: the contents of ``results.json``."""

import platform
import warnings
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import crosslearning
from crosslearning.evaluation import sentences
from crosslearning.evaluation.choice import standard_error
from crosslearning.evaluation.numbers import number
from crosslearning.evaluation.plain import plain
from crosslearning.tables.columns.schema import Features
from crosslearning.tables.columns.target import Target
from crosslearning.tables.facts import Facts, guess_of
from crosslearning.tables.final import Judge
from crosslearning.tables.findings import spread
from crosslearning.tables.learners.trials import Trials, over_tasks, paired
from crosslearning.tables.metrics import Metric, metric_of
from crosslearning.tables.model import TableModel
from crosslearning.tables.parameters import coefficients, map_of, standardised
from crosslearning.tables.verdict import (
    Verdict,
    beyond_linear,
    compared,
    labels_of,
    reason,
    sentence,
    verdict_of,
)

_MOST_TASKS = 2000  # that are listed one by one
_ENDS = (slice(None, 40), slice(-40, None))
_LIBRARIES = ("numpy", "pandas", "scikit-learn", "scipy")


class Fit(NamedTuple):
    """A fit of a table; `estimator`, linear in the columns, is the one whose tasks are described.

    `words` say which rows models were scored on; `sharing` is the estimator that says how much
    tasks differ, if there is one; `held_out` has the scores on another table.
    """

    model: TableModel
    estimator: Any
    target: Target
    features: Features
    trials: Trials
    words: str
    facts: Facts
    settings: Mapping[str, Any]
    sharing: Any = None
    held_out: Judge | None = None

    @property
    def judge(self) -> Judge:
        """The scores that decide what is said: those on another table, or on held-out rows."""
        among, counts = self.facts.compared, self.facts.counts
        labels = self.estimator.tasks_[among]
        own = Judge(self.trials, labels, counts[among], self.facts.baseline, self.words)
        return self.held_out or own

    @property
    def metric(self) -> Metric:
        """What models were chosen by."""
        return metric_of(self.model.metric, self.target.kind, self.model.quantile)

    @property
    def goal(self) -> str:
        """What is predicted, within a sentence."""
        return "the " * (self.model.quantile is not None) + self.model.predicts


def with_results(fit: Fit, findings: dict[str, Any], caught: list[Any], python: str) -> TableModel:
    """Return the model with its results, and repeat each warning once."""
    messages = list(dict.fromkeys(" ".join(str(w.message).split()) for w in caught))
    for message in messages:
        warnings.warn(message, stacklevel=3)
    more = {"command": fit.settings["command"], "python": python, "warnings": messages}
    return replace(fit.model, results=plain(_results(fit) | findings | more))


def _results(fit: Fit) -> dict[str, Any]:
    """Collect the findings; errors are positive."""
    judge, facts = fit.judge, fit.facts
    model, among, trials = fit.estimator, facts.compared, judge.trials
    comparison = compared(trials, judge.labels, judge.counts)
    verdict = verdict_of(comparison, trials)
    shown = listed = _some(verdict, model.distances_[among])
    if fit.held_out:  # which may have other tasks
        shown = _some(verdict, np.zeros(len(judge.counts)))
        listed = np.arange(len(among))[:_MOST_TASKS]
    return {
        "kind": "table",
        "version": 2,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "title": f"{fit.model.predicts} by {fit.model.task}",
        "target": fit.goal,
        "task": fit.model.task,
        "estimator": type(model).__name__,
        "target_kind": fit.target.kind,
        "target_rule": fit.target.why,
        "family": fit.target.family if fit.target.kind == "regression" else None,
        "sentence": _useless(fit) + sentence(verdict, trials, fit.metric.words),
        "beyond_linear": beyond_linear(trials, comparison, fit.metric.words),
        "remarks": sentences.extremes(
            comparison, fit.model.task, fit.metric.words, shared="with this model"
        ),
        "score": _score(fit),
        "models": _models(fit),
        "chosen_model": {
            "name": trials.chosen.name,
            "label": trials.chosen.label,
            "why": reason(fit.trials, fit.words),
            "parts": trials.listed_parts,
        },
        "described_model": trials.described.label,
        "typical_error": _typical(fit),
        "horizon": fit.model.horizon,
        "comparison": _comparison(verdict, trials, fit.metric, shown),
        "notes": _notes(fit),
        "provenance": _provenance(fit),
        **_tasks(fit, among[listed]),
        **({"chosen": {"all": {"epsilon": model.epsilon_}}} if np.isfinite(model.epsilon_) else {}),
        **({"gain_counts": _gain_counts(verdict)} if len(shown) < len(judge.counts) else {}),
        **({"holdout": _holdout(fit.metric, fit.held_out)} if fit.held_out else {}),
    }


def _useless(fit: Fit) -> str:
    best, guessed = fit.metric.shown(float(fit.judge.trials.means.max())), fit.judge.baseline
    if best < guessed if fit.metric.error else best > guessed:
        return ""
    guess = guess_of(fit.target.kind, fit.model.quantile)
    return f"No model is better than predicting {guess}, which gives {number(guessed)}. "


def _score(fit: Fit) -> dict[str, Any]:
    baseline, nested = fit.judge.baseline, fit.metric.shown(fit.trials.nested_score)
    choice = f"models were chosen {fit.words}"
    if not fit.held_out:
        choice = "choosing the model without the rows that it is scored on gives " + number(nested)
    return {
        "name": fit.metric.words,
        "greater_is_better": not fit.metric.error,
        "baseline": baseline,
        "nested": nested,
        "rows": fit.judge.words,
        "explanation": f"{fit.judge.words}, mean over tasks; predicting "
        f"{guess_of(fit.target.kind, fit.model.quantile)} gives {number(baseline)}; {choice}",
    }


def _holdout(metric: Metric, judge: Judge) -> dict[str, Any]:
    scores = zip(judge.trials.names, judge.trials.means, strict=True)
    shown = {name: metric.shown(float(score)) for name, score in scores}
    return {"rows": judge.counts.sum(), "scores": shown}


def _models(fit: Fit) -> list[dict[str, Any]]:
    """Everything that was tried, best first."""
    trials, folds = fit.judge.trials, dict(zip(fit.trials.names, fit.trials.means, strict=True))
    means, values = trials.means, trials.scores.by_task
    best = trials.names.index(trials.chosen.name)
    listed = [
        {
            "name": candidate.name,
            "label": candidate.label,
            "kind": candidate.end,
            "score": fit.metric.shown(float(means[k])),
            **({"folds": fit.metric.shown(float(folds[candidate.name]))} if fit.held_out else {}),
            "standard_error": standard_error(trials.scores, k),
            "difference": float(means[best] - means[k]),
            "difference_error": paired(values[best], values[k])[1],
            "seconds": round(trials.seconds[candidate.name], 3),
            "chosen": k == best,
        }
        for k, candidate in enumerate(trials.candidates)
    ]
    return sorted(listed, key=lambda row: row["difference"])


def _typical(fit: Fit) -> dict[str, Any]:
    """Error of the chosen model in units of the target, or per cent correct, beside others."""
    classes, trials = fit.target.kind == "classification", fit.judge.trials
    chosen, means = trials.chosen, over_tasks(trials.plain)
    values = 100.0 * means if classes else np.sqrt(np.maximum(-means, 0.0))
    what = "percent correct" if classes else "root mean squared error"
    if fit.metric.quantile is not None:
        values, what = -means, fit.metric.words
    labels = ["this model" if c is chosen else c.label for c in trials.candidates]
    rows = [{"label": label, "value": v} for label, v in zip(labels, values, strict=True)]
    rows.sort(key=lambda row: row["label"] != "this model")
    return {"value": rows[0]["value"], "unit": fit.target.name, "rows": rows, "what": what}


def _some(verdict: Verdict, distances: NDArray[np.float64]) -> NDArray[np.intp]:
    """Tasks to list one by one: all, or of many those at the ends and some of the others."""
    n_tasks = len(distances)
    if n_tasks <= _MOST_TASKS:
        return np.arange(n_tasks)
    gains = _gains(verdict)
    ends = [np.argsort(values)[at] for values in (gains, distances) for at in _ENDS]
    evenly = np.linspace(0, n_tasks - 1, _MOST_TASKS - sum(map(len, ends))).astype(np.intp)
    return np.unique(np.concatenate([*ends, evenly]))


def _gains(verdict: Verdict) -> NDArray[np.float64]:
    """Gain of each task over what the verdict compares with, 0 where it has no scores."""
    comparison = verdict.comparison
    gains = comparison.scores[-1] - comparison.scores[comparison.methods.index(verdict.against)]
    return np.where(np.isfinite(gains), gains, 0.0)


def _gain_counts(verdict: Verdict) -> list[dict[str, Any]]:
    """Histogram of gains without its tails, whose tasks are listed."""
    values = _gains(verdict)
    low, high = np.quantile(values, [0.005, 0.995])
    counts, edges = np.histogram(values, bins=60, range=(low, high))
    return [
        {"low": a, "high": b, "gain": a + b, "count": count}
        for a, b, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]


def _comparison(
    verdict: Verdict, trials: Trials, metric: Metric, some: NDArray[np.intp]
) -> dict[str, Any]:
    comparison = verdict.comparison
    overall = comparison.summary.assign(score=lambda table: table["score"].map(metric.shown))
    tasks = comparison.tasks.iloc[some]
    tasks = tasks.assign(**{m: tasks[m].map(metric.shown) for m in comparison.methods})
    return {
        "overall": overall.reset_index(names="method").to_dict("records"),
        "tasks": tasks.reset_index().to_dict("records"),
        "n_tasks": comparison.n_tasks,
        "effect": verdict.effect.name.lower(),
        "against": verdict.against,
        "labels": labels_of(trials),
    }


def _tasks(fit: Fit, some: NDArray[np.intp]) -> dict[str, Any]:
    """Tell of the tasks, some of which are listed: sizes, distances and parameters."""
    model, counts, rotation = fit.estimator, fit.facts.counts, fit.model.rotation
    axes, names = getattr(rotation, "axes", None), fit.model.encoder.feature_names
    coef, intercept = standardised(model, axes)
    shown = np.append(some, len(coef) - 1)
    facts = (model.tasks_[some], counts[some], model.distances_[some], model.forces_[some])
    return {
        "size": {
            "tasks": len(counts),
            "compared": len(fit.facts.compared),
            "rows": counts.sum(),
            "smallest": counts.min(),
            "largest": counts.max(),
        },
        "tasks": [
            {"task": label, "rows": rows, "distance": {"all": distance}, "force": {"all": force}}
            for label, rows, distance, force in zip(*facts, strict=True)
        ],
        "spread": fit.sharing and spread(fit.sharing, names, axes, fit.goal, fit.facts.constant),
        "coefficients": coefficients(model, coef[shown], intercept[shown], names),
        "constant_within_tasks": fit.facts.constant,
        "map": map_of(coef, intercept, some),
    }


def _notes(fit: Fit) -> list[str]:
    """Say what was left out."""
    unlabelled, described = fit.settings["unlabelled"], fit.trials.described
    spreading, chosen = fit.trials.spreading, fit.trials.chosen
    without = {"task": unlabelled, "target": fit.settings["dropped"] - unlabelled}
    rows = [
        f"{count:,} row{'s' * (count > 1)} without a {what} left out"
        for what, count in without.items()
        if count
    ]
    columns = [f"column {column.name} left out: {column.reason}" for column in fit.features.ignored]
    other = "coefficients and " * (described is not chosen)
    other += f"differences between tasks are those of: {spreading.label}"
    return [
        *rows,
        *columns,
        *(column.note for column in fit.features.used if column.note),
        *fit.settings["notes"],
        *[other] * (fit.sharing is not None and spreading is not chosen),
    ]


def _provenance(fit: Fit) -> dict[str, Any]:
    columns = [
        {"name": c.name, "type": c.type, "levels": c.levels, "missing": c.missing}
        for c in fit.features.used
    ]
    versions = {"python": platform.python_version(), "crosslearning": crosslearning.__version__}
    kept = {name: fit.settings[name] for name in ("command", "seed", "seconds", "dropped")}
    return {
        **kept,
        "versions": versions | {name: version(name) for name in _LIBRARIES},
        "fingerprint": fit.facts.fingerprint,
        "rows": fit.facts.counts.sum(),
        "columns": columns,
    }
