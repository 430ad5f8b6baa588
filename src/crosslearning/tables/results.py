"""What a fit found, as plain data: the contents of ``results.json``."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import crosslearning
from crosslearning.evaluation import sentences
from crosslearning.evaluation.choice import standard_error
from crosslearning.evaluation.numbers import number
from crosslearning.evaluation.scores import Scores
from crosslearning.evaluation.scoring import Predicted
from crosslearning.tables.findings import spread
from crosslearning.tables.parameters import coefficients, map_of, parameters_of
from crosslearning.tables.plain import plain
from crosslearning.tables.trials import over_tasks
from crosslearning.tables.verdict import compared, reason, verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from crosslearning.evaluation import Comparison
    from crosslearning.tables.metrics import Metric
    from crosslearning.tables.rows import Rows
    from crosslearning.tables.schema import Features
    from crosslearning.tables.splits import Splits
    from crosslearning.tables.target import Target
    from crosslearning.tables.trials import Trials

__all__ = ["Fit", "results_of"]

VERSION = 2
_LIBRARIES = ("numpy", "pandas", "scikit-learn", "scipy")
_GUESSES = {
    "regression": "the mean of what was learned from",
    "classification": "the shares of the classes",
}


@dataclass(frozen=True, eq=False)
class Fit:
    """A fit of a table and all that is to be told of it.

    Attributes
    ----------
    estimator : estimator
        The chosen one, fitted on all rows.
    axes : array, optional
        Principal axes that its features are.
    names : list of str
        Names of the encoded features.
    frame : DataFrame
        The rows that were learned from.
    rows : Rows
        The same, as numbers.
    task : str
        Column of task labels.
    target : Target
        What was predicted.
    features : Features
        The columns that were learned from.
    trials : Trials
        What was tried.
    metric : Metric
        What it was scored by.
    splits : Splits
        Which rows were scored.
    settings : mapping
        Seed, command, seconds, notes, number of rows dropped: for the record.
    """

    estimator: Any
    axes: Any
    names: list[str]
    frame: pd.DataFrame
    rows: Rows
    task: str
    target: Target
    features: Features
    trials: Trials
    metric: Metric
    splits: Splits
    settings: Mapping[str, Any]


def results_of(fit: Fit) -> dict[str, Any]:
    """Collect the findings; errors are positive, and infinity is the string "inf"."""
    model, trials, metric = fit.estimator, fit.trials, fit.metric
    counts = np.bincount(fit.rows.codes, minlength=fit.rows.n_tasks)
    comparison = compared(trials, model.tasks_, counts)
    reference, guess = _baseline(fit), _GUESSES[fit.target.kind]
    parameters = parameters_of(model, fit.axes)
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
            "explanation": f"{fit.splits.words}, mean over tasks; predicting {guess} gives "
            f"{number(reference)}; choosing the model without the rows that it is scored on gives "
            f"{number(metric.shown(trials.nested_score))}",
        },
        "models": _models(fit),
        "chosen_model": {
            "name": trials.chosen.name,
            "label": trials.chosen.label,
            "why": reason(trials, fit.splits.words),
        },
        "typical_error": _typical(fit),
        "comparison": _comparison(comparison, metric),
        "tasks": _tasks(model, counts),
        "spread": spread(model, fit.names, fit.axes),
        "coefficients": coefficients(model, parameters, fit.names),
        "constant_within_tasks": _constant(fit),
        "map": map_of(parameters, np.inf),
        "notes": _notes(fit),
        "provenance": _provenance(fit),
        **_bound(model),
    }
    result: dict[str, Any] = plain(found)
    return result


def _useless(fit: Fit, reference: float, guess: str) -> str:
    best = float(fit.trials.means.max())
    if best > (-reference if fit.metric.error else reference):
        return ""
    return f"No model is better than predicting {guess}, which gives {number(reference)}. "


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


def _baseline(fit: Fit) -> float:
    """Score of predicting the mean, or the shares of the classes, of the training parts."""
    by_split = [_guessed(fit, train, test) for train, test in fit.splits.parts]
    scores, weights = (np.stack(part) for part in zip(*by_split, strict=True))
    return fit.metric.shown(float(np.nanmean(Scores(["guess"], scores[None], weights).by_task[0])))


def _guessed(fit: Fit, train: NDArray[Any], test: NDArray[Any]) -> Any:
    """Score and weight by task of a guess that knows the training part only."""
    known, part = fit.rows.y[train], fit.rows.take(test)
    n, classes = len(part.y), fit.rows.classes
    if classes is None:
        said = Predicted(np.full(n, known.mean()))
    else:
        counts = np.bincount(np.searchsorted(classes, known), minlength=len(classes))
        shares = np.maximum(counts, 0.5) / np.maximum(counts, 0.5).sum()
        said = Predicted(np.full(n, classes[shares.argmax()]), classes, np.tile(shares, (n, 1)))
    return fit.metric.of_tasks(part.y, said, part.given_weights, part.codes, fit.rows.n_tasks)


def _constant(fit: Fit) -> list[str]:
    """Features that do not vary within any task: their coefficients tell nothing of tasks."""
    X, codes, n_tasks = fit.rows.X, fit.rows.codes, fit.rows.n_tasks
    if fit.axes is not None:
        return []
    first = np.zeros(n_tasks, dtype=np.intp)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    found = []
    for j, name in enumerate(fit.names):
        if np.array_equal(X[:, j], X[first[codes], j]):
            found.append(name)
    return found


def _bound(model: Any) -> dict[str, Any]:
    """Tell the bound on distances, if there is one."""
    radius, end = model.epsilon_, model.epsilon_max_
    if not np.isfinite(radius):
        return {}
    share = min(radius / end, 1.0) if end > 0 else 1.0
    return {"chosen": {"all": {"epsilon": radius, "epsilon_max": end, "share": share}}}


def _comparison(comparison: Comparison, metric: Metric) -> dict[str, Any]:
    overall = comparison.summary.to_dict("index")
    sign = -1.0 if metric.error else 1.0
    tasks = comparison.tasks.assign(**{m: sign * comparison.tasks[m] for m in comparison.methods})
    return {
        "overall": [
            {"method": method, **row, "score": sign * row["score"]}
            for method, row in overall.items()
        ],
        "tasks": [
            {"task": label, **row}
            for label, row in zip(comparison.labels, tasks.to_dict("records"), strict=True)
        ],
    }


def _tasks(model: Any, counts: NDArray[np.int64]) -> list[dict[str, Any]]:
    return [
        {"task": label, "rows": rows, "distance": {"all": distance}, "force": {"all": force}}
        for label, rows, distance, force in zip(
            model.tasks_, counts, model.distances_, model.forces_, strict=True
        )
    ]


def _notes(fit: Fit) -> list[str]:
    """Say what was left out."""
    dropped = fit.settings["dropped"]
    rows = f"{dropped:,} row{'s' * (dropped > 1)} without a target left out"
    left_out = [
        f"column {column.name} left out: {column.reason}" for column in fit.features.ignored
    ]
    return [*[rows] * (dropped > 0), *left_out, *fit.settings["notes"]]


def _provenance(fit: Fit) -> dict[str, Any]:
    columns = [
        {"name": c.name, "type": c.type, "levels": c.levels, "missing": c.missing}
        for c in fit.features.used
    ]
    used = [fit.task, fit.target.name, *(column["name"] for column in columns)]
    versions = {"python": platform.python_version(), "crosslearning": crosslearning.__version__}
    kept = {name: value for name, value in fit.settings.items() if name != "notes"}
    return {
        **kept,
        "versions": versions | {name: version(name) for name in _LIBRARIES},
        "fingerprint": _fingerprint(fit.frame[used]),
        "rows": len(fit.frame),
        "columns": columns,
    }


def _fingerprint(frame: pd.DataFrame) -> str:
    """SHA-256 of the values and the names of the columns."""
    digest = hashlib.sha256("\n".join(frame.columns).encode())
    for name in frame.columns:
        digest.update(pd.util.hash_pandas_object(frame[name], index=False).to_numpy().tobytes())
    return digest.hexdigest()
