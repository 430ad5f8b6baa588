"""Boosted trees as features: out-of-fold predictions."""

import time
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from crosslearning.convex.deadline import check_deadline
from crosslearning.tables.learners.features import Stacked, Trees
from crosslearning.tables.rows import NotFittedError, Rows
from crosslearning.tables.splits import Splits
from crosslearning.tasks import within_task_folds

Array = NDArray[np.float64]
_SETTINGS: dict[str, Any] = {
    "learning_rate": 0.1,
    "max_iter": 150,
    "max_leaf_nodes": 7,
    "min_samples_leaf": 5,
    "early_stopping": False,
}
_MARGIN = 0.1  # by which predictions may exceed the range of the targets, relative to it
_LEAST_SHARE = 0.01  # of the mean target: the smallest prediction under a logarithmic link
_LOSSES = {"poisson": "poisson", "tweedie": "poisson", "gamma": "gamma"}
_MANY = 10**6  # numbers, which are worth several threads
_PROBE = (1, 6)  # trees, to find out how long one takes
_INNER = 5  # folds of a training part, if the splits are not folds


class Boosting:
    """Trees of one table, pooled over tasks, fitted without the folds that they predict.

    Training rows of a split are predicted by trees that saw neither its test rows nor their own
    fold; trees without folds j and k serve both splits.
    """

    def __init__(self, rows: Rows, splits: Splits, family: str, seed: int) -> None:
        self.rows, self.splits, self.family, self.seed = rows, splits, family, seed
        self._known: dict[Any, Trees] = {}

    @cached_property
    def final(self) -> tuple[Stacked, Array]:
        """Trees of all rows, and columns of rows predicted without their fold."""
        everyone = np.arange(len(self.rows.y))
        raw = self._raw(self._trees(None, None, everyone))
        column = self._out_of_fold(raw, None, everyone)
        scale = column.std(axis=0)
        stacked = replace(raw, mean=column.mean(axis=0), scale=np.where(scale > 0, scale, 1.0))
        return stacked, (column - stacked.mean) / stacked.scale

    def first_fold(self) -> tuple[NDArray[np.intp], Array]:
        """Rows of the first fold, and their columns, not standardised, by trees of the others."""
        first = np.flatnonzero(self._folds == 0)
        trees = self._trees(None, 0, np.flatnonzero(self._folds != 0))
        return first, self._raw(trees).bounded(self.rows.X[first])

    def _raw(self, trees: Trees) -> Stacked:
        return Stacked(trees, *self._bounds(), np.zeros(1), np.ones(1))

    def columns(self, split: int) -> Array:
        """Columns of all rows: out of fold in the training part, by all of it in the test part."""
        stacked, _ = self.final
        train, test = self.splits.parts[split]
        own = replace(stacked, trees=self._trees(split, None, train))
        found = np.zeros((len(self.rows.y), len(stacked.mean)))
        found[train] = self._out_of_fold(stacked, split, train)
        found[test] = own.bounded(self.rows.X[test])
        return np.asarray((found - stacked.mean) / stacked.scale)

    def _out_of_fold(self, stacked: Stacked, split: int | None, rows: NDArray[np.intp]) -> Array:
        own = self._folds[rows]
        parts = {
            k: replace(stacked, trees=self._trees(split, k, rows[own != k])).bounded(
                self.rows.X[rows[own == k]]
            )
            for k in np.unique(own).tolist()
        }
        # A fold with high targets leaves low ones to train on: its mean would give it away.
        mean = np.mean([part.mean(axis=0) for part in parts.values()], axis=0)
        found = np.empty((len(rows), len(mean)))
        for k, part in parts.items():
            found[own == k] = part - part.mean(axis=0) + mean
        return found

    @cached_property
    def _folds(self) -> NDArray[np.int64]:
        if self._shared is not None:
            return self._shared
        return within_task_folds(self.rows.codes, _INNER, self.seed)

    @property
    def _shared(self) -> NDArray[np.int64] | None:
        """The folds of the splits, if there are enough of them to leave out two."""
        folds = self.splits.folds
        return None if folds is None or folds.max() < 2 else folds

    def _trees(self, split: int | None, fold: int | None, rows: NDArray[np.intp]) -> Trees:
        without = (split, fold) if self._shared is None else frozenset({split, fold})
        if without not in self._known:
            self._known[without] = self._fitted(rows)
        return self._known[without]

    def _fitted(self, rows: NDArray[np.intp]) -> Trees:
        part = self.rows.take(rows)
        if part.classes is not None and len(np.unique(part.y)) < len(part.classes):
            raise NotFittedError("a class is missing in a part of the rows")
        return Trees.of(self._grown(part))

    def _grown(self, part: Rows, **settings: Any) -> Any:
        """Grow trees on some rows."""
        from sklearn.ensemble import (  # takes long
            HistGradientBoostingClassifier,
            HistGradientBoostingRegressor,
        )

        check_deadline()
        settings = {"random_state": self.seed, **_SETTINGS, **settings}
        model = HistGradientBoostingClassifier(**settings)
        if part.classes is None:
            loss = _LOSSES.get(self.family, "squared_error")
            model = HistGradientBoostingRegressor(loss=loss, **settings)
        # With few rows threads mostly wait for each other.
        with threadpool_limits(limits=1 if part.X.size < _MANY else None, user_api="openmp"):
            return model.fit(part.X, part.y, sample_weight=part.weights)

    def check_time(self) -> None:
        """Raise `OutOfTimeError` if growing all trees would take longer than there is time."""
        n_folds = len(np.unique(self._folds))
        n_fits = 1 + n_folds + n_folds * (n_folds - 1) // 2
        if self._shared is None:
            n_fits = (1 + n_folds) * (1 + len(self.splits.parts))
        begun, moments = time.monotonic(), []
        for n_trees in _PROBE:
            self._grown(self.rows, max_iter=n_trees)
            moments.append(time.monotonic())
        start = moments[0] - begun
        tree = max(moments[1] - moments[0] - start, 0.0) / (_PROBE[1] - _PROBE[0])
        check_deadline(n_fits * (start + tree * _SETTINGS["max_iter"]))

    def separate(self, train: NDArray[np.intp], test: NDArray[np.intp]) -> Array:
        """Predictions of some rows by trees of the training rows of their task alone."""
        learned, asked = self.rows.take(train), self.rows.take(test)
        predictions = np.empty((len(test), *np.shape(_constant(learned, learned))))
        for code in np.unique(asked.codes).tolist():
            own = learned.take(np.flatnonzero(learned.codes == code))
            at = np.flatnonzero(asked.codes == code)
            predictions[at] = self._alone(own, asked.X[at], _constant(own, learned))
        return predictions

    def _alone(self, rows: Rows, X: Array, constant: Array) -> Array:
        """Predict by trees of some rows, or by a constant if they are too few or all alike."""
        few = len(rows.y) < 2 * _SETTINGS["min_samples_leaf"]
        if few or len(np.unique(rows.y)) < 2:
            return np.broadcast_to(constant, (len(X), *constant.shape))
        model = self._grown(rows)
        if rows.classes is None:
            return np.asarray(model.predict(X))
        shares = np.zeros((len(X), len(rows.classes)))
        shares[:, np.searchsorted(rows.classes, model.classes_)] = model.predict_proba(X)
        shares = np.maximum(shares, 1.0 / (len(rows.y) + 2.0))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def _bounds(self) -> tuple[float, float]:
        """Bounds of the trees' scores: the range of the targets, a little wider."""
        y, classes = self.rows.counted, self.rows.classes
        if classes is not None:
            least = 1.0 / (len(y) + 2.0)
            low, top = float(np.log(least)), float(np.log1p(-least))
            return (low - top, top - low) if len(classes) == 2 else (low, top)
        lowest, highest = float(y.min()), float(y.max())
        margin = _MARGIN * (highest - lowest)
        if self.family in _LOSSES:
            lowest = max(lowest, _LEAST_SHARE * float(y.mean()))
            return float(np.log(lowest)), float(np.log(highest + margin))
        return lowest - margin, highest + margin


def _constant(rows: Rows, everyone: Rows) -> Array:
    """Mean, or shares of the classes, of rows of a task and one more like the others."""
    known = rows.y if rows.classes is None else rows.y[:, None] == rows.classes
    others = everyone.y if rows.classes is None else everyone.y[:, None] == rows.classes
    weights = np.append(rows.given_weights, 1.0)
    values = np.append(known, [np.average(others, 0, everyone.given_weights)], axis=0)
    return np.asarray(np.average(values, 0, weights))
