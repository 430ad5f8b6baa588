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
from crosslearning.evaluation.numbers import number
from crosslearning.tables.parameters import coefficients, map_of, parameters_of
from crosslearning.tables.plain import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crosslearning.evaluation import Comparison
    from crosslearning.tables.schema import Features
    from crosslearning.tables.target import Target

__all__ = ["Fit", "results_of"]

VERSION = 1
_LIBRARIES = ("numpy", "pandas", "scikit-learn", "scipy")
_SCORES = {
    "regression": ("mean squared error", "the mean of all rows"),
    "classification": ("log loss", "the shares of the classes"),
}


@dataclass(frozen=True, eq=False)
class Fit:
    """A fit of a table and all that is to be told of it.

    Attributes
    ----------
    estimator : CrossRidgeCV or CrossLogisticRegressionCV
        Fitted.
    names : list of str
        Names of the encoded features.
    rows : DataFrame
        The rows that were learned from.
    task : str
        Column of task labels.
    target : Target
        What was predicted.
    features : Features
        The columns that were learned from.
    settings : mapping
        Seed, command, seconds and number of rows dropped: for the record.
    """

    estimator: Any
    names: list[str]
    rows: pd.DataFrame
    task: str
    target: Target
    features: Features
    settings: Mapping[str, Any]


def results_of(fit: Fit) -> dict[str, Any]:
    """Collect the findings; errors are positive, and infinity is the string "inf"."""
    model, kind = fit.estimator, fit.target.kind
    name, guess = _SCORES[kind]
    reference = _baseline(fit.target, fit.rows[fit.task])
    parameters = parameters_of(model)
    radius = model.epsilon_ if isinstance(model.epsilon_, float) else np.inf
    found = {
        "kind": "table",
        "version": VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "title": f"{fit.target.name} by {fit.task}",
        "target": fit.target.name,
        "task": fit.task,
        "estimator": type(model).__name__,
        "target_kind": kind,
        "target_rule": fit.target.why,
        "sentence": sentences.useless(model.comparison_, reference, guess)
        + sentences.verdict(model.comparison_, name),
        "remarks": sentences.extremes(model.comparison_, fit.task, name),
        "score": {
            "name": name,
            "greater_is_better": False,
            "baseline": reference,
            "explanation": f"on rows not seen, mean over tasks; predicting {guess} gives "
            f"{number(reference)}",
        },
        "comparison": _comparison(model.comparison_),
        "path": _paths(model),
        "chosen": _chosen(model),
        "alpha": model.alpha_,
        "tether": model.tether_,
        "tasks": _tasks(model),
        "coefficients": coefficients(model, fit.names),
        "map": map_of(parameters, radius),
        "notes": _notes(fit),
        "provenance": _provenance(fit),
    }
    result: dict[str, Any] = plain(found)
    return result


def _baseline(target: Target, tasks: pd.Series[Any]) -> float:
    """Error of predicting the mean, or the shares of the classes, averaged over tasks."""
    values = pd.Series(target.y)
    if target.kind == "regression":
        errors = np.square(target.y - target.y.mean())
    else:
        errors = -np.log(values.map(values.value_counts(normalize=True)).to_numpy())
    return float(pd.Series(errors).groupby(tasks.to_numpy()).mean().mean())


def _comparison(comparison: Comparison) -> dict[str, Any]:
    overall = comparison.summary.to_dict("index")
    tasks = comparison.tasks.assign(**{m: -comparison.tasks[m] for m in comparison.methods})
    return {
        "overall": [
            {"method": method, **row, "score": -row["score"]} for method, row in overall.items()
        ],
        "tasks": [
            {"task": label, **row}
            for label, row in zip(comparison.labels, tasks.to_dict("records"), strict=True)
        ],
    }


def _by_block(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"all": value}


def _paths(model: Any) -> dict[str, Any]:
    scores = _by_block(model.score_path_)
    return {
        block: [
            {"epsilon": radius, "score": mean, "low": mean - spread, "high": mean + spread}
            for radius, mean, spread in zip(
                radii, -scores[block].mean(axis=1), scores[block].std(axis=1), strict=True
            )
        ]
        for block, radii in _by_block(model.epsilons_).items()
    }


def _chosen(model: Any) -> dict[str, Any]:
    ends = _by_block(model.epsilon_max_)
    return {
        block: {"epsilon": radius, "epsilon_max": ends[block], "share": _share(radius, ends[block])}
        for block, radius in _by_block(model.epsilon_).items()
    }


def _share(radius: float, end: float) -> float:
    """Where a radius lies between one pooled model, 0, and separate ones, 1."""
    if radius == 0:
        return 0.0
    return 1.0 if radius >= end else radius / end


def _tasks(model: Any) -> list[dict[str, Any]]:
    distances, forces = _by_block(model.distances_), _by_block(model.forces_)
    counts = model.comparison_.rows
    return [
        {
            "task": label,
            "rows": counts[i],
            "distance": {block: values[i] for block, values in distances.items()},
            "force": {block: values[i] for block, values in forces.items()},
        }
        for i, label in enumerate(model.tasks_)
    ]


def _notes(fit: Fit) -> list[str]:
    """Say what was left out."""
    dropped = fit.settings["dropped"]
    rows = f"{dropped:,} row{'s' * (dropped > 1)} without a target left out"
    return [rows] * (dropped > 0) + [
        f"column {column.name} left out: {column.reason}" for column in fit.features.ignored
    ]


def _provenance(fit: Fit) -> dict[str, Any]:
    columns = [
        {"name": c.name, "type": c.type, "levels": c.levels, "missing": c.missing}
        for c in fit.features.used
    ]
    used = [fit.task, fit.target.name, *(column["name"] for column in columns)]
    versions = {"python": platform.python_version(), "crosslearning": crosslearning.__version__}
    return {
        **fit.settings,
        "versions": versions | {name: version(name) for name in _LIBRARIES},
        "fingerprint": _fingerprint(fit.rows[used]),
        "rows": len(fit.rows),
        "columns": columns,
    }


def _fingerprint(frame: pd.DataFrame) -> str:
    """SHA-256 of the values and the names of the columns."""
    digest = hashlib.sha256("\n".join(frame.columns).encode())
    for name in frame.columns:
        digest.update(pd.util.hash_pandas_object(frame[name], index=False).to_numpy().tobytes())
    return digest.hexdigest()
