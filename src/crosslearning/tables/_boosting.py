"""Boosted trees as features: out-of-fold predictions."""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from crosslearning.tables._basis import Stacked, Trees
from crosslearning.tables.rows import Rows
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
        if self.splits.folds is not None:
            return self.splits.folds
        return within_task_folds(self.rows.codes, _INNER, self.seed)

    def _trees(self, split: int | None, fold: int | None, rows: NDArray[np.intp]) -> Trees:
        without = (split, fold) if self.splits.folds is None else frozenset({split, fold})
        if without not in self._known:
            self._known[without] = self._fitted(rows)
        return self._known[without]

    def _fitted(self, rows: NDArray[np.intp]) -> Trees:
        from sklearn.ensemble import (  # takes long
            HistGradientBoostingClassifier,
            HistGradientBoostingRegressor,
        )

        part = self.rows.take(rows)
        if part.classes is None:
            loss = _LOSSES.get(self.family, "squared_error")
            model = HistGradientBoostingRegressor(loss=loss, random_state=self.seed, **_SETTINGS)
        elif len(np.unique(part.y)) < len(part.classes):
            raise ValueError("A class is missing in a part of the rows.")
        else:
            model = HistGradientBoostingClassifier(random_state=self.seed, **_SETTINGS)
        # With few rows threads mostly wait for each other.
        with threadpool_limits(limits=1 if part.X.size < _MANY else None, user_api="openmp"):
            return Trees.of(model.fit(part.X, part.y, sample_weight=part.weights))

    def _bounds(self) -> tuple[float, float]:
        """Bounds of the trees' scores: the range of the targets, a little wider."""
        y, classes = self.rows.y, self.rows.classes
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
