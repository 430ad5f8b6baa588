"""The rows of a table as numbers, and how models are fitted to them and predict them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.convex.sums.statistics import Statistics
from crosslearning.linear import CrossBayesianRidge
from crosslearning.linear.persistence import state_of
from crosslearning.tables.forecast import forecast, probabilities

Array = NDArray[np.float64]
_MARGIN = 0.5  # of the range of the targets


class NotFittedError(Exception):
    """A model cannot be fitted to a part of the rows, for the reason that is the message."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table, to fit models or to score them."""

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

    @property
    def n_scores(self) -> int:
        """Number of linear scores that a model of the targets has."""
        return 1 if self.classes is None else len(self.classes) - 1

    @property
    def counted(self) -> NDArray[Any]:
        """Targets of the rows of positive weight."""
        return self.y if self.weights is None else self.y[self.weights > 0]

    def take(self, rows: NDArray[np.intp]) -> Rows:
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        X, y, codes = self.X[rows], self.y[rows], self.codes[rows]
        return replace(self, X=X, y=y, codes=codes, weights=weights)

    def sums(self, **folds: Any) -> Statistics:
        """Sum the rows of each task, and of each fold if folds are given."""
        given = {"labels": np.arange(self.n_tasks), "sample_weight": self.weights, **folds}
        return Statistics.of(self.X, self.y, self.codes, **given)


def without(sums: Statistics, fold: int) -> Statistics:
    """Add all other folds; a difference would leave rounding errors in columns of zeros."""
    return reduce(add, [sums.fold(k) for k in range(sums.n_folds) if k != fold])


def fitted(estimator: Any, rows: Rows, labels: NDArray[Any] | None = None) -> Any:
    """Fit a clone, from sums if they are enough; labels of tasks are numbers by default."""
    model = clone(estimator)
    labels = np.arange(rows.n_tasks) if labels is None else labels
    if isinstance(model, CrossBayesianRidge):
        model.fit_statistics(rows.sums())
        model.tasks_ = labels
        return bounded(model, rows.counted)
    given = {} if rows.weights is None else {"sample_weight": rows.weights}
    model.fit(rows.X, rows.y, tasks=rows.codes, **given)
    model.tasks_ = labels[model.tasks_.astype(np.intp)]
    return model if rows.classes is not None else bounded(model, rows.counted)


def bounded(model: Any, y: Array) -> Any:
    """Bound what a model predicts: by the range of its targets and half of it, and by their sign.

    If no target is negative, no prediction is.
    """
    low, high = y.min(), y.max()
    margin = _MARGIN * (high - low)
    model.bounds_ = np.array([max(low - margin, 0.0 if low >= 0 else -np.inf), high + margin])
    return model


def predict_rows(
    model: Any, rows: Rows, classes: NDArray[Any] | None, *, spread: bool = False
) -> tuple[Array, Array | None]:
    """Predictions, and standard deviations, of a model whose labels are numbers of tasks."""
    known = np.asarray(model.tasks_.tolist())
    at = np.clip(np.searchsorted(known, rows.codes), 0, len(known) - 1)
    codes = np.where(known[at] == rows.codes, at, -1)
    state = state_of(model)
    if classes is None:
        return forecast(state, rows.X, codes, spread=spread)
    shares = np.zeros((len(rows.y), len(classes)))
    shares[:, np.searchsorted(classes, model.classes_)] = probabilities(state, rows.X, codes)
    return shares, None
