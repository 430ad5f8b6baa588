"""The rows of a table as numbers, and what models learn from them and say of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.convex.statistics import Statistics
from crosslearning.evaluation.scoring import Predicted
from crosslearning.linear.persistence import state_of
from crosslearning.tables.forecast import forecast, probabilities

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table that models learn from, or are scored on."""

    X: Array
    y: NDArray[Any]
    codes: NDArray[np.int64]
    n_tasks: int
    weights: Array | None = None
    classes: NDArray[Any] | None = None

    @property
    def given_weights(self) -> Array:
        """Weights of the rows, 1 by default."""
        return np.ones(len(self.y)) if self.weights is None else self.weights

    def take(self, rows: NDArray[np.intp]) -> Rows:
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        return Rows(
            self.X[rows], self.y[rows], self.codes[rows], self.n_tasks, weights, self.classes
        )

    def sums(self, **folds: Any) -> Statistics:
        """Sum the rows of each task, and of each fold if folds are given."""
        given = {"labels": np.arange(self.n_tasks), "sample_weight": self.weights, **folds}
        return Statistics.of(self.X, self.y, self.codes, **given)


def without(sums: Statistics, fold: int) -> Statistics:
    """Add all other folds: a difference would leave rounding errors in columns of zeros."""
    return reduce(add, [sums.fold(k) for k in range(sums.n_folds) if k != fold])


def fitted(estimator: Any, rows: Rows, tasks: NDArray[Any] | None = None) -> Any:
    """Fit a clone on rows; tasks are called by their numbers unless labels are given."""
    labels = rows.codes if tasks is None else tasks
    given = {} if rows.weights is None else {"sample_weight": rows.weights}
    return clone(estimator).fit(rows.X, rows.y, tasks=labels, **given)


def told(
    model: Any, rows: Rows, classes: NDArray[Any] | None, *, spread: bool = False
) -> tuple[Array, Array | None]:
    """Predictions of a model that calls tasks by their numbers, and standard deviations."""
    known = np.asarray(model.tasks_.tolist())
    at = np.clip(np.searchsorted(known, rows.codes), 0, len(known) - 1)
    codes = np.where(known[at] == rows.codes, at, -1)
    state = state_of(model)
    if classes is None:
        return forecast(state, rows.X, codes, spread=spread)
    shares = np.zeros((len(rows.y), len(classes)))
    shares[:, np.searchsorted(classes, model.classes_)] = probabilities(state, rows.X, codes)
    return shares, None


def predicted(said: Array, rows: Rows) -> Predicted:
    """Predictions of rows, numbers or shares of classes, as metrics take them."""
    if rows.classes is None:
        return Predicted(said)
    return Predicted(rows.classes[said.argmax(axis=1)], rows.classes, said, None)
