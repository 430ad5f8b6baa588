"""Metrics of predictions, averaged within tasks and then over tasks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from crosslearning.tables.columns.labels import tidy
from crosslearning.tables.columns.recognition import as_numbers
from crosslearning.tables.forecast import forecast, probabilities
from crosslearning.tables.model import TableModel
from crosslearning.tables.settings import OF_CLASSES

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
    """A score: the greater, the better."""

    name: str
    words: str
    of_rows: Callable[[NDArray[Any], Predictions], Array] | None
    error: bool = True
    quantile: float | None = None  # that predictions are of, instead of the mean

    def of_tasks(
        self,
        y: NDArray[Any],
        predictions: Predictions,
        weights: Array,
        codes: NDArray[np.int64],
        n_tasks: int,
    ) -> tuple[Array, Array]:
        """Mean score of each task, NaN where there is none, and its weight."""
        if self.of_rows is None:
            from sklearn.metrics import get_scorer

            from crosslearning.evaluation.scoring import Predicted, score_tasks

            scorer = get_scorer("roc_auc_ovr" if predictions.shares.shape[1] > 2 else "roc_auc")
            predicted = Predicted(*predictions, decisions=predictions.shares[:, -1])
            features = np.empty((len(y), 0))
            return score_tasks(scorer, predicted, features, y, weights, codes, n_tasks)
        total = np.bincount(codes, weights, n_tasks).astype(np.float64)
        sums = np.bincount(codes, weights * self.of_rows(y, predictions), n_tasks)
        return np.divide(sums, total, out=np.full(n_tasks, np.nan), where=total > 0), total

    def shown(self, score: float) -> float:
        """Return the number that people read: errors are positive."""
        return -score if self.error else score


def _log_probability(y: NDArray[Any], predictions: Predictions) -> Array:
    own = predictions.shares[np.arange(len(y)), np.searchsorted(np.asarray(predictions.classes), y)]
    return np.asarray(np.log(np.maximum(own, _SMALLEST)))


def _poisson(y: NDArray[Any], predictions: Predictions) -> Array:
    mean = np.maximum(predictions.values, _SMALLEST)
    logs = np.log(np.maximum(y, _SMALLEST) / mean)
    return np.asarray(-2.0 * (y * logs - y + mean))


def _gamma(y: NDArray[Any], predictions: Predictions) -> Array:
    ratio = np.maximum(y, _SMALLEST) / np.maximum(predictions.values, _SMALLEST)
    return np.asarray(-2.0 * (ratio - 1.0 - np.log(ratio)))


_ALL = (
    Metric("mse", "mean squared error", lambda y, predictions: -np.square(y - predictions.values)),
    Metric("mae", "mean absolute error", lambda y, predictions: -np.abs(y - predictions.values)),
    Metric("log-loss", "log loss", _log_probability),
    Metric(
        "accuracy", "accuracy", lambda y, predictions: 1.0 * (predictions.values == y), error=False
    ),
    Metric("auc", "area under the curve", None, error=False),
    Metric("poisson-deviance", "Poisson deviance", _poisson),
    Metric("gamma-deviance", "gamma deviance", _gamma),
)
METRICS = {metric.name: metric for metric in _ALL}


def _pinball(level: float) -> Metric:
    def of_rows(y: NDArray[Any], predictions: Predictions) -> Array:
        rest = y - predictions.values
        return np.asarray(-np.maximum(level * rest, (level - 1.0) * rest))

    return Metric("pinball-loss", "pinball loss", of_rows, quantile=level)


def metric_of(name: str | None, kind: str, quantile: float | None = None) -> Metric:
    """Return the metric of this name, or the default for a kind of target or for a quantile.

    >>> metric_of(None, "regression").words
    'mean squared error'
    """
    if quantile is not None:
        if name not in (None, "pinball-loss"):
            raise ValueError(f"The metric of a quantile is pinball-loss; got {name!r}. Omit it.")
        return _pinball(quantile)
    classes = kind == "classification"
    chosen = name or ("log-loss" if classes else "mse")
    known = [other for other in METRICS if (other in OF_CLASSES) == classes]
    if chosen not in known:
        other = "classification" if kind == "regression" else "regression"
        hint = f" Or ask for {other}." if chosen in METRICS else ""
        raise ValueError(
            f"Option metric must be one of {', '.join(known)} for {kind}; got {name!r}.{hint}"
        )
    return METRICS[chosen]


def plain_of(metric: Metric, classes: NDArray[Any] | None) -> Metric:
    """Return the metric that a typical error is measured by: of a quantile the pinball loss."""
    if metric.quantile is not None:
        return metric
    return METRICS["mse" if classes is None else "accuracy"]


def weights_of(table: Any, name: str | None, marks: dict[str, str]) -> Array:
    """Return the weights in this column, or 1 for each row where there is none."""
    if name is None or name not in table:
        return np.ones(len(table))
    values = as_numbers(table[name], marks.get(name))
    if not (values >= 0).all():
        raise ValueError(
            f"The weights in {name!r} must be at least 0 in every row; got {np.nanmin(values)} as "
            f"the smallest and {int(np.isnan(values).sum())} missing values."
        )
    return values


class Scorer:
    """Scores rows with a target, also in chunks: mean over tasks.

    New tasks count each; rows without a label count as one task. `weighted` is a column of weights,
    if the table has it.
    """

    def __init__(self, model: TableModel, weighted: str | None = None) -> None:
        self.weighted = weighted
        kind = "regression" if model.classes is None else "classification"
        self.model, self.metric = model, metric_of(model.metric, kind, model.quantile)
        self.new: dict[str, int] = {}  # numbers of new tasks
        self.n_tasks, self.rows = len(model.state["fitted"]["tasks_"]), 0
        self.sums, self.weights = np.zeros(self.n_tasks), np.zeros(self.n_tasks)

    def add(self, frame: Any) -> None:
        """Score some rows; an area under a curve cannot be added up from chunks."""
        y, predictions, codes, rows = predict_targets(self.model, frame)
        own = (
            tidy(rows.loc[codes < 0, self.model.task]).astype(object).map(str)
        )  # "None" where there is none
        codes[codes < 0] = [self.new.setdefault(name, self.n_tasks + len(self.new)) for name in own]
        n_tasks = self.n_tasks + len(self.new)
        self.sums.resize(n_tasks, refcheck=False)
        self.weights.resize(n_tasks, refcheck=False)
        given = weights_of(rows, self.weighted, self.model.encoder.marks)
        scores, weights = self.metric.of_tasks(y, predictions, given, codes, n_tasks)
        self.sums += np.where(np.isfinite(scores), scores * weights, 0.0)
        self.weights += np.where(np.isfinite(scores), weights, 0.0)
        self.rows += len(y)

    @property
    def score(self) -> dict[str, Any]:
        """Metric, score and number of rows."""
        scored = self.weights > 0
        score = float(np.mean(self.sums[scored] / self.weights[scored])) if scored.any() else np.nan
        return {"metric": self.metric.words, "score": self.metric.shown(score), "rows": self.rows}


def predict_targets(model: TableModel, frame: Any) -> tuple[Any, Predictions, Any, Any]:
    """Known targets, their predictions, the numbers of their tasks, and these rows."""
    rows, classes = frame[frame[model.target].notna()].reset_index(drop=True), model.classes
    mark = model.encoder.marks.get(model.target)
    if classes is None:
        y = as_numbers(rows[model.target], mark)
        rows, y = rows[~np.isnan(y)], y[~np.isnan(y)]
    X, codes = model.encode(rows)
    if classes is None:
        values = forecast(model.state, X, codes, spread=False)[0]
    else:
        if isinstance(classes[0], str):
            y = rows[model.target].astype(object).map(str).to_numpy(dtype=object)
        else:
            y = as_numbers(rows[model.target], mark).astype(classes.dtype)
        known = np.isin(y, classes)
        if not known.all():
            raise ValueError(
                f"The target {model.target!r} must be one of {', '.join(map(str, classes))} to be "
                f"scored; got {y[~known][0]!r}. Drop the column or the rows."
            )
        values = probabilities(model.state, X, codes)
    return y, Predictions.of(values, classes), codes, rows
