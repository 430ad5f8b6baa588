"""Predictions of a stored model, which may be a blend, and their scores.

Scikit-learn is not imported, which would take longer than most predictions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import softmax

from crosslearning.convex.families import family_of
from crosslearning.convex.predict import Predictor, Residuals, possible_ends
from crosslearning.tables.columns.recognition import as_numbers, class_codes
from crosslearning.tables.learners.features import Basis
from crosslearning.tables.learners.trees import Trees
from crosslearning.tables.metrics import Predictions, metric_of

if TYPE_CHECKING:
    from crosslearning.tables.model import TableModel

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
_SMALLEST = 1e-12  # probability of a class


def blend(parts: list[tuple[float, Any, dict[str, Any]]], basis: Basis | None) -> dict[str, Any]:
    """State of several models: weight, columns and state of each.

    Columns are positions in the output of the basis, or None for the features themselves. Files
    that lack `geometric` hold blends of probabilities themselves.
    """
    first = parts[0][2]["fitted"]
    shared = {name: first[name] for name in ("tasks_", "classes_") if name in first}
    return {"class": "Blend", "fitted": shared, "parts": parts, "basis": basis, "geometric": True}


def blended(weights: Array, predictions: Array) -> Array:
    """Weighted means over models, the first axis, or geometric means of probabilities of classes.

    Weights are those of models, or of models and rows.
    """
    if predictions.ndim < 3:
        return np.asarray((weights.reshape(len(weights), -1) * predictions).sum(axis=0))
    logs = np.log(np.maximum(predictions, _SMALLEST))
    by_row = weights.reshape(len(weights), -1, 1)
    return np.asarray(softmax((by_row * logs).sum(axis=0), axis=1))


def main_part(state: dict[str, Any]) -> dict[str, Any]:
    """State of the model with the largest weight."""
    if "parts" not in state:
        return state
    heaviest: dict[str, Any] = max(state["parts"], key=lambda part: part[0])[2]
    return heaviest


def count_trees(state: dict[str, Any]) -> int:
    """Count the trees that a prediction goes through."""
    parts = [part for *_, part in state["parts"]] if "parts" in state else [state]
    return sum(part["fitted"]["trees_"].size for part in parts if "trees_" in part["fitted"])


class _Member(NamedTuple):
    """A model of a blend: its weight in each row, features, tasks, and bounds of predictions."""

    weights: Array
    X: Array
    codes: Codes
    predictor: Predictor | Trees
    bounds: Array
    classes: list[Any]

    def probabilities(self, classes: list[Any]) -> Array:
        """Probabilities of classes, which a model of ordered ones has in another order."""
        places = [self.classes.index(label) for label in classes]
        return self.predictor.probabilities(self.X, self.codes)[:, places]


def is_in_fit(state: dict[str, Any], codes: Codes) -> NDArray[np.bool_]:
    """Whether codes are those of tasks of the fit."""
    return (codes >= 0) & (codes < len(state["fitted"]["tasks_"]))


def predictions(state: dict[str, Any], X: Array, codes: Codes) -> Array:
    """Means, or a column of probabilities for each class.

    The code -1 is a new task; of groups within groups, codes after those of the tasks are new tasks
    in known groups.
    """
    members = _members(state, X, codes)
    if "classes_" in state["fitted"]:
        classes = state["fitted"]["classes_"].tolist()
        shares = [m.probabilities(classes) for m in members]
        if state.get("geometric"):
            return blended(np.stack([m.weights for m in members]), np.stack(shares))
        parts = [m.weights[:, None] * share for m, share in zip(members, shares, strict=True)]
    else:
        parts = [m.weights * np.clip(m.predictor.means(m.X, m.codes), *m.bounds) for m in members]
    return np.asarray(sum(parts))


def forecast(state: dict[str, Any], X: Array, codes: Codes) -> tuple[Array, Array]:
    """Means of targets that are numbers, and their standard deviations."""
    mean, sd = np.zeros(len(X)), np.zeros(len(X))
    for member in _members(state, X, codes):
        means, sds = member.predictor.moments(member.X, member.codes)
        mean += member.weights * np.clip(means, *member.bounds)
        sd += member.weights * sds
    return mean, sd


def with_intervals(
    state: dict[str, Any], residuals: Residuals, X: Array, codes: Codes, coverage: float
) -> dict[str, Array]:
    """Predictions, ends of their intervals and standard deviations, by name."""
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"`coverage` must lie between 0 and 1; got {coverage}.")
    mean, sd = forecast(state, X, codes)
    main, in_fit = _attributes(main_part(state)), is_in_fit(state, codes)
    lower, upper = possible_ends(family_of(main), *residuals.ends(mean, sd, in_fit, coverage))
    if _bounds(main)[0] >= 0:
        lower = np.maximum(lower, 0.0)
    std = residuals.std(mean, sd, in_fit)
    return {"prediction": mean, "lower": lower, "upper": upper, "std": std}


def _members(state: dict[str, Any], X: Array, codes: Codes) -> list[_Member]:
    """Models of a blend, perhaps of one.

    New tasks are predicted without separate models if there are others, and new tasks in known
    groups without models of tasks that know no groups, if others do.
    """
    parts = state.get("parts", [(1.0, None, state)])
    basis: Basis | None = state.get("basis")
    by_task = np.where(is_in_fit(state, codes), codes, -1)
    Z = X if basis is None else basis.apply(X, by_task)
    weights = np.array([weight for weight, *_ in parts])
    structure = np.array([part["fitted"]["structure_"] for *_, part in parts])
    nested = np.array(["groups_" in part["fitted"] for *_, part in parts])
    for_new_tasks = _without(structure == "separate", weights)
    for_groups = for_new_tasks
    if nested.any():
        for_groups = _without(~nested & ~np.isin(structure, ("pooled", "trees")), weights)
    members = []
    for k, (weight, columns, part) in enumerate(parts):
        attributes = _attributes(part)
        covariance = None if basis is None or columns is None else basis.guessed(columns)
        features = X if covariance is None else Z[:, columns]
        trees: Trees | None = attributes.get("trees_")
        predictor = Predictor.of(attributes, covariance) if trees is None else trees
        by_row = np.where(codes < 0, for_new_tasks[k], for_groups[k])
        by_row = np.where(by_task < 0, by_row, weight)
        at = codes if nested[k] else by_task
        classes = list(attributes.get("classes_", ()))
        members.append(_Member(by_row, features, at, predictor, _bounds(attributes), classes))
    return members


def _without(dropped: NDArray[np.bool_], weights: Array) -> Array:
    """Weights without some, unless these are all."""
    kept = weights if dropped.all() else np.where(dropped, 0.0, weights)
    return np.asarray(kept / kept.sum())


def _attributes(state: dict[str, Any]) -> dict[str, Any]:
    """Parameters and fitted attributes of an estimator."""
    return {**state["parameters"], **state["fitted"]}


def _bounds(attributes: dict[str, Any]) -> Array:
    """Smallest and largest number to predict."""
    return np.asarray(attributes.get("bounds_", (-np.inf, np.inf)))


class Score(NamedTuple):
    """Name of a metric, score, and number of rows that were scored."""

    metric: str
    score: float
    rows: int


class Scorer:
    """Scores rows with a target, also in chunks: mean over tasks.

    New tasks count each; rows without a label count as one task. `weighted` is a column of weights,
    if the table has it.
    """

    def __init__(self, model: TableModel, weighted: str | None = None) -> None:
        self.weighted = weighted
        kind = "regression" if model.classes is None else "classification"
        self.model, self.metric = model, metric_of(model.metric, kind, model.quantile)
        self.new: dict[str, int] = {}  # numbers of new tasks
        self.n_tasks, self.rows = len(model.state["fitted"]["tasks_"]), 0
        self.sums, self.weights = np.zeros(self.n_tasks), np.zeros(self.n_tasks)

    def add(self, frame: pd.DataFrame) -> None:
        """Score some rows; an area under a curve cannot be added up from chunks."""
        target = self.model.target
        if target not in frame.columns or not frame[target].notna().any():
            return
        y, X, codes, rows = targets_of(self.model, frame)
        predicted = Predictions.of(predictions(self.model.state, X, codes), self.model.classes)
        new = ~is_in_fit(self.model.state, codes)
        names = self.model.written_labels(rows[new]).astype(object).map(str)  # or "None"
        codes[new] = [self.new.setdefault(n, self.n_tasks + len(self.new)) for n in names]
        n_tasks = self.n_tasks + len(self.new)
        self.sums.resize(n_tasks, refcheck=False)
        self.weights.resize(n_tasks, refcheck=False)
        row_weights = self.model.encoder.weights(rows, self.weighted)
        scores, weights = self.metric.of_tasks(y, predicted, row_weights, codes, n_tasks)
        self.sums += np.where(np.isfinite(scores), scores * weights, 0.0)
        self.weights += np.where(np.isfinite(scores), weights, 0.0)
        self.rows += len(y)

    @property
    def score(self) -> Score | None:
        """Score of all rows, if one has a target."""
        scored = self.weights > 0
        if not self.rows:
            return None
        score = float(np.mean(self.sums[scored] / self.weights[scored])) if scored.any() else np.nan
        return Score(self.metric.words, self.metric.reported(score), self.rows)


def targets_of(
    model: TableModel, frame: pd.DataFrame
) -> tuple[NDArray[Any], Array, Codes, pd.DataFrame]:
    """Targets, features and numbers of tasks of the rows that have a target, and these rows."""
    rows, classes = frame[frame[model.target].notna()].reset_index(drop=True), model.classes
    mark = model.encoder.marks.get(model.target)
    if classes is None:
        y = as_numbers(rows[model.target], mark)
        rows, y = rows[~np.isnan(y)], y[~np.isnan(y)]
    else:
        y = classes[class_codes(rows[model.target], classes, mark)]
    return y, *model.encode(rows), rows
