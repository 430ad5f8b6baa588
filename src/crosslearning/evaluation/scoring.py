"""Scoring of predictions by task, with a default score or any scikit-learn scorer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import UndefinedMetricWarning

from crosslearning.tether import Array, Flags

Scorer = Callable[..., float]


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions for some rows: targets or classes, and probabilities of classifiers."""

    values: NDArray[Any]
    classes: NDArray[Any] | None = None
    probabilities: Array | None = None
    decisions: Array | None = None

    def model(self, rows: Flags) -> Any:
        """Return a stand-in for an estimator that scorers can call."""
        model = _Regressor() if self.classes is None else _Classifier()
        if self.classes is not None:
            model.classes_ = self.classes
        for name in ("values", "probabilities", "decisions"):
            prediction = getattr(self, name)
            setattr(model, name, None if prediction is None else prediction[rows])
        return model


class _Known(BaseEstimator):  # type: ignore[misc]
    """A fitted model that has already predicted."""

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> Any:  # noqa: ARG002
        return self.values


class _Regressor(RegressorMixin, _Known):  # type: ignore[misc]
    pass


class _Classifier(ClassifierMixin, _Known):  # type: ignore[misc]
    def predict_proba(self, X: Any) -> Any:  # noqa: ARG002
        return self.probabilities

    def decision_function(self, X: Any) -> Any:  # noqa: ARG002
        return self.decisions


def scorer_of(estimator: Any, scoring: Any, default: str) -> Scorer | None:
    """Return the scorer that a name or a function stands for; None for the default."""
    from sklearn.metrics import check_scoring

    return None if scoring in (None, default) else check_scoring(estimator, scoring)


def score_tasks(
    scorer: Scorer | None,
    predicted: Predicted,
    X: Any,
    y: NDArray[Any],
    weights: Array,
    tasks: NDArray[np.int64],
    n_tasks: int,
) -> tuple[Array, Array]:
    """Return the score of each task, NaN if undefined, and its weight.

    The default is the weighted mean of the negative squared error or, for classes, of the log
    probability, which is defined even if a task lacks a class. Other scorers ignore weights.
    """
    if scorer is None:
        total = np.bincount(tasks, weights, n_tasks).astype(np.float64)
        sums = np.bincount(tasks, weights * _by_row(predicted, y), n_tasks)
        return np.divide(sums, total, out=np.full(n_tasks, np.nan), where=total > 0), total
    scores = np.full(n_tasks, np.nan)
    for task in np.unique(tasks):
        rows = tasks == task
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedMetricWarning)
            try:
                scores[task] = scorer(predicted.model(rows), X[rows], y[rows])
            except ValueError:  # such as the area under a curve with a single class
                continue
    return scores, np.bincount(tasks, minlength=n_tasks).astype(np.float64)


def _by_row(predicted: Predicted, y: NDArray[Any]) -> Array:
    if predicted.classes is None:
        return np.asarray(-np.square(y - predicted.values))
    if predicted.probabilities is None:
        raise ValueError(
            "The default score of a classifier is the log-loss, which needs `predict_proba`. "
            "Choose another with `scoring`, such as 'accuracy'."
        )
    probability = predicted.probabilities[np.arange(len(y)), np.searchsorted(predicted.classes, y)]
    return np.asarray(np.log(np.maximum(probability, np.finfo(np.float64).tiny)))
