"""What users give: features, targets, weights and task labels, checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight, validate_data

from crosslearning.linear.design import Rows
from crosslearning.tasks import TaskIndex, check_tasks, split_task_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TaskRows", "checked_weights", "dense", "labels"]


class TaskRows(ABC):
    """The part of an estimator that turns its input into rows."""

    task_column: Any

    @abstractmethod
    def _learn_target(self, y: NDArray[Any], weights: NDArray[np.float64]) -> None:
        """Remember what is needed to encode targets."""

    @abstractmethod
    def _encoded(self, y: NDArray[Any]) -> NDArray[Any]:
        """Encode targets."""

    @property
    def _checks(self) -> dict[str, Any]:
        return {"accept_sparse": "csr", "dtype": np.float64}

    def _split(self, X: Any, tasks: Any) -> tuple[Any, Any]:
        """Separate features and task labels, wherever the labels are."""
        if self.task_column is None:
            return X, tasks
        if tasks is not None:
            raise ValueError(
                "Task labels were given twice, as `tasks` and in the column that `task_column` "
                "names. Give them once."
            )
        return split_task_column(X, self.task_column)

    def _check_new_rows(self, X: Any, tasks: Any) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Features of rows to predict, and the number of each row's task: -1 is not known."""
        X, tasks = self._split(X, tasks)
        array = dense(validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64))
        if tasks is None:
            return array, np.full(len(array), 0 if len(self.tasks_) == 1 else -1)
        return array, TaskIndex(tuple(self.tasks_)).encode(check_tasks(tasks, len(array)))

    def _check_rows(self, X: Any, y: Any, tasks: Any, sample_weight: Any) -> Rows:
        X, tasks = self._split(X, tasks)
        array, target = validate_data(self, X, y, **self._checks)
        weights = checked_weights(sample_weight, array)
        if tasks is None:
            index, codes = TaskIndex((0,)), np.zeros(len(weights), dtype=np.int64)
        else:
            index, codes = TaskIndex.of(check_tasks(tasks, len(weights)))
        self._learn_target(target, weights)
        self.tasks_ = labels(index.labels)
        self.total_weight_ = float(weights.sum())
        self.n_tasks_fitted_ = int(np.count_nonzero(np.bincount(codes, weights)))
        return Rows(dense(array), self._encoded(target), weights, codes, len(index))


def checked_weights(sample_weight: Any, X: Any) -> NDArray[np.float64]:
    """Weights of the rows, 1 by default, not all 0."""
    weights: NDArray[np.float64] = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    if not weights.any():
        raise ValueError("`sample_weight` must not be 0 for all rows; got no positive weight.")
    return weights


def dense(X: Any) -> NDArray[np.float64]:
    """Array of a matrix that may be sparse."""
    array: NDArray[np.float64] = X.toarray() if hasattr(X, "toarray") else X
    return array


def labels(values: Any) -> NDArray[Any]:
    """Task labels as an array of objects, so that no label changes its type."""
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return array
