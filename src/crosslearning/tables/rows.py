"""The rows of a table as numbers, and how models are fitted to them and predict them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.convex.sums.statistics import Statistics
from crosslearning.linear import CrossBayesianRidge
from crosslearning.linear.persistence import state_of
from crosslearning.tables.columns.levels import TaskLevels
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
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in parts[0]._columns
        }
        return replace(parts[0], **columns)

    @property
    def _columns(self) -> list[str]:
        """Names of the arrays that have an entry for each row."""
        names = ("X", "y", "codes", "weights", "folds", "groups")
        return [name for name in names if getattr(self, name) is not None]

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

    def take(self, rows: NDArray[Any]) -> Rows:
        """Return some of the rows, by number or by mask."""
        return replace(self, **{name: getattr(self, name)[rows] for name in self._columns})

    def sums(self, **folds: Any) -> Statistics:
        """Sum the rows of each task, and of each fold if folds are given."""
        options = {"labels": np.arange(self.n_tasks), "sample_weight": self.weights, **folds}
        return Statistics.of(self.X, self.y, self.codes, **options)


def without(sums: Statistics, fold: int) -> Statistics:
    """Add all other folds; a difference would leave rounding errors in columns of zeros."""
    return reduce(add, [sums.fold(k) for k in range(sums.n_folds) if k != fold])


def fitted(
    estimator: Any, rows: Rows, labels: NDArray[Any] | None = None, *, nested: bool = False
) -> Any:
    """Fit a clone, from sums if they are enough; labels of tasks are numbers by default.

    A `nested` model knows the groups that tasks lie in.
    """
    model = clone(estimator)
    labels = np.arange(rows.n_tasks) if labels is None else labels
    if isinstance(model, CrossBayesianRidge) and not nested:
        model.fit_statistics(rows.sums())
        model.tasks_ = labels
        return bounded(model, rows.counted)
    weights = {} if rows.weights is None else {"sample_weight": rows.weights}
    ordered = getattr(model, "ordered", False)
    y: Any = pd.Categorical(rows.y, rows.grades, ordered=True) if ordered else rows.y
    if nested:
        assert rows.levels is not None
        paths = np.column_stack([rows.levels.group_codes, np.arange(rows.n_tasks)])
        tasks = pd.DataFrame(paths[rows.codes], columns=rows.levels.columns)
        model.fit(rows.X, y, tasks=tasks, **weights)
        model.tasks_ = labels[[path[-1] for path in model.tasks_]]
    else:
        model.fit(rows.X, y, tasks=rows.codes, **weights)
        model.tasks_ = labels[model.tasks_.astype(np.intp)]
    return model if rows.classes is not None else bounded(model, rows.counted)


def bounded(model: Any, y: Array) -> Any:
    """Bound what a model predicts."""
    model.bounds_ = bounds_of(y)
    return model


def bounds_of(y: Array) -> Array:
    """Bounds of predictions: the range of the targets and half of it, and their sign.

    If no target is negative, no prediction is.
    """
    low, high = y.min(), y.max()
    margin = _MARGIN * (high - low)
    return np.array([max(low - margin, 0.0 if low >= 0 else -np.inf), high + margin])


def predict_rows(model: Any, rows: Rows) -> Array:
    """Predictions, or probabilities of all classes, of a model whose labels are task numbers."""
    values = predictions(state_of(model), rows.X, _codes(model, rows))
    if rows.classes is None:
        return values
    shares = np.zeros((len(rows.y), len(rows.classes)))
    shares[:, np.searchsorted(rows.classes, model.classes_)] = values
    return shares


def deviations_of_rows(model: Any, rows: Rows) -> Array:
    """Return the standard deviations of numbers that such a model predicts."""
    return forecast(state_of(model), rows.X, _codes(model, rows))[1]


def _codes(model: Any, rows: Rows) -> NDArray[np.int64]:
    """Position of the task of each row among those of a model; of a new one, of its group, or -1.

    Groups come after the tasks.
    """
    codes, start = np.full(len(rows.codes), -1), len(model.tasks_)
    if len(model.groups_) and rows.levels is not None:
        for groups, numbers in zip(model.groups_, rows.levels.group_codes.T, strict=True):
            places = pd.Index([path[-1] for path in groups]).get_indexer(numbers[rows.codes])
            codes, start = np.where(places < 0, codes, start + places), start + len(groups)
    places = pd.Index(model.tasks_.tolist()).get_indexer(rows.codes)
    return np.where(places < 0, codes, places)
