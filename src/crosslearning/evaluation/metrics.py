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
    """A score of a kind of target: the greater, the better.

    `of_tasks` takes targets, predictions, weights and tasks of rows, and the number of tasks. It
    returns the score of each task, NaN where there is none, and its weight.
    """

    name: str
    words: str
    kind: str
    of_tasks: Callable[..., tuple[Array, Array]]
    error: bool = True
    adds_up: bool = False  # whether scores of chunks of rows give that of all rows
    quantile: float | None = None  # the level of predictions that are not means
    family: str = ""  # whose deviance it is

    @classmethod
    def mean(
        cls, name: str, words: str, kind: str, of_rows: Callable[..., Array], **more: Any
    ) -> Self:
        """Return the metric that is the mean of a function of targets and predictions."""
        return cls(name, words, kind, partial(_means, of_rows), adds_up=True, **more)

    def reported(self, score: float) -> float:
        """Return the number that people read: errors are positive."""
        return -score if self.error else score


def _means(
    of_rows: Callable[..., Array],
    y: NDArray[Any],
    predictions: Predictions,
    *rows: Any,
    **options: float,
) -> tuple[Array, Array]:
    from crosslearning.evaluation.scores import mean_by_task

    return mean_by_task(of_rows(y, predictions, **options), *rows)


def _areas(
    y: NDArray[Any], predictions: Predictions, weights: Array, codes: NDArray[np.int64], n: int
) -> tuple[Array, Array]:
    """Areas under the curve; of several classes the mean over all, each against the rest."""
    import numpy as np

    from crosslearning.evaluation.scores import areas_by_task

    each = list(zip(np.asarray(predictions.classes), predictions.shares.T, strict=True))
    each = each[1:] if len(each) == 2 else each  # the curve of one is that of the other
    areas = [areas_by_task(shares, y == label, weights, codes, n) for label, shares in each]
    return np.mean(areas, axis=0), np.bincount(codes, weights, n).astype(np.float64)


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

    return Metric.mean(f"{name}-deviance", words, "regression", of_rows, family=name)


def _pinball(y: NDArray[Any], predictions: Predictions, level: float) -> Any:
    from crosslearning.convex.families import Quantile

    return -Quantile(level).deviance(y, predictions.values)


METRICS = {
    metric.name: metric
    for metric in (  # the first of a kind of target is the default
        Metric.mean("mse", "mean squared error", "regression", lambda y, p: -((y - p.values) ** 2)),
        Metric.mean("mae", "mean absolute error", "regression", lambda y, p: -abs(y - p.values)),
        _deviance("poisson", "Poisson deviance"),
        _deviance("gamma", "gamma deviance"),
        Metric.mean("log-loss", "log loss", "classification", _log_probability),
        Metric.mean(
            "accuracy",
            "accuracy",
            "classification",
            lambda y, p: 1.0 * (p.values == y),
            error=False,
        ),
        Metric("auc", "area under the curve", "classification", _areas, error=False),
        Metric.mean("pinball-loss", "pinball loss", "quantile", _pinball),
    )
}


def names_of(kind: str) -> list[str]:
    """Names of the metrics of a kind of target: regression, classification, or quantile."""
    return [name for name, metric in METRICS.items() if metric.kind == kind]


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
    if quantile is None:
        return metric
    return replace(metric, quantile=quantile, of_tasks=partial(metric.of_tasks, level=quantile))


def plain_of(metric: Metric, classes: NDArray[Any] | None) -> Metric:
    """Return the metric that a typical error is measured by: of a quantile the pinball loss."""
    if metric.quantile is not None:
        return metric
    return METRICS["mse" if classes is None else "accuracy"]
