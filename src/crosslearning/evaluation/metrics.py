"""Metrics of predictions, averaged within tasks and then over tasks; to add one, see `METRICS`.

The command line lists metrics: numpy, which takes long to import, is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_SMALLEST = 1e-12  # probability, or mean of a positive target, before a logarithm is taken


class Predictions(NamedTuple):
    """Predictions: numbers, or classes and their probabilities."""

    values: NDArray[Any]
    classes: NDArray[Any] | None = None
    shares: Any = None

    @classmethod
    def of(cls, predictions: Array, classes: NDArray[Any] | None) -> Self:
        """Take numbers, or probabilities of classes."""
        if classes is None:
            return cls(predictions)
        return cls(classes[predictions.argmax(axis=1)], classes, predictions)


@dataclass(frozen=True, eq=False)
class Metric:
    """A score of a kind of target: the greater, the better."""

    name: str
    words: str
    kind: str
    of_rows: Callable[..., Array] | None  # None: the area under a curve is no mean over rows
    error: bool = True
    quantile: float | None = None  # the level of predictions that are not means
    family: str = ""  # whose deviance it is

    def of_tasks(
        self,
        y: NDArray[Any],
        predictions: Predictions,
        weights: Array,
        codes: NDArray[np.int64],
        n_tasks: int,
    ) -> tuple[Array, Array]:
        """Mean score of each task, NaN where there is none, and its weight."""
        from crosslearning.evaluation.scores import mean_by_task

        if self.of_rows is not None:
            return mean_by_task(self.of_rows(y, predictions), weights, codes, n_tasks)
        from sklearn.metrics import get_scorer

        from crosslearning.evaluation.scoring import Predicted, score_tasks

        scorer = get_scorer("roc_auc_ovr" if predictions.shares.shape[1] > 2 else "roc_auc")
        predicted = Predicted(*predictions)  # which needs no features; any will do
        return score_tasks(scorer, predicted, y, y, weights, codes, n_tasks)

    @property
    def adds_up(self) -> bool:
        """Whether scores of chunks of rows add up to that of all rows."""
        return self.of_rows is not None

    def reported(self, score: float) -> float:
        """Return the number that people read: errors are positive."""
        return -score if self.error else score


def _log_probability(y: NDArray[Any], predictions: Predictions) -> Any:
    import numpy as np

    true = np.searchsorted(np.asarray(predictions.classes), y)
    return np.log(np.maximum(predictions.shares[np.arange(len(y)), true], _SMALLEST))


def _deviance(name: str, words: str) -> Metric:
    def of_rows(y: NDArray[Any], predictions: Predictions) -> Any:
        import numpy as np

        from crosslearning.convex.families import REGISTRY

        y, means = (np.maximum(values, _SMALLEST) for values in (y, predictions.values))
        return -REGISTRY[name]().deviance(y, means)

    return Metric(f"{name}-deviance", words, "regression", of_rows, family=name)


def _pinball(y: NDArray[Any], predictions: Predictions, level: float) -> Any:
    from crosslearning.convex.families import Quantile

    return -Quantile(level).deviance(y, predictions.values)


_ALL = (  # the first of a kind of target is the default
    Metric("mse", "mean squared error", "regression", lambda y, p: -((y - p.values) ** 2)),
    Metric("mae", "mean absolute error", "regression", lambda y, p: -abs(y - p.values)),
    _deviance("poisson", "Poisson deviance"),
    _deviance("gamma", "gamma deviance"),
    Metric("log-loss", "log loss", "classification", _log_probability),
    Metric(
        "accuracy", "accuracy", "classification", lambda y, p: 1.0 * (p.values == y), error=False
    ),
    Metric("auc", "area under the curve", "classification", None, error=False),
    Metric("pinball-loss", "pinball loss", "quantile", _pinball),
)
METRICS = {metric.name: metric for metric in _ALL}


def names_of(kind: str) -> list[str]:
    """Names of the metrics of a kind of target: regression, classification, or quantile."""
    return [metric.name for metric in _ALL if metric.kind == kind]


def metric_of(name: str | None, kind: str, quantile: float | None = None) -> Metric:
    """Return the metric of this name, or the default for a kind of target or for a quantile.

    >>> metric_of(None, "regression").words
    'mean squared error'
    """
    kind = kind if quantile is None else "quantile"
    names = names_of(kind)
    metric = METRICS[names[0] if name is None else name]
    if metric.kind != kind:
        raise ValueError(
            f"Option metric must be one of {', '.join(names)} for {kind}; got {name!r}. "
            f"Choose one of these: {name} is for {metric.kind}."
        )
    if quantile is None or metric.of_rows is None:
        return metric
    return replace(metric, quantile=quantile, of_rows=partial(metric.of_rows, level=quantile))


def plain_of(metric: Metric, classes: NDArray[Any] | None) -> Metric:
    """Return the metric that a typical error is measured by: of a quantile the pinball loss."""
    if metric.quantile is not None:
        return metric
    return METRICS["mse" if classes is None else "accuracy"]
