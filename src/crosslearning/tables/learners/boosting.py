"""Boosted trees: for all tasks alike, with the task as a category, or for each task alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning.convex.deadline import check_deadline
from crosslearning.tables.learners.trees import Stacked, Trees, bounded_scores, with_both_classes
from crosslearning.tables.rows import Rows
from crosslearning.tables.splits import Splits
from crosslearning.tasks import within_task_folds

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
_SIZES = ((7, 5), (31, 20))  # leaves of a tree, and fewest rows of a leaf
_MOST_TREES, _PATIENCE = 500, 30
_SETTINGS: dict[str, Any] = {
    "learning_rate": 0.05,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "cat_smooth": 1.0,  # by default, 10, small tasks would not count
    "deterministic": True,
    "force_row_wise": True,
    "min_data_in_bin": 1,
    "verbosity": -1,
}
_OBJECTIVES = {"poisson": "poisson", "tweedie": "poisson", "gamma": "gamma"}
_MARGIN = 0.1  # by which scores may exceed the range of the targets, relative to it
_LEAST_SHARE = 0.01  # of the mean target: the smallest prediction under a logarithmic link
_MANY = 10**6  # numbers, which are worth several threads
_INNER = 5  # folds of a training part, if the splits are not folds


class _Grown(NamedTuple):
    """Trees, and their loss on other rows after each of them."""

    booster: Any
    losses: Array


@dataclass(eq=False)
class Boosting:
    """Trees of one table, fitted without the rows that they predict.

    Their size and number for a split are those that are best on other splits; trees that are
    features of linear models have the size and number that are best on all splits.
    """

    rows: Rows
    splits: Splits
    family: str
    seed: int

    def __post_init__(self) -> None:
        self._grown: dict[Any, _Grown] = {}
        self._stacked: dict[Any, Any] = {}

    def held_out(self, *, with_task: bool) -> Iterator[list[Array]]:
        """Grow trees split by split; after the last, their predictions of all test parts."""
        predictions: list[Array] = []
        n_splits = len(self.splits.parts)
        for s in range(n_splits):
            self._curve(with_task, self._size(self._all), s)
            if s == n_splits - 1:
                predictions += [self._predicted(with_task, k) for k in range(n_splits)]
            yield predictions

    def final(self, sds: Array, *, with_task: bool) -> Trees:
        """Trees of all rows, of the size and number that are best on all splits."""
        pooled = self.final(sds, with_task=False) if with_task else None
        size, n_trees = self._best(with_task, self._all)
        booster = self._train(self.rows, size, n_trees, with_task=with_task).booster
        return Trees.of(booster, n_trees, sds, pooled)

    def separate(self, train: Indices, test: Indices) -> Array:
        """Predictions of some rows by trees of the training rows of their task alone."""
        learned, asked = self.rows.take(train), self.rows.take(test)
        predictions = np.empty((len(test), *np.shape(_constant(learned, learned))))
        for code in np.unique(asked.codes).tolist():
            alone = learned.take(np.flatnonzero(learned.codes == code))
            at = np.flatnonzero(asked.codes == code)
            predictions[at] = self._alone(alone, asked.X[at], _constant(alone, learned))
        return predictions

    def columns(self, split: int) -> Array:
        """Scores of all rows, standardised: out of fold in the training part of a split."""
        stacked, _ = self.stacked
        train, test = self.splits.parts[split]
        columns = np.zeros((len(self.rows.y), len(stacked.mean)))
        columns[train] = self._out_of_fold(split, train)
        columns[test] = self._scores(self._pooled(split, None, train), test)
        return np.asarray((columns - stacked.mean) / stacked.scale)

    @cached_property
    def stacked(self) -> tuple[Stacked, Array]:
        """Scores by trees of all rows, and standardised scores of rows out of their fold."""
        columns = self._out_of_fold(None, np.arange(len(self.rows.y)))
        mean, scale = columns.mean(axis=0), columns.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        stacked = Stacked(self.final(np.zeros(2), with_task=False), *self._bounds, mean, scale)
        return stacked, (columns - mean) / scale

    # Sizes and numbers of trees.

    @property
    def _all(self) -> list[int]:
        return list(range(len(self.splits.parts)))

    def _others(self, split: int) -> list[int]:
        """Return the splits that decide on the size and number of trees of one."""
        return [k for k in self._all if k != split] or [-1 - split]

    def _part(self, split: int) -> tuple[Indices, Indices]:
        """Rows of a split; -1 - s is a division of the training rows of the split s."""
        if split >= 0:
            return self.splits.parts[split]
        train, _ = self.splits.parts[-1 - split]
        folds = within_task_folds(self.rows.codes[train], _INNER, self.seed)
        return train[folds > 0], train[folds == 0]

    def _best(self, with_task: bool, splits: list[int]) -> tuple[tuple[int, int], int]:
        """Size and number of trees that are best on some splits."""
        size = self._size(splits)
        losses = [self._curve(with_task, size, k).losses for k in splits]
        longest = max(map(len, losses))
        mean = np.mean([np.pad(one, (0, longest - len(one)), "edge") for one in losses], axis=0)
        return size, int(mean.argmin()) + 1

    def _size(self, splits: list[int]) -> tuple[int, int]:
        """Size of trees that is best on the first of some splits, without the task."""
        losses = [self._curve(False, size, splits[0]).losses.min() for size in _SIZES]
        return _SIZES[int(np.argmin(losses))]

    def _curve(self, with_task: bool, size: tuple[int, int], split: int) -> _Grown:
        key = with_task, size, split
        if key not in self._grown:
            train, test = self._part(split)
            parts = self.rows.take(train), self.rows.take(test)
            self._grown[key] = self._train(parts[0], size, _MOST_TREES, parts[1], with_task)
        return self._grown[key]

    def _predicted(self, with_task: bool, split: int) -> Array:
        """Predictions of the test part of a split."""
        size, n_trees = self._best(with_task, self._others(split))
        train, test = self.splits.parts[split]
        booster = self._curve(with_task, size, split).booster
        if booster.current_iteration() < n_trees:  # the test part, which stopped it, must not
            part = self.rows.take(train)
            booster = self._train(part, size, n_trees, with_task=with_task).booster
        X = self._design(self.rows.take(test), with_task)
        predictions = booster.predict(X, num_iteration=n_trees, num_threads=1)
        return self._complete(np.asarray(predictions))

    def _complete(self, predictions: Array) -> Array:
        return predictions if self.rows.classes is None else with_both_classes(predictions)

    # Scores as features of linear models.

    def _out_of_fold(self, split: int | None, rows: Indices) -> Array:
        folds = self._folds[rows]
        parts = {
            k: self._scores(self._pooled(split, k, rows[folds != k]), rows[folds == k])
            for k in np.unique(folds).tolist()
        }
        # A fold with high targets leaves low ones to train on: its mean would give it away.
        mean = np.mean([part.mean(axis=0) for part in parts.values()], axis=0)
        columns = np.empty((len(rows), len(mean)))
        for k, part in parts.items():
            columns[folds == k] = part - part.mean(axis=0) + mean
        return columns

    def _scores(self, booster: Any, rows: Indices) -> Array:
        scores = booster.predict(self.rows.X[rows], raw_score=True, num_threads=1)
        return bounded_scores(np.asarray(scores), *self._bounds)

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

    def _pooled(self, split: int | None, fold: int | None, rows: Indices) -> Any:
        """Trees without a split and a fold; those without folds j and k serve both splits."""
        without = (split, fold) if self._shared is None else frozenset({split, fold})
        if without not in self._stacked:
            size, n_trees = self._best(False, self._all)
            self._stacked[without] = self._train(self.rows.take(rows), size, n_trees).booster
        return self._stacked[without]

    @cached_property
    def _bounds(self) -> tuple[float, float]:
        """Bounds of scores: the range of the targets, a little wider."""
        y, classes = self.rows.counted, self.rows.classes
        if classes is not None:
            least = 1.0 / (len(y) + 2.0)
            low, top = float(np.log(least)), float(np.log1p(-least))
            return (low - top, top - low) if len(classes) == 2 else (low, top)
        lowest, highest = float(y.min()), float(y.max())
        margin = _MARGIN * (highest - lowest)
        if self.family in _OBJECTIVES:
            lowest = max(lowest, _LEAST_SHARE * float(y.mean()))
            return float(np.log(lowest)), float(np.log(highest + margin))
        return lowest - margin, highest + margin

    # Growing.

    def _train(
        self,
        part: Rows,
        size: tuple[int, int],
        n_trees: int,
        test: Rows | None = None,
        with_task: bool = False,
    ) -> _Grown:
        import lightgbm as lgb  # takes long

        train = self._data(part, with_task)
        settings = self._settings(part, size)
        callbacks: list[Any] = [_give_up_in_time]
        history: dict[str, Any] = {"": {"": [0.0]}}
        tests = []
        if test is not None and len(test.y):
            tests = [self._data(test, with_task, train)]
            callbacks += [lgb.early_stopping(_PATIENCE, verbose=False)]
            callbacks += [lgb.record_evaluation(history := {})]
        booster = lgb.train(settings, train, n_trees, valid_sets=tests, callbacks=callbacks)
        (losses,) = history.popitem()[1].values()
        return _Grown(booster, np.array(losses))

    def _settings(self, part: Rows, size: tuple[int, int]) -> dict[str, Any]:
        leaves, fewest = size
        settings = _SETTINGS | {"num_leaves": leaves, "seed": self.seed}
        settings |= {"min_data_in_leaf": fewest, "min_data_per_group": fewest}
        # With few rows threads mostly wait for each other.
        settings["num_threads"] = 1 if part.X.size < _MANY else 0
        if part.classes is None:
            return settings | {"objective": _OBJECTIVES.get(self.family, "regression")}
        if len(part.classes) == 2:
            return settings | {"objective": "binary"}
        return settings | {"objective": "multiclass", "num_class": len(part.classes)}

    def _data(self, part: Rows, with_task: bool, reference: Any = None) -> Any:
        import lightgbm as lgb

        y = part.y if part.classes is None else np.searchsorted(part.classes, part.y)
        return lgb.Dataset(
            self._design(part, with_task),
            y,
            reference=reference,
            weight=part.weights,
            categorical_feature=[part.X.shape[1]] if with_task else [],
            params=_SETTINGS,
        )

    @staticmethod
    def _design(part: Rows, with_task: bool) -> Array:
        return np.column_stack([part.X, part.codes]) if with_task else part.X

    def _alone(self, rows: Rows, X: Array, constant: Array) -> Array:
        """Predict by trees of some rows, or by a constant if they are too few or all alike."""
        size, n_trees = self._best(False, self._all)
        if len(rows.y) < 2 * size[1] or len(np.unique(rows.y)) < 2:
            return np.broadcast_to(constant, (len(X), *constant.shape))
        predictions = self._complete(self._train(rows, size, n_trees).booster.predict(X))
        if rows.classes is None:
            return predictions
        shares = np.maximum(predictions, 1.0 / (len(rows.y) + 2.0))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _give_up_in_time(_: Any) -> None:
    check_deadline()


def _constant(rows: Rows, everyone: Rows) -> Array:
    """Mean, or shares of the classes, of rows of a task and one more like the others."""
    known = rows.y if rows.classes is None else rows.y[:, None] == rows.classes
    others = everyone.y if rows.classes is None else everyone.y[:, None] == rows.classes
    weights = np.append(rows.given_weights, 1.0)
    values = np.append(known, [np.average(others, 0, everyone.given_weights)], axis=0)
    return np.asarray(np.average(values, 0, weights))
