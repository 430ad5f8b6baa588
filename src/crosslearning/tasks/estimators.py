"""Task labels as estimators take them: beside X, in a column of X, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.tasks.labels import TaskIndex, check_tasks, split_task_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["as_objects", "codes_to_fit", "codes_to_predict", "separate_labels"]


def separate_labels(X: Any, tasks: Any, task_column: Any) -> tuple[Any, Any]:
    """Separate features and task labels, wherever the labels are.

    Parameters
    ----------
    X : array or DataFrame
        Features, and the labels if `task_column` names their column.
    tasks : array of shape (n_rows,) or None
        The labels, if they are not in X.
    task_column : hashable or None
        Name of the column.

    Returns
    -------
    X, tasks
        Features alone, and the labels or None.
    """
    if task_column is None:
        return X, tasks
    if tasks is not None:
        raise ValueError(
            "Task labels were given twice, as `tasks` and in the column that `task_column` "
            "names. Give them once."
        )
    return split_task_column(X, task_column)


def codes_to_fit(tasks: Any, n_rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Distinct labels, and the position of each row's; without labels all rows are one task."""
    if tasks is None:
        return as_objects([0]), np.zeros(n_rows, dtype=np.int64)
    index, codes = TaskIndex.of(check_tasks(tasks, n_rows))
    return as_objects(index.labels), codes


def codes_to_predict(known: NDArray[Any], tasks: Any, n_rows: int) -> NDArray[np.int64]:
    """Position of each row's label among the known ones, -1 where the centre is to predict.

    That is for labels never seen, and for all rows if none are given and several are known.
    """
    if tasks is None:
        return np.full(n_rows, 0 if len(known) == 1 else -1)
    return TaskIndex(tuple(known)).encode(check_tasks(tasks, n_rows))


def as_objects(labels: Any) -> NDArray[Any]:
    """Task labels as an array of objects, so that no label changes its type."""
    array = np.empty(len(labels), dtype=object)
    array[:] = list(labels)
    return array
