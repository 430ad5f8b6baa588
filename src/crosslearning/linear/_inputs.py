"""What users give: features, targets, weights and task labels, checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight, check_array, validate_data

from crosslearning.convex.design import TaskTable
from crosslearning.tasks.estimators import codes_to_fit, codes_to_predict, separate_labels

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TaskRows", "checked_offset", "checked_weights"]


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
        return {"dtype": np.float64}

    def _check_new_rows(self, X: Any, tasks: Any) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Features of rows to predict, and the number of each row's task: -1 is not known."""
        X, tasks = separate_labels(X, tasks, self.task_column)
        array = validate_data(self, X, reset=False, dtype=np.float64)
        return array, codes_to_predict(self.tasks_, tasks, len(array))

    def _check_rows(self, X: Any, y: Any, tasks: Any, sample_weight: Any) -> TaskTable:
        X, tasks = separate_labels(X, tasks, self.task_column)
        array, target = validate_data(self, X, y, **self._checks)
        weights = checked_weights(sample_weight, array)
        known, codes = codes_to_fit(tasks, len(weights))
        self._learn_target(target, weights)
        self.tasks_ = known
        self.total_weight_ = float(weights.sum())
        self.n_tasks_fitted_ = int(np.count_nonzero(np.bincount(codes, weights)))
        return TaskTable(array, self._encoded(target), weights, codes, len(known))


def checked_weights(sample_weight: Any, X: Any) -> NDArray[np.float64]:
    """Weights of the rows, 1 by default, not all 0."""
    weights: NDArray[np.float64] = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    if not weights.any():
        raise ValueError("`sample_weight` must not be 0 for all rows; got no positive weight.")
    return weights


def checked_offset(offset: Any, n_rows: int) -> NDArray[np.float64] | None:
    """Return one number per row, or None."""
    if offset is None:
        return None
    checked: NDArray[np.float64] = check_array(
        offset, ensure_2d=False, dtype=np.float64, input_name="sample_offset"
    )
    if checked.shape != (n_rows,):
        raise ValueError(
            f"`sample_offset` must hold one number for each of the {n_rows} rows; got shape "
            f"{checked.shape}."
        )
    return checked
