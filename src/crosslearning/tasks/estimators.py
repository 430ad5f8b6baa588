"""Estimators with task labels, passed as an argument or in a column of X."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from crosslearning.coupling._members import level_of_caller
from crosslearning.tasks.labels import TaskIndex, as_objects, check_tasks, split_task_column

CENTER = "center"


class _TaskPredictor:
    """Adds `predict` and `score` to ``_predict(X, tasks)``."""

    def predict(self, X: ArrayLike, tasks: ArrayLike | str | None = None) -> NDArray[Any]:
        """Predict targets or classes.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
            Features.
        tasks : array of shape (n_rows,) or "center", optional
            Task label of each row. The centre predicts new tasks, and all rows if this is
            ``"center"``. Not needed if there is only one task, or a `task_column`. Of groups within
            groups, the columns of `fit`, matched by name, or a tuple of labels per row; the
            smallest group in the fit predicts a new task.
        """
        return np.asarray(self._predict(X, tasks))  # type: ignore[attr-defined]

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        tasks: ArrayLike | str | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return R² of a regression or accuracy of a classification over all rows."""
        measure = self._measure()
        return float(measure(y, self.predict(X, tasks), sample_weight=sample_weight))

    def _measure(self) -> Callable[..., float]:
        """Score of predictions, as scikit-learn has it."""
        from sklearn.metrics import accuracy_score, r2_score

        if not isinstance(self, TaskClassifier):
            return r2_score  # type: ignore[no-any-return]
        # Scikit-learn refuses classes such as 0.5, and truth values of object dtype.
        return accuracy if self.classes_.dtype.kind in "fb" else accuracy_score


class TaskRegressor(_TaskPredictor, RegressorMixin):  # type: ignore[misc]
    """A regression with tasks."""


class TaskClassifier(_TaskPredictor, ClassifierMixin):  # type: ignore[misc]
    """A classification with tasks, from its ``_class_scores(X, tasks)``."""

    def predict_proba(
        self, X: ArrayLike, tasks: ArrayLike | str | None = None
    ) -> NDArray[np.float64]:
        """Probabilities of the classes, shape (n_rows, n_classes); parameters as in `predict`."""
        from scipy.special import softmax

        return np.asarray(softmax(self._class_scores(X, tasks), axis=1))

    def _predict(self, X: Any, tasks: Any) -> NDArray[Any]:
        best = self._class_scores(X, tasks).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def _learn_classes(self, y: NDArray[Any], most_numbers: int = 0) -> NDArray[np.intp]:
        """Store the classes, and return the position of each row's; so many may be any numbers."""
        if y.dtype.kind != "f" or len(np.unique(y)) > most_numbers:
            check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self._refuse_one_class()
        return np.asarray(codes)

    def _refuse_one_class(self) -> None:
        if len(self.classes_) < 2:
            one = self.classes_.tolist()[0]
            raise ValueError(f"A classifier needs at least 2 classes; got one class, {one!r}.")


def accuracy(y: Any, predicted: Any, sample_weight: Any = None) -> float:
    """Return the share of targets that are predicted, whatever their type."""
    return float(np.average(np.asarray(y) == predicted, weights=sample_weight))


def separate_labels(X: Any, tasks: Any, task_column: Any) -> tuple[Any, Any]:
    """Separate features and task labels, given as `tasks` or in `task_column`."""
    if task_column is None:
        return X, tasks
    if is_center(tasks):
        return X.drop(columns=task_column, errors="ignore") if hasattr(X, "drop") else X, tasks
    if tasks is not None:
        raise ValueError(
            "Task labels were given twice, as `tasks` and as `task_column`. Pass only one of them."
        )
    columns = {}
    for name in task_column if isinstance(task_column, list) else [task_column]:
        X, columns[name] = split_task_column(X, name)
    return X, columns[name] if len(columns) == 1 else pd.DataFrame(columns)


def codes_to_fit(tasks: Any, n_rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return distinct labels and the position of each row's; one task, and a warning, if None."""
    if tasks is None:
        warnings.warn(
            "`fit` got no `tasks`, so all rows are one task and nothing is shared. Pass the label "
            "of each row as `tasks` or in a `task_column`; if one task is meant, the same for all.",
            UserWarning,
            stacklevel=level_of_caller(),
        )
        return as_objects([0]), np.zeros(n_rows, dtype=np.int64)
    index, codes = TaskIndex.of(check_tasks(tasks, n_rows))
    return as_objects(index.labels), codes


def codes_to_predict(labels: NDArray[Any], tasks: Any, n_rows: int) -> NDArray[np.int64]:
    """Return the position of each row's label, -1 where the centre predicts."""
    if is_center(tasks):
        return np.full(n_rows, -1)
    if tasks is not None:
        return TaskIndex(tuple(labels)).encode(check_tasks(tasks, n_rows), strict=True)
    if len(labels) > 1:
        raise ValueError(
            f"A model of several tasks must know the task of each row; got no `tasks` for a model "
            f"of {len(labels):,}. Pass the labels as `tasks`, or tasks={CENTER!r} to predict with "
            "the centre. Scikit-learn's searches and scores need the labels in a `task_column`."
        )
    return np.zeros(n_rows, dtype=np.int64)


def is_center(tasks: Any) -> bool:
    """Whether the centre is to predict all rows."""
    return isinstance(tasks, str) and tasks == CENTER
