"""Random forests of deep trees."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosslearning.tables.forecast import Trees
from crosslearning.tables.learners.learner import (
    GROWN,
    Array,
    Learner,
    design,
    give_up_in_time,
    n_threads,
)
from crosslearning.tables.rows import Rows

_FOREST = GROWN | {
    "objective": "regression",  # leaves have means: shares of a class
    "boosting": "rf",
    "bagging_fraction": 0.632,  # of distinct rows, as in a sample with replacement
    "feature_fraction_bynode": 0.6,  # a node is a leaf if these do not help
    "num_leaves": 255,
    "min_data_in_leaf": 1,
    "min_sum_hessian_in_leaf": 1e-12,  # rows without weight make no leaf
}
_N_TREES = 100


@dataclass(eq=False)
class Forest(Learner):
    """Random forests of deep trees, for classes; codes of tasks are numbers to them.

    Their leaves hold few rows, so that they know rows that are alike in all columns, such as those
    of one person, which few leaves do not tell from others.
    """

    pooled, cross = "a pooled random forest", "a random forest that knows the task"
    feature, only_classes = "random forests", True

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
        settings["num_threads"] = n_threads(part)
        forests = []
        for label in classes[-1:] if len(classes) == 2 else classes:
            data = lgb.Dataset(X, part.y == label, weight=part.weights, params=settings)
            forests.append(lgb.train(settings, data, _N_TREES, callbacks=[give_up_in_time]))
        return forests
