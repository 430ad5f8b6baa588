"""Boosted trees and random forests."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning.convex.deadline import check_deadline
from crosslearning.convex.families import REGISTRY
from crosslearning.tables.forecast import Trees
from crosslearning.tables.learners.learner import Array, Learner, design
from crosslearning.tables.rows import Rows
from crosslearning.tasks import within_task_folds

Indices = NDArray[np.intp]
_SIZES = ((7, 5), (31, 20))  # leaves of a tree, and fewest rows of a leaf
_SIZES_OF_CLASSES = ((7, 5), (31, 10))
_MOST_TREES, _PATIENCE = 500, 30
_GROWN: dict[str, Any] = {  # settings of all trees
    "bagging_freq": 1,
    "deterministic": True,
    "force_row_wise": True,
    "min_data_in_bin": 1,
    "verbosity": -1,
}
_BOOSTING = _GROWN | {
    "learning_rate": 0.05,
    "bagging_fraction": 0.8,
    "cat_smooth": 1.0,  # by default, 10, small tasks would not count
}
_INNER = 5  # folds of the training part, if there is only one split
_FOREST = _GROWN | {
    "objective": "regression",  # leaves have means: shares of a class
    "boosting": "rf",
    "bagging_fraction": 0.632,  # of distinct rows, as in a sample with replacement
    "feature_fraction_bynode": 0.6,  # a node is a leaf if these do not help
    "num_leaves": 255,
    "min_data_in_leaf": 1,
    "min_sum_hessian_in_leaf": 1e-12,  # rows without weight make no leaf
}
_IN_FOREST = 100  # trees
_MANY = 10**6  # numbers, which are worth several threads


class _Grown(NamedTuple):
    """Trees, and their loss on other rows after each of them."""

    booster: Any
    losses: Array


class Grower(Learner):
    """Base of both, which LightGBM grows."""

    bases, package = ("auto", "boosting"), "lightgbm"

    def stored(
        self, texts: Sequence[str], sds: Array, *, with_task: bool, by_class: bool = False
    ) -> Trees:
        """Trees, and those that predict new tasks."""
        return Trees(
            text=np.frombuffer("\0".join(texts).encode(), dtype=np.uint8),
            sds=sds,
            smallest=self.rows.smallest,
            by_class=by_class,
            pooled=self.final(sds, with_task=False) if with_task else None,
            groups=self.rows.levels.group_codes if with_task and self.rows.levels else None,
        )


@dataclass(eq=False)
class Boosting(Grower):
    """Boosted trees, for which the task is a category.

    Their size and number for a split are those that are best on other splits. Probabilities of
    classes are means over two sizes, since a choice between them would be mostly chance.
    """

    pooled, cross = "pooled boosted trees", "boosted trees that know the task"
    words, plural = "boosted trees", True

    def __post_init__(self) -> None:
        self._fits: dict[Any, _Grown] = {}

    def held_out(self, *, with_task: bool) -> Iterator[list[Array]]:
        """Grow trees split by split; after the last, their predictions of all test parts."""
        predictions: list[Array] = []
        n_splits = len(self.splits.parts)
        for s in range(n_splits):
            for size in self._sizes(self._all):
                self._curve(with_task, size, s)
            if s == n_splits - 1:
                predictions += [self._predicted(with_task, k) for k in range(n_splits)]
                for grown in self._fits.values():  # which take several times the table
                    grown.booster.free_dataset()
            yield predictions

    def final(self, sds: Array, *, with_task: bool) -> Trees:
        """Trees of all rows, as many as are best on all splits."""
        texts = []
        for size in self._sizes(self._all):
            n_trees = self._best(with_task, size, self._all)
            key = with_task, size, None
            if key not in self._fits:
                self._fits[key] = self._train(self.rows, size, n_trees, with_task=with_task)
            texts.append(self._fits[key].booster.model_to_string(num_iteration=n_trees))
        return self.stored(texts, sds, with_task=with_task)

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

    def _sizes(self, splits: list[int]) -> tuple[tuple[int, int], ...]:
        """Both sizes, or the one that is best on the first of some splits, without the task."""
        if self.rows.classes is not None:
            return _SIZES_OF_CLASSES
        losses = [self._curve(False, size, splits[0]).losses.min() for size in _SIZES]
        return (_SIZES[int(np.argmin(losses))],)

    def _best(self, with_task: bool, size: tuple[int, int], splits: list[int]) -> int:
        """Return the number of trees that is best on some splits."""
        losses = [self._curve(with_task, size, k).losses for k in splits]
        longest = max(map(len, losses))
        mean = np.mean([np.pad(one, (0, longest - len(one)), "edge") for one in losses], axis=0)
        return int(mean.argmin()) + 1

    def _curve(self, with_task: bool, size: tuple[int, int], split: int) -> _Grown:
        key = with_task, size, split
        if key not in self._fits:
            train, test = self._part(split)
            parts = self.rows.take(train), self.rows.take(test)
            self._fits[key] = self._train(parts[0], size, _MOST_TREES, parts[1], with_task)
        return self._fits[key]

    def _predicted(self, with_task: bool, split: int) -> Array:
        """Predictions of the test part of a split."""
        X = design(self.rows.take(self.splits.parts[split][1]), with_task=with_task)
        each = []
        for size in self._sizes(self._others(split)):
            n_trees = self._best(with_task, size, self._others(split))
            booster = self._of_split(with_task, size, n_trees, split)
            each.append(booster.predict(X, num_iteration=n_trees, num_threads=1))
        return self.complete(np.mean(each, axis=0))

    def _of_split(self, with_task: bool, size: tuple[int, int], n_trees: int, split: int) -> Any:
        """At least so many trees of the training part of a split, if they can be grown."""
        booster = self._curve(with_task, size, split).booster
        # The test part, which stopped it, must not. An update adds nothing if no leaf can be split.
        for _ in range(booster.current_iteration(), n_trees):
            check_deadline()
            booster.update()
        return booster

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
        if test is None or not len(test.y):
            booster = lgb.train(settings, train, n_trees, callbacks=callbacks)
            return _Grown(booster, np.zeros(1))
        history: dict[str, dict[str, list[float]]] = {}
        callbacks += [lgb.early_stopping(_PATIENCE, verbose=False), lgb.record_evaluation(history)]
        tests = [self._data(test, with_task, train)]
        booster = lgb.train(
            settings,
            train,
            n_trees,
            valid_sets=tests,
            callbacks=callbacks,
            keep_training_booster=True,
        )
        (losses,) = history["valid_0"].values()
        return _Grown(booster, np.array(losses))

    def _settings(self, part: Rows, size: tuple[int, int]) -> dict[str, Any]:
        leaves, fewest = size
        settings = _BOOSTING | {"num_leaves": leaves, "seed": self.seed}
        settings |= {"min_data_in_leaf": fewest, "min_data_per_group": fewest}
        settings["num_threads"] = _n_threads(part)
        if part.classes is None:
            return settings | {"objective": REGISTRY[self.family].boosted}
        if len(part.classes) == 2:
            return settings | {"objective": "binary"}
        return settings | {"objective": "multiclass", "num_class": len(part.classes)}

    def _data(self, part: Rows, with_task: bool, reference: Any = None) -> Any:
        import lightgbm as lgb

        y = part.y if part.classes is None else np.searchsorted(part.classes, part.y)
        return lgb.Dataset(
            design(part, with_task=with_task),
            y,
            reference=reference,
            weight=part.weights,
            categorical_feature=self._categories(part) if with_task else [],
            params=_BOOSTING,
        )

    @staticmethod
    def _categories(part: Rows) -> list[int]:
        """Positions of the columns of groups and tasks."""
        n_features = part.X.shape[1]
        n_levels = 1 if part.levels is None else len(part.levels.columns)
        return list(range(n_features, n_features + n_levels))


@dataclass(eq=False)
class Forest(Grower):
    """Random forests of deep trees, for classes; codes of tasks are numbers to them.

    Their leaves hold few rows, so that they know rows that are alike in all columns, such as those
    of one person, which few leaves do not tell from others.
    """

    pooled, cross = "a pooled random forest", "a random forest that knows the task"
    words, kinds = "random forests", ("classification",)

    def held_out(self, *, with_task: bool) -> Iterator[list[Array]]:
        """Grow a forest, and predict the test part, split by split."""
        predictions: list[Array] = []
        for train, test in self.splits.parts:
            forest = self._grown(self.rows.take(train), with_task=with_task)
            X = design(self.rows.take(test), with_task=with_task)
            each = np.stack([one.predict(X, num_threads=1) for one in forest])
            predictions.append(self.complete(each[0] if len(each) == 1 else each.T))
            yield predictions

    def final(self, sds: Array, *, with_task: bool) -> Trees:
        """Grow a forest of all rows."""
        texts = [one.model_to_string() for one in self._grown(self.rows, with_task=with_task)]
        return self.stored(texts, sds, with_task=with_task, by_class=len(texts) > 1)

    def _grown(self, part: Rows, *, with_task: bool) -> list[Any]:
        """Forests of the shares of each class, of two classes of the second only."""
        import lightgbm as lgb  # takes long

        classes = np.asarray(self.rows.classes)
        X, settings = design(part, with_task=with_task), _FOREST | {"seed": self.seed}
        settings["num_threads"] = _n_threads(part)
        forests = []
        for label in classes[-1:] if len(classes) == 2 else classes:
            data = lgb.Dataset(X, part.y == label, weight=part.weights, params=settings)
            forests.append(lgb.train(settings, data, _IN_FOREST, callbacks=[_give_up_in_time]))
        return forests


def _n_threads(part: Rows) -> int:
    """One thread for few numbers, for which threads mostly wait for each other; else all."""
    return 1 if part.X.size < _MANY else 0


def _give_up_in_time(_: Any) -> None:
    check_deadline()
