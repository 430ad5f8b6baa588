"""Predictions of a stored model, without scikit-learn, whose import takes longer than most."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from crosslearning.convex.families import family_of
from crosslearning.convex.predict import Predictor, Residuals, blended
from crosslearning.convex.sums.columns import Curves, Rotation

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
BLOCKS = {  # of columns that learners see, by base
    "means": ("linear", "means"),
    "splines": ("linear", "curved"),
    "splines-means": ("linear", "curved", "means"),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Learned(ABC):
    """Predictions of a learner with fits of its own, which knows the task unless `pooled` is None.

    Columns are features, then the groups of tasks, if there are any, and the task.
    """

    sds: Array  # standard deviations around predictions, of the targets of tasks and of new ones
    smallest: float  # probability of a class
    pooled: "Learned | None" = None  # predicts new tasks, with the code -1
    groups: Codes | None = None  # of tasks, by level

    @abstractmethod
    def outputs(self, columns: Array) -> Array:
        """Means of targets; or probabilities of classes, of two classes of the second."""

    @property
    @abstractmethod
    def cost(self) -> int:
        """Number of steps of a prediction, such as trees to go through."""

    def predict(self, X: Array, codes: Codes) -> Array:
        """Means of targets, or probabilities of classes."""
        columns, new = X, codes < 0
        if self.pooled is not None:
            groups = () if self.groups is None else self.groups[codes].T
            columns = np.column_stack([X, *groups, codes])
        predictions = self.outputs(columns)
        if self.pooled is not None and new.any():
            predictions[new] = self.pooled.predict(X[new], codes[new])
        return predictions

    means = predict  # as of linear models

    def moments(self, X: Array, codes: Codes) -> tuple[Array, Array]:
        """Means and standard deviations of the targets."""
        return self.predict(X, codes), np.where(codes < 0, self.sds[1], self.sds[0])

    def probabilities(self, X: Array, codes: Codes) -> Array:
        """Probabilities of the classes."""
        return probabilities_of(self.predict(X, codes), self.smallest)


@dataclass(frozen=True, eq=False, kw_only=True)
class Trees(Learned):
    """Boosted trees and forests."""

    text: NDArray[np.uint8]  # models in LightGBM's format, with zeros between them
    by_class: bool = False  # if each model predicts the share of a class; else their mean predicts

    @cached_property
    def _boosters(self) -> list[Any]:
        import lightgbm  # takes long

        texts = self.text.tobytes().decode().split("\0")
        return [lightgbm.Booster(model_str=text) for text in texts]

    def outputs(self, columns: Array) -> Array:  # noqa: D102
        each = np.stack([one.predict(columns, num_threads=1) for one in self._boosters])
        return each.T.copy() if self.by_class else np.asarray(each.mean(axis=0))

    @property
    def cost(self) -> int:  # noqa: D102
        return sum(int(booster.num_trees()) for booster in self._boosters)


def probabilities_of(predictions: Array, smallest: float) -> Array:
    """Probabilities of all classes, from those of the second if there are two; none is smaller."""
    if predictions.ndim == 1:
        predictions = np.column_stack([1.0 - predictions, predictions])
    bounded = np.maximum(predictions, smallest)
    return np.asarray(bounded / bounded.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class TaskMeans:
    """Means of some columns in each task: how tasks with a higher mean differ (Mundlak, 1978).

    The mean of a new task, given a row, is expected to be `center` + `shares` (row - `center`).
    """

    columns: NDArray[np.int64]
    values: Array
    center: Array
    shares: Array  # by regression of means on rows
    spread: Array  # covariance of the rest

    @classmethod
    def of(cls, Z: Array, codes: Codes, weights: Array, n_tasks: int) -> Self:
        """Take the means of all columns; those of a task without weight are NaN."""
        used = weights > 0
        Z, codes, weights = Z[used], codes[used], weights[used]
        counts = np.bincount(codes, weights, n_tasks)
        totals = np.transpose([np.bincount(codes, weights * z, n_tasks) for z in Z.T])
        means = totals / np.where(counts > 0, counts, np.nan)[:, np.newaxis]
        weights = weights / weights.sum()
        center = weights @ Z
        apart, of_tasks = Z - center, means[codes] - center
        between, total = weights @ of_tasks**2, weights @ apart**2
        shares = np.divide(between, total, out=0.0 * total, where=total > 0)
        rest = of_tasks - shares * apart
        return cls(np.arange(Z.shape[1]), means, center, shares, (rest.T * weights) @ rest)

    def take(self, columns: NDArray[np.int64]) -> Self:
        """Return the means of some columns."""
        each = self.values[:, columns], self.center[columns], self.shares[columns]
        return type(self)(self.columns[columns], *each, self.spread[np.ix_(columns, columns)])

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
        if self.means is not None:
            parts.append(self.means.apply(Z, codes))
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
        at, covariance = self.blocks == "means", np.zeros((len(self.blocks), len(self.blocks)))
        if self.means is not None:
            covariance[np.ix_(at, at)] = self.means.spread
        return covariance[np.ix_(columns, columns)]


def records() -> tuple[type, ...]:
    """Classes of records in a state, also those of learners that were added."""
    return Rotation, Basis, TaskMeans, *Learned.__subclasses__()


def blend(
    parts: list[tuple[float, Any, dict[str, Any]]],
    basis: Basis | None,
    frequencies: dict[Any, float] | None,
) -> dict[str, Any]:
    """State of several models: weights, columns in the basis (None: the features), and states.

    Weights of classes are those of log probabilities over their frequencies, which are in order.
    """
    fitted = {"tasks_": parts[0][2]["fitted"]["tasks_"]}
    if frequencies is not None:
        fitted["classes_"] = np.array(list(frequencies))
        fitted["frequencies_"] = np.array(list(frequencies.values()))
    return {"class": "Blend", "fitted": fitted, "parts": parts, "basis": basis}


def main_part(state: dict[str, Any]) -> dict[str, Any]:
    """State of the model with the largest weight."""
    return max(_parts(state), key=lambda part: part[0])[2]


def cost_of_learners(state: dict[str, Any]) -> int:
    """Count the steps of a prediction by learners with fits of their own."""
    each = (part["fitted"].get("learned_") for *_, part in _parts(state))
    return sum(learned.cost for learned in each if learned is not None)


def _parts(state: dict[str, Any]) -> list[tuple[float, Any, dict[str, Any]]]:
    parts: list[tuple[float, Any, dict[str, Any]]] = state.get("parts", [(1.0, None, state)])
    return parts


def is_in_fit(state: dict[str, Any], codes: Codes) -> NDArray[np.bool_]:
    """Whether codes are those of tasks of the fit."""
    return (codes >= 0) & (codes < len(state["fitted"]["tasks_"]))


def predictions(state: dict[str, Any], X: Array, codes: Codes) -> Array:
    """Means, or a column of probabilities for each class; for codes of `TableModel.encode`."""
    members = _members(state, X, codes)
    weights = np.stack([member.weights for member in members])
    if "classes_" not in state["fitted"]:
        each = [np.clip(m.predictor.means(m.X, m.codes), *_bounds(m.attributes)) for m in members]
        return blended(weights, np.stack(each), None)
    classes = state["fitted"]["classes_"].tolist()
    shares = [m.predictor.probabilities(m.X, m.codes) for m in members]
    if "frequencies_" not in state["fitted"]:
        return shares[0]
    # A model of ordered classes has them in another order.
    places = [[list(m.attributes["classes_"]).index(c) for c in classes] for m in members]
    each = [share[:, place] for share, place in zip(shares, places, strict=True)]
    return blended(weights, np.stack(each), state["fitted"]["frequencies_"])


def forecast(state: dict[str, Any], X: Array, codes: Codes) -> tuple[Array, Array]:
    """Means of targets that are numbers, and their standard deviations."""
    mean, sd = np.zeros(len(X)), np.zeros(len(X))
    for member in _members(state, X, codes):
        means, sds = member.predictor.moments(member.X, member.codes)
        mean += member.weights * np.clip(means, *_bounds(member.attributes))
        sd += member.weights * sds
    return mean, sd


def with_intervals(
    state: dict[str, Any], residuals: Residuals | None, X: Array, codes: Codes, coverage: float
) -> dict[str, Array]:
    """Predictions, ends of intervals (of quantiles none) and standard deviations, by name."""
    mean, sd = forecast(state, X, codes)
    if residuals is None:
        return {"prediction": mean, "std": sd}
    part, in_fit = main_part(state), is_in_fit(state, codes)
    main = {**part["parameters"], **part["fitted"]}
    lower, upper = family_of(main).possible_ends(*residuals.ends(mean, sd, in_fit, coverage))
    if _bounds(main)[0] >= 0:
        lower = np.maximum(lower, 0.0)
    std = residuals.std(mean, sd, in_fit)
    return {"prediction": mean, "lower": lower, "upper": upper, "std": std}


class _Member(NamedTuple):
    weights: Array  # by row
    X: Array
    codes: Codes
    predictor: Predictor | Learned
    attributes: dict[str, Any]


def _members(state: dict[str, Any], X: Array, codes: Codes) -> list[_Member]:
    """Models of a blend, perhaps of one, with weights that depend on what is known of a row."""
    parts = _parts(state)
    basis: Basis | None = state.get("basis")
    by_task = np.where(is_in_fit(state, codes), codes, -1)
    Z = X if basis is None else basis.apply(X, by_task)
    weights = np.array([weight for weight, *_ in parts])
    structure = np.array([part["fitted"]["structure_"] for *_, part in parts])
    nested = np.array(["groups_" in part["fitted"] for *_, part in parts])
    for_groups = for_new_tasks = _without(structure == "separate", weights)
    if nested.any():  # models of tasks that know no groups say nothing about a group
        for_groups = _without(~nested & ~np.isin(structure, ("pooled", "learned")), weights)
    members = []
    for k, (weight, columns, part) in enumerate(parts):
        attributes = {**part["parameters"], **part["fitted"]}
        covariance = None if basis is None or columns is None else basis.uncertainty(columns)
        by_row = np.where(codes < 0, for_new_tasks[k], for_groups[k])
        members.append(
            _Member(
                weights=np.where(by_task < 0, by_row, weight),
                X=X if columns is None else Z[:, columns],
                codes=codes if nested[k] else by_task,
                predictor=attributes.get("learned_") or Predictor.of(attributes, covariance),
                attributes=attributes,
            )
        )
    return members


def _without(dropped: NDArray[np.bool_], weights: Array) -> Array:
    """Weights without some, unless these are all; only of tasks that are known they exceed 1."""
    kept = weights if dropped.all() else np.where(dropped, 0.0, weights)
    return np.asarray(kept * (min(weights.sum(), 1.0) / kept.sum()))


def _bounds(attributes: dict[str, Any]) -> Array:
    """Smallest and largest number to predict."""
    return np.asarray(attributes.get("bounds_", (-np.inf, np.inf)))
