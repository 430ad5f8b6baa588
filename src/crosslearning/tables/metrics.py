"""What predictions are scored by: errors of rows, averaged within tasks and then over tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.evaluation.scoring import Predicted, score_tasks

Array = NDArray[np.float64]
_SMALLEST = 1e-12  # probability, and mean of a positive target, that still has a logarithm


@dataclass(frozen=True, eq=False)
class Metric:
    """A score: the greater, the better."""

    name: str
    words: str
    of_rows: Callable[[NDArray[Any], Predicted], Array] | None
    error: bool = True

    def of_tasks(
        self,
        y: NDArray[Any],
        predicted: Predicted,
        weights: Array,
        codes: NDArray[np.int64],
        n_tasks: int,
    ) -> tuple[Array, Array]:
        """Mean score of each task, NaN where there is none, and what it weighs."""
        if self.of_rows is None:
            from sklearn.metrics import get_scorer

            assert predicted.classes is not None
            assert predicted.probabilities is not None
            several = len(predicted.classes) > 2
            scorer = get_scorer("roc_auc_ovr" if several else "roc_auc")
            predicted = replace(predicted, decisions=predicted.probabilities[:, -1])
            features = np.empty((len(y), 0))
            return score_tasks(scorer, predicted, features, y, weights, codes, n_tasks)
        total = np.bincount(codes, weights, n_tasks).astype(np.float64)
        sums = np.bincount(codes, weights * self.of_rows(y, predicted), n_tasks)
        return np.divide(sums, total, out=np.full(n_tasks, np.nan), where=total > 0), total

    def shown(self, score: float) -> float:
        """Return the number that people read."""
        return -score if self.error else score


def _squared(y: NDArray[Any], said: Predicted) -> Array:
    return np.asarray(-np.square(y - said.values))


def _absolute(y: NDArray[Any], said: Predicted) -> Array:
    return np.asarray(-np.abs(y - said.values))


def _log_probability(y: NDArray[Any], said: Predicted) -> Array:
    assert said.classes is not None
    assert said.probabilities is not None
    own = said.probabilities[np.arange(len(y)), np.searchsorted(said.classes, y)]
    return np.asarray(np.log(np.maximum(own, _SMALLEST)))


def _correct(y: NDArray[Any], said: Predicted) -> Array:
    return np.asarray(said.values == y, dtype=np.float64)


def _poisson(y: NDArray[Any], said: Predicted) -> Array:
    mean = np.maximum(said.values, _SMALLEST)
    logs = np.log(np.maximum(y, _SMALLEST) / mean)
    return np.asarray(-2.0 * (y * logs - y + mean))


def _gamma(y: NDArray[Any], said: Predicted) -> Array:
    ratio = np.maximum(y, _SMALLEST) / np.maximum(said.values, _SMALLEST)
    return np.asarray(-2.0 * (ratio - 1.0 - np.log(ratio)))


_ALL = (
    Metric("mse", "mean squared error", _squared),
    Metric("mae", "mean absolute error", _absolute),
    Metric("log-loss", "log loss", _log_probability),
    Metric("accuracy", "accuracy", _correct, error=False),
    Metric("auc", "area under the curve", None, error=False),
    Metric("poisson-deviance", "Poisson deviance", _poisson),
    Metric("gamma-deviance", "gamma deviance", _gamma),
)
METRICS = {metric.name: metric for metric in _ALL}
_OF_CLASSES = ("log-loss", "accuracy", "auc")


def metric_of(name: str | None, kind: str) -> Metric:
    """Return the metric of this name, or the default for a kind of target.

    Examples
    --------
    >>> metric_of(None, "regression").words
    'mean squared error'
    """
    classes = kind == "classification"
    chosen = name or ("log-loss" if classes else "mse")
    known = [other for other in METRICS if (other in _OF_CLASSES) == classes]
    if chosen not in known:
        raise ValueError(f"`metric` must be one of {', '.join(known)} for {kind}; got {name!r}.")
    return METRICS[chosen]
