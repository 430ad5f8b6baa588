"""Predictions of a stored model: its features, its trees, and its members if it is a blend.

Scikit-learn is not imported, which would take longer than most predictions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from crosslearning.convex.families import family_of
from crosslearning.convex.predict import Predictor, Residuals
from crosslearning.convex.sums.columns import Curves

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
BLOCKS = {  # of columns that learners see, by base
    "means": ("linear", "means"),
    "splines": ("linear", "curved"),
    "splines-means": ("linear", "curved", "means"),
    "trees": ("trees",),  # of no linear model
}
_MOST_AXES = 300
_ROUNDING = 1e-10  # of the largest singular value
_SMALLEST = 1e-12  # probability of a class


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees of all tasks; if `pooled` is not None, they know the task, as the last column.

    Before it come the `groups` that tasks lie in, if there are any: numbers by task and level.
    The `text` holds models in LightGBM's format, which zeros divide; predictions are their means.

    Rows of new tasks, with the code -1, are predicted by the trees in `pooled`. Targets of known
    and of new tasks have the standard deviations `sds` around predictions; classes have at least
    the probability `smallest`.
    """

    text: NDArray[np.uint8]
    sds: Array
    smallest: float
    pooled: Trees | None = None
    groups: Codes | None = None

    @cached_property
    def _boosters(self) -> list[Any]:
        import lightgbm  # takes long

        texts = self.text.tobytes().decode().split("\0")
        return [lightgbm.Booster(model_str=text) for text in texts]

    def predict(self, X: Array, codes: Codes) -> Array:
        """Means of targets, or probabilities of classes."""
        if self.pooled is None:
            return self._mean(X)
        groups = () if self.groups is None else self.groups[codes].T
        predictions = self._mean(np.column_stack([X, *groups, codes]))
        new = codes < 0
        if new.any():
            predictions[new] = self.pooled.predict(X[new], codes[new])
        return predictions

    def _mean(self, columns: Array) -> Array:
        each = [booster.predict(columns, num_threads=1) for booster in self._boosters]
        return np.asarray(np.mean(each, axis=0))

    means = predict  # as of linear models

    def moments(self, X: Array, codes: Codes) -> tuple[Array, Array]:
        """Means and standard deviations of the targets."""
        return self.predict(X, codes), np.where(codes < 0, self.sds[1], self.sds[0])

    def probabilities(self, X: Array, codes: Codes) -> Array:
        """Probabilities of the classes."""
        return probabilities_of(self.predict(X, codes), self.smallest)


def probabilities_of(predictions: Array, smallest: float) -> Array:
    """Probabilities of all classes, from those of the second if there are two; none is smaller."""
    if predictions.ndim == 1:
        predictions = np.column_stack([1.0 - predictions, predictions])
    bounded = np.maximum(predictions, smallest)
    return np.asarray(bounded / bounded.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Rotation:
    """Standardised features to their principal axes.

    If tasks differ in all coefficients by one variance, nothing is lost with all axes: the prior is
    the same in every direction, and the rows carry no information about the others.
    """

    mean: Array
    scale: Array
    axes: Array

    @classmethod
    def of(cls, X: Array) -> Rotation | None:
        """Return the axes if features are many, or more than rows; else None."""
        n_rows, n_features = X.shape
        if n_features <= min(_MOST_AXES, n_rows):
            return None
        mean, scale = X.mean(axis=0), X.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        _, sizes, axes = np.linalg.svd((X - mean) / scale, full_matrices=False)
        kept = min(_MOST_AXES, int(np.count_nonzero(sizes > _ROUNDING * sizes[0])))
        return cls(mean, scale, axes[:kept].T.copy())

    def apply(self, X: Array) -> Array:
        """Return the features in the axes."""
        return np.asarray((X - self.mean) / self.scale @ self.axes)


@dataclass(frozen=True, eq=False)
class TaskMeans:
    """Means of some columns in each task.

    Their coefficients tell how tasks with a higher mean differ (Mundlak, 1978), while those of the
    columns tell what happens within a task. The expected mean of a new task, given a row of it, is
    `center` + `shares` (row - `center`), by regression of means on rows; `spread` is the covariance
    of the rest.
    """

    columns: NDArray[np.int64]
    values: Array
    center: Array
    shares: Array
    spread: Array

    @classmethod
    def of(cls, Z: Array, codes: Codes, weights: Array, n_tasks: int) -> TaskMeans:
        """Take the means of all columns; those of a task without weight are NaN."""
        used = weights > 0
        Z, codes, weights = Z[used], codes[used], weights[used]
        counts = np.bincount(codes, weights, n_tasks)
        totals = np.transpose([np.bincount(codes, weights * z, n_tasks) for z in Z.T])
        means = np.full_like(totals, np.nan)
        means[counts > 0] = totals[counts > 0] / counts[counts > 0, None]
        weights = weights / weights.sum()
        center = weights @ Z
        apart, of_tasks = Z - center, means[codes] - center
        between, total = weights @ of_tasks**2, weights @ apart**2
        shares = np.divide(between, total, out=0.0 * total, where=total > 0)
        rest = of_tasks - shares * apart
        return cls(np.arange(Z.shape[1]), means, center, shares, (rest.T * weights) @ rest)

    def take(self, columns: NDArray[np.int64]) -> TaskMeans:
        """Return the means of some columns."""
        each = self.values[:, columns], self.center[columns], self.shares[columns]
        return TaskMeans(self.columns[columns], *each, self.spread[np.ix_(columns, columns)])

    def apply(self, Z: Array, codes: Codes) -> Array:
        """Means of the task of each row; the code -1 is a new task."""
        means = np.where(codes[:, None] < 0, np.nan, self.values[codes])
        expected = self.center + self.shares * (Z[:, self.columns] - self.center)
        return np.where(np.isnan(means), expected, means)


@dataclass(frozen=True, eq=False)
class Basis:
    """Standardised columns, then curves of them, and means of tasks; new fields come last."""

    mean: Array
    scale: Array
    curves: list[Curves]
    means: TaskMeans | None = None

    def apply(self, X: Array, codes: Codes) -> Array:
        """Columns for linear models, in the order of `blocks`."""
        Z = (X - self.mean) / self.scale
        parts = [Z, *(curves(Z[:, curves.column]) for curves in self.curves)]
        parts += [] if self.means is None else [self.means.apply(Z, codes)]
        return np.hstack(parts)

    @property
    def blocks(self) -> NDArray[np.str_]:
        """What each column is."""
        curved = sum(curves.coef.shape[2] for curves in self.curves)
        means = 0 if self.means is None else len(self.means.columns)
        return np.repeat(["linear", "curved", "means"], [len(self.mean), curved, means])

    def columns_of(self, base: str) -> NDArray[np.intp]:
        """Positions of the columns of a base."""
        return np.flatnonzero(np.isin(self.blocks, BLOCKS[base]))

    def uncertainty(self, columns: NDArray[np.intp]) -> Array:
        """Covariance of some columns in a new task, whose means are not known."""
        at = np.flatnonzero(self.blocks == "means")
        covariance = np.zeros((len(self.blocks), len(self.blocks)))
        if self.means is not None:
            covariance[np.ix_(at, at)] = self.means.spread
        return covariance[np.ix_(columns, columns)]


RECORDS = (Rotation, Basis, TaskMeans, Trees)  # of a state


def blend(parts: list[tuple[float, Any, dict[str, Any]]], basis: Basis | None) -> dict[str, Any]:
    """State of several models: weight, columns and state of each.

    Columns are positions in the output of the basis, or None for the features themselves.
    """
    first = parts[0][2]["fitted"]
    shared = {name: first[name] for name in ("tasks_", "classes_") if name in first}
    return {"class": "Blend", "fitted": shared, "parts": parts, "basis": basis}


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
    heaviest: dict[str, Any] = max(_parts(state), key=lambda part: part[0])[2]
    return heaviest


def count_trees(state: dict[str, Any]) -> int:
    """Count the trees that a prediction goes through."""
    trees = [part["fitted"].get("trees_") for *_, part in _parts(state)]
    return sum(int(one.num_trees()) for part in trees if part for one in part._boosters)


def _parts(state: dict[str, Any]) -> list[tuple[float, Any, dict[str, Any]]]:
    parts: list[tuple[float, Any, dict[str, Any]]] = state.get("parts", [(1.0, None, state)])
    return parts


def is_in_fit(state: dict[str, Any], codes: Codes) -> NDArray[np.bool_]:
    """Whether codes are those of tasks of the fit."""
    return (codes >= 0) & (codes < len(state["fitted"]["tasks_"]))


def predictions(state: dict[str, Any], X: Array, codes: Codes) -> Array:
    """Means, or a column of probabilities for each class.

    The code -1 is a new task; of groups within groups, codes after those of the tasks are new tasks
    in known groups.
    """
    members = _members(state, X, codes)
    weights = np.stack([member.weights for member in members])
    if "classes_" not in state["fitted"]:
        each = [np.clip(m.predictor.means(m.X, m.codes), *_bounds(m.attributes)) for m in members]
        return blended(weights, np.stack(each))
    classes = state["fitted"]["classes_"].tolist()
    shares = [m.predictor.probabilities(m.X, m.codes) for m in members]
    if len(members) == 1:
        return shares[0]
    # A model of ordered classes has them in another order.
    places = [[list(m.attributes["classes_"]).index(c) for c in classes] for m in members]
    each = [share[:, place] for share, place in zip(shares, places, strict=True)]
    return blended(weights, np.stack(each))


def forecast(state: dict[str, Any], X: Array, codes: Codes) -> tuple[Array, Array]:
    """Means of targets that are numbers, and their standard deviations."""
    mean, sd = np.zeros(len(X)), np.zeros(len(X))
    for member in _members(state, X, codes):
        means, sds = member.predictor.moments(member.X, member.codes)
        mean += member.weights * np.clip(means, *_bounds(member.attributes))
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
    ends = residuals.ends(mean, sd, in_fit, coverage)
    lower, upper = family_of(main).possible_ends(*ends)
    if _bounds(main)[0] >= 0:
        lower = np.maximum(lower, 0.0)
    std = residuals.std(mean, sd, in_fit)
    return {"prediction": mean, "lower": lower, "upper": upper, "std": std}


class _Member(NamedTuple):
    weights: Array  # by row
    X: Array
    codes: Codes
    predictor: Predictor | Trees
    attributes: dict[str, Any]


def _members(state: dict[str, Any], X: Array, codes: Codes) -> list[_Member]:
    """Models of a blend, perhaps of one.

    New tasks are predicted without separate models if there are others, and new tasks in known
    groups without models of tasks that know no groups, if others do.
    """
    parts = _parts(state)
    basis: Basis | None = state.get("basis")
    by_task = np.where(is_in_fit(state, codes), codes, -1)
    Z = X if basis is None else basis.apply(X, by_task)
    weights = np.array([weight for weight, *_ in parts])
    structure = np.array([part["fitted"]["structure_"] for *_, part in parts])
    nested = np.array(["groups_" in part["fitted"] for *_, part in parts])
    for_groups = for_new_tasks = _without(structure == "separate", weights)
    if nested.any():
        for_groups = _without(~nested & ~np.isin(structure, ("pooled", "trees")), weights)
    members = []
    for k, (weight, columns, part) in enumerate(parts):
        attributes = _attributes(part)
        covariance = None if basis is None or columns is None else basis.uncertainty(columns)
        by_row = np.where(codes < 0, for_new_tasks[k], for_groups[k])
        member = _Member(
            weights=np.where(by_task < 0, by_row, weight),
            X=X if columns is None else Z[:, columns],
            codes=codes if nested[k] else by_task,
            predictor=attributes.get("trees_") or Predictor.of(attributes, covariance),
            attributes=attributes,
        )
        members.append(member)
    return members


def _without(dropped: NDArray[np.bool_], weights: Array) -> Array:
    """Weights without some, unless these are all."""
    kept = weights if dropped.all() else np.where(dropped, 0.0, weights)
    return np.asarray(kept / kept.sum())


def _attributes(state: dict[str, Any]) -> dict[str, Any]:
    return {**state["parameters"], **state["fitted"]}


def _bounds(attributes: dict[str, Any]) -> Array:
    """Smallest and largest number to predict."""
    return np.asarray(attributes.get("bounds_", (-np.inf, np.inf)))
