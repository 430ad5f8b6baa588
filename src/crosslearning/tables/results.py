"""What a fit found, as plain data: the contents of ``results.json``."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

import crosslearning
from crosslearning.evaluation import Comparison, sentences
from crosslearning.evaluation.choice import standard_error
from crosslearning.evaluation.numbers import number
from crosslearning.tables._facts import Facts
from crosslearning.tables.findings import spread
from crosslearning.tables.metrics import Metric
from crosslearning.tables.model import TableModel
from crosslearning.tables.parameters import coefficients, map_of, parameters_of
from crosslearning.tables.plain import plain
from crosslearning.tables.schema import Features
from crosslearning.tables.target import Target
from crosslearning.tables.trials import Trials, over_tasks
from crosslearning.tables.verdict import compared, reason, verdict

VERSION = 2
_MOST_TASKS = 2000  # that are listed one by one
_ENDS = (slice(None, 40), slice(-40, None))
_LIBRARIES = ("numpy", "pandas", "scikit-learn", "scipy")
_GUESSES = {
    "regression": "the mean of what was learned from",
    "classification": "the shares of the classes",
}


@dataclass(frozen=True, eq=False)
class Fit:
    """A fit of a table and all that is to be told of it."""

    estimator: Any
    axes: Any
    names: list[str]
    task: str
    target: Target
    features: Features
    trials: Trials
    metric: Metric
    words: str
    facts: Facts
    settings: Mapping[str, Any]


def with_results(
    model: TableModel, fit: Fit, findings: dict[str, Any], caught: list[Any], python: str
) -> TableModel:
    """Return a model with results; warn once of each thing that was warned of."""
    messages = list(dict.fromkeys(" ".join(str(w.message).split()) for w in caught))
    for message in messages:
        warnings.warn(message, stacklevel=3)
    more = {"command": fit.settings["command"], "python": python, "warnings": messages}
    return replace(model, results=_results(fit) | plain(findings | more))


def _results(fit: Fit) -> dict[str, Any]:
    """Collect the findings; errors are positive, and infinity is the string "inf"."""
    model, trials, metric = fit.estimator, fit.trials, fit.metric
    counts, among = fit.facts.counts, fit.facts.compared
    comparison = compared(trials, model.tasks_[among], counts[among])
    reference, guess = fit.facts.baseline, _GUESSES[fit.target.kind]
    parameters = parameters_of(model, fit.axes)
    listed = _some(comparison, model.distances_[among])
    some = among[listed]
    words = metric.words
    found = {
        "kind": "table",
        "version": VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "title": f"{fit.target.name} by {fit.task}",
        "target": fit.target.name,
        "task": fit.task,
        "estimator": type(model).__name__,
        "target_kind": fit.target.kind,
        "target_rule": fit.target.why,
        "family": fit.target.family if fit.target.kind == "regression" else None,
        "sentence": _useless(fit, reference, guess) + verdict(comparison, trials, words),
        "remarks": sentences.extremes(comparison, fit.task, words),
        "score": {
            "name": words,
            "greater_is_better": not metric.error,
            "baseline": reference,
            "nested": metric.shown(trials.nested_score),
            "explanation": f"{fit.words}, mean over tasks; predicting {guess} gives "
            f"{number(reference)}; choosing the model without the rows that it is scored on gives "
            f"{number(metric.shown(trials.nested_score))}",
        },
        "models": _models(fit),
        "chosen_model": {
            "name": trials.chosen.name,
            "label": trials.chosen.label,
            "why": reason(trials, fit.words),
            "parts": _parts(trials),
        },
        "described_model": trials.described.label,
        "typical_error": _typical(fit),
        "comparison": _comparison(comparison, metric, listed),
        "size": {
            "tasks": len(counts),
            "compared": len(among),
            "rows": counts.sum(),
            "smallest": counts.min(),
            "largest": counts.max(),
        },
        "tasks": _tasks(model, counts, some),
        "spread": spread(model, fit.names, fit.axes),
        "coefficients": coefficients(model, parameters, fit.names, some),
        "constant_within_tasks": fit.facts.constant,
        "map": map_of(parameters, np.inf, some),
        "notes": _notes(fit),
        "provenance": _provenance(fit),
        **_bound(model),
        **({"gain_counts": _gain_counts(comparison)} if len(some) < len(counts) else {}),
    }
    result: dict[str, Any] = plain(found)
    return result


def _useless(fit: Fit, reference: float, guess: str) -> str:
    best = float(fit.trials.means.max())
    if best > (-reference if fit.metric.error else reference):
        return ""
    return f"No model is better than predicting {guess}, which gives {number(reference)}. "


def _parts(trials: Trials) -> list[dict[str, Any]]:
    """Models that make up the chosen one, and their weights."""
    labels = {c.name: c.label for c in trials.candidates}
    found = sorted(trials.parts.items(), key=lambda part: -part[1])
    return [{"name": n, "label": labels[n], "weight": weight} for n, weight in found]


def _models(fit: Fit) -> list[dict[str, Any]]:
    """Everything that was tried, best first."""
    trials, metric = fit.trials, fit.metric
    means, values = trials.means, trials.scores.by_task
    best = trials.names.index(trials.chosen.name)
    listed = []
    for k, candidate in enumerate(trials.candidates):
        differences = values[best] - values[k]
        differences = differences[np.isfinite(differences)]
        spread_of = differences.std(ddof=1) if len(differences) > 1 else 0.0
        listed.append(
            {
                "name": candidate.name,
                "label": candidate.label,
                "kind": candidate.sharing,
                "score": metric.shown(float(means[k])),
                "standard_error": standard_error(trials.scores, k),
                "difference": float(means[best] - means[k]),
                "difference_error": float(spread_of / max(len(differences), 1) ** 0.5),
                "seconds": round(trials.seconds[candidate.name], 3),
                "chosen": k == best,
            }
        )
    return sorted(listed, key=lambda row: row["difference"])


def _typical(fit: Fit) -> dict[str, Any]:
    """Error of the chosen model in units of the target, or per cent correct, beside others."""
    trials = fit.trials
    classes = fit.target.kind == "classification"
    means = dict(zip(trials.names, over_tasks(trials.plain), strict=True))
    value = {
        name: 100.0 * float(score) if classes else max(-float(score), 0.0) ** 0.5
        for name, score in means.items()
    }
    others = [c for c in trials.candidates if c is not trials.chosen]
    rows = [{"label": "this model", "value": value[trials.chosen.name]}]
    rows += [{"label": c.label, "value": value[c.name]} for c in others]
    what = "percent correct" if classes else "root mean squared error"
    return {"value": value[trials.chosen.name], "unit": fit.target.name, "rows": rows, "what": what}


def _bound(model: Any) -> dict[str, Any]:
    """Tell the bound on distances, if there is one."""
    radius, end = model.epsilon_, model.epsilon_max_
    if not np.isfinite(radius):
        return {}
    share = min(radius / end, 1.0) if end > 0 else 1.0
    return {"chosen": {"all": {"epsilon": radius, "epsilon_max": end, "share": share}}}


def _some(comparison: Comparison, distances: NDArray[np.float64]) -> NDArray[np.intp]:
    """Tasks to list one by one: all, or of many those at the ends and some of the others."""
    n_tasks = len(distances)
    if n_tasks <= _MOST_TASKS:
        return np.arange(n_tasks)
    gains = _gains(comparison)
    ends = [np.argsort(values)[at] for values in (gains, distances) for at in _ENDS]
    evenly = np.linspace(0, n_tasks - 1, _MOST_TASKS - sum(map(len, ends))).astype(np.intp)
    return np.unique(np.concatenate([*ends, evenly]))


def _gains(comparison: Comparison) -> NDArray[np.float64]:
    """Gain of each task over its separate model, 0 where it has no scores."""
    gains = comparison.scores[-1] - comparison.scores[comparison.methods.index("separate")]
    return np.where(np.isfinite(gains), gains, 0.0)


def _gain_counts(comparison: Comparison) -> list[dict[str, Any]]:
    """Count gains; the few that are far out, which are among the extremes, are left aside."""
    values = _gains(comparison)
    low, high = np.quantile(values, [0.005, 0.995])
    counts, edges = np.histogram(values, bins=60, range=(low, high))
    return [
        {"low": a, "high": b, "gain": a + b, "count": count}
        for a, b, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]


def _comparison(comparison: Comparison, metric: Metric, some: NDArray[np.intp]) -> dict[str, Any]:
    overall = comparison.summary.to_dict("index")
    sign = -1.0 if metric.error else 1.0
    tasks = comparison.tasks.iloc[some]
    tasks = tasks.assign(**{m: sign * tasks[m] for m in comparison.methods})
    return {
        "overall": [
            {"method": method, **row, "score": sign * row["score"]}
            for method, row in overall.items()
        ],
        "tasks": [
            {"task": label, **row}
            for label, row in zip(comparison.labels[some], tasks.to_dict("records"), strict=True)
        ],
    }


def _tasks(model: Any, counts: NDArray[np.int64], some: NDArray[np.intp]) -> list[dict[str, Any]]:
    return [
        {"task": label, "rows": rows, "distance": {"all": distance}, "force": {"all": force}}
        for label, rows, distance, force in zip(
            model.tasks_[some],
            counts[some],
            model.distances_[some],
            model.forces_[some],
            strict=True,
        )
    ]


def _notes(fit: Fit) -> list[str]:
    """Say what was left out."""
    dropped = fit.settings["dropped"]
    rows = f"{dropped:,} row{'s' * (dropped > 1)} without a target left out"
    left_out = [
        f"column {column.name} left out: {column.reason}" for column in fit.features.ignored
    ]
    described, chosen = fit.trials.described, fit.trials.chosen
    told = f"coefficients, and how much tasks differ, are those of another model: {described.label}"
    other = [told] * (described is not chosen)
    return [*[rows] * (dropped > 0), *left_out, *fit.settings["notes"], *other]


def _provenance(fit: Fit) -> dict[str, Any]:
    columns = [
        {"name": c.name, "type": c.type, "levels": c.levels, "missing": c.missing}
        for c in fit.features.used
    ]
    versions = {"python": platform.python_version(), "crosslearning": crosslearning.__version__}
    kept = {name: value for name, value in fit.settings.items() if name != "notes"}
    return {
        **kept,
        "versions": versions | {name: version(name) for name in _LIBRARIES},
        "fingerprint": fit.facts.fingerprint,
        "rows": int(fit.facts.counts.sum()),
        "columns": columns,
    }
