"""Any scikit-learn scorer, applied task by task."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import UndefinedMetricWarning

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["by_task", "scores_by_task"]


class _Predicted(BaseEstimator):  # type: ignore[misc]
    """A fitted model that has already predicted; what scorers take for an estimator."""

    def __init__(self, **predictions: NDArray[Any]) -> None:
        self.__dict__.update(predictions)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> Any:  # noqa: ARG002
        return self.predictions


class _PredictedRegressor(RegressorMixin, _Predicted):  # type: ignore[misc]
    pass


class _PredictedClassifier(ClassifierMixin, _Predicted):  # type: ignore[misc]
    def predict_proba(self, X: Any) -> Any:  # noqa: ARG002
        return self.probabilities

    def decision_function(self, X: Any) -> Any:  # noqa: ARG002
        return self.decisions


def by_task(
    values: NDArray[np.float64],
    weights: NDArray[np.float64],
    tasks: NDArray[np.int64],
    n_tasks: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weighted mean of values by task, NaN where there are none, and the sum of weights."""
    total = np.bincount(tasks, weights, n_tasks).astype(np.float64)
    sums = np.bincount(tasks, weights * values, n_tasks)
    return np.divide(sums, total, out=np.full(n_tasks, np.nan), where=total > 0), total


def scores_by_task(
    scorer: Callable[..., float],
    X: NDArray[np.float64],
    y: NDArray[Any],
    tasks: NDArray[np.int64],
    n_tasks: int,
    classes: NDArray[Any] | None,
    **predictions: NDArray[Any],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores of the predictions for each task, NaN where undefined, and its number of rows."""
    kind = _PredictedRegressor if classes is None else _PredictedClassifier
    scores = np.full(n_tasks, np.nan)
    for task in np.unique(tasks):
        at = tasks == task
        model = kind(**{name: values[at] for name, values in predictions.items()})
        if classes is not None:
            model.classes_ = classes
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedMetricWarning)
            try:
                scores[task] = scorer(model, X[at], y[at])
            except ValueError:  # such as an area under a curve with one class only
                continue
    return scores, np.bincount(tasks, minlength=n_tasks).astype(np.float64)
