"""The rows of a table as numbers, and how models are fitted to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.convex.sums.statistics import Statistics
from crosslearning.frames.encoder import TaskLevels, task_or_group
from crosslearning.linear import CrossBayesianRidge
from crosslearning.linear._estimator import state_of
from crosslearning.tables.forecast import forecast, predictions

Array = NDArray[np.float64]
_MARGIN = 0.5  # of the range of the targets


class NotFittedError(Exception):
    """A model cannot be fitted to a part of the rows, for the reason that is the message."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table, to fit models or to score them.

    Those that an engine collects have a fold, or a group that stays together. `grades` are the
    classes in their order, if they have one. Tasks within groups have `levels`.
    """

    X: Array
    y: NDArray[Any]
    codes: NDArray[np.int64]
    n_tasks: int
    weights: Array | None = None
    classes: NDArray[Any] | None = None
    folds: NDArray[np.intp] | None = None
    groups: NDArray[Any] | None = None
    levels: TaskLevels | None = None
    grades: NDArray[Any] | None = None

    @classmethod
    def concatenated(cls, parts: Sequence[Rows]) -> Rows:
        """Put parts of one table together."""
        if len(parts) == 1:
            return parts[0]
        each: Any = {k: np.concatenate([getattr(p, k) for p in parts]) for k in parts[0]._columns}
        return replace(parts[0], **each)

    @property
    def _columns(self) -> dict[str, Any]:
        """The arrays that have an entry for each row."""
        names = ("X", "y", "codes", "weights", "folds", "groups")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @property
    def row_weights(self) -> Array:
        """Weights of the rows, 1 by default."""
        return np.ones(len(self.y)) if self.weights is None else self.weights

    @property
    def n_scores(self) -> int:
        """Number of linear scores that a model of the targets has."""
        return 1 if self.classes is None else len(self.classes) - 1

    @property
    def counted(self) -> NDArray[Any]:
        """Targets of the rows of positive weight."""
        return self.y if self.weights is None else self.y[self.weights > 0]

    @property
    def frequencies(self) -> Array | None:
        """Frequencies of the classes, if there are any; at least half a row has each of them."""
        if self.classes is None:
            return None
        positions, weights = np.searchsorted(self.classes, self.y), self.row_weights
        counts = np.bincount(positions, weights, len(self.classes))
        counts = np.maximum(counts, 0.5 * weights[weights > 0].mean())
        return np.asarray(counts / counts.sum())

    @property
    def smallest(self) -> float:
        """Smallest probability of a class that models of the rows predict."""
        return 1.0 / (len(self.y) + 2.0)

    @property
    def by_class(self) -> dict[Any, float] | None:
        """Frequencies by class, in the order of the classes, if they have one."""
        if self.frequencies is None:
            return None
        each = dict(zip(np.asarray(self.classes).tolist(), self.frequencies.tolist(), strict=True))
        return each if self.grades is None else {k: each[k] for k in self.grades.tolist()}

    @property
    def unpredicted(self) -> Array:
        """NaN for each row, or for each row and class."""
        classes = () if self.classes is None else (len(self.classes),)
        return np.full((len(self.y), *classes), np.nan)

    def take(self, rows: NDArray[Any]) -> Rows:
        """Return some of the rows, by number or by mask."""
        return replace(self, **{name: values[rows] for name, values in self._columns.items()})

    def sums(self) -> Statistics:
        """Sum the rows of each task."""
        labels = np.arange(self.n_tasks)
        return Statistics.of(self.X, self.y, self.codes, labels=labels, sample_weight=self.weights)


def fitted(
    estimator: Any,
    rows: Rows,
    labels: NDArray[Any] | None = None,
    *,
    nested: bool = False,
    sums: Statistics | None = None,
) -> Any:
    """Fit a clone to rows, or to their sums; labels of tasks are numbers by default."""
    model = clone(estimator)
    labels = np.arange(rows.n_tasks) if labels is None else labels
    if isinstance(model, CrossBayesianRidge) and not nested:
        model.fit_statistics(rows.sums() if sums is None else sums)
        model.tasks_ = labels
        return bounded(model, rows.counted)
    weights = {} if rows.weights is None else {"sample_weight": rows.weights}
    y: Any = rows.y
    if ordered := getattr(model, "ordered", False):
        y = pd.Categorical(y, rows.grades, ordered=True)
    elif rows.classes is not None:  # scikit-learn refuses classes such as 0.5
        y = np.searchsorted(rows.classes, y)
    if nested:
        assert rows.levels is not None
        model.fit(rows.X, y, tasks=rows.levels.numbers.iloc[rows.codes], **weights)
        model.tasks_ = labels[[path[-1] for path in model.tasks_]]
    else:
        model.fit(rows.X, y, tasks=rows.codes, **weights)
        model.tasks_ = labels[model.tasks_.astype(np.intp)]
    if rows.classes is None:
        return bounded(model, rows.counted)
    if not ordered:
        model.classes_ = rows.classes[model.classes_]
    return model


def bounded(model: Any, y: Array) -> Any:
    """Bound what a model predicts."""
    model.bounds_ = bounds_of(y)
    return model


def bounds_of(y: Array) -> Array:
    """Bounds of predictions: the range of the targets and half of it; or 0, if none is below."""
    low, high = y.min(), y.max()
    margin = _MARGIN * (high - low)
    return np.array([max(low - margin, 0.0 if low >= 0 else -np.inf), high + margin])


def predict_rows(model: Any, rows: Rows) -> tuple[Array, Array]:
    """Means and standard deviations of targets, or probabilities and NaN; tasks have numbers."""
    state, codes = state_of(model), _codes(model, rows)
    if rows.classes is None:
        return forecast(state, rows.X, codes)
    shares = np.zeros((len(rows.y), len(rows.classes)))
    shares[:, np.searchsorted(rows.classes, model.classes_)] = predictions(state, rows.X, codes)
    return shares, np.full(len(rows.y), np.nan)


def _codes(model: Any, rows: Rows) -> NDArray[np.int64]:
    """Position of the task of each row among those of a model, else of its group, or -1."""
    units, numbers = [model.tasks_.tolist()], [rows.codes]
    if len(model.groups_) and rows.levels is not None:
        units = [[path[-1] for path in groups] for groups in model.groups_] + units
        numbers = [*rows.levels.group_codes[rows.codes].T, rows.codes]
    each = zip(units, numbers, strict=True)
    places = [pd.Index(unit).get_indexer(codes) for unit, codes in each]
    return task_or_group(places, [len(unit) for unit in units])
