"""The two ends of sharing for any estimator: one model for all tasks, or one for each."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils import _safe_indexing

from crosslearning.tasks import TaskIndex, check_tasks


def of_all(classes: Any, model: Any, answer: Any, missing: float = 0.0) -> Any:
    """Columns for all classes from those for the classes that a model knows."""
    everything = np.full((len(answer), len(classes)), missing)
    everything[:, np.searchsorted(classes, model.classes_)] = answer
    return everything


class Pooled(BaseEstimator):  # type: ignore[misc]
    """An estimator that is fitted once, on the rows of all tasks."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any) -> Any:
        """Fit without task labels; the result is the estimator itself."""
        return clone(self.estimator).fit(X, y)


class Separate(BaseEstimator):  # type: ignore[misc]
    """One estimator for each task, fitted on its rows alone.

    Tasks never seen, and tasks whose rows are all of one class, get a pooled one.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any, tasks: Any) -> Self:
        """Fit one estimator per task."""
        y = np.asarray(y)
        self.index_, codes = TaskIndex.of(check_tasks(tasks, len(y)))
        self.pooled_ = clone(self.estimator).fit(X, y)
        if is_classifier(self.estimator):
            self.classes_ = self.pooled_.classes_
        self.models_ = [self._alone(X, y, codes == task) for task in range(len(self.index_))]
        return self

    def _alone(self, X: Any, y: Any, own: Any) -> Any:
        if is_classifier(self.estimator) and len(np.unique(y[own])) < 2:
            return self.pooled_
        return clone(self.estimator).fit(_safe_indexing(X, np.flatnonzero(own)), y[own])

    def predict(self, X: Any, tasks: Any) -> Any:
        """Predict by each row's own model."""
        return self._by_task(X, tasks, lambda model, rows: model.predict(rows))

    def predict_proba(self, X: Any, tasks: Any) -> Any:
        """Probabilities of all classes by each row's own model."""
        return self._by_task(
            X, tasks, lambda model, rows: of_all(self.classes_, model, model.predict_proba(rows))
        )

    def _by_task(self, X: Any, tasks: Any, ask: Any) -> Any:
        codes = self.index_.encode(check_tasks(tasks, len(X)))
        models = [*self.models_, self.pooled_]  # -1 is a task never seen
        asked = {task: np.flatnonzero(codes == task) for task in np.unique(codes)}
        answers = [ask(models[task], _safe_indexing(X, rows)) for task, rows in asked.items()]
        order = np.argsort(np.concatenate(list(asked.values())))
        return np.concatenate(answers)[order]
