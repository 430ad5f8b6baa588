"""What held-out rows say: the score of a baseline, and whether predictions of a model hold."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.convex.predict import Coverage, Residuals, calibrated
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.evaluation.numbers import percent
from crosslearning.evaluation.scores import Reliability, Scores, reliability
from crosslearning.tables.findings import Prediction
from crosslearning.tables.learners.candidates import Trials
from crosslearning.tables.metrics import Metric, Predictions
from crosslearning.tables.rows import Rows, Splits

Array = NDArray[np.float64]
_MOST_SHOWN = 2_000  # predictions
_MOST_ERRORS = 2**16  # of held-out rows, which are stored with the model


@dataclass(frozen=True, eq=False, kw_only=True)
class RowSummary:
    """Rows per task, score of the baseline, features constant within tasks, tasks compared."""

    counts: NDArray[np.int64]
    baseline: float
    constant: list[str]
    fingerprint: str
    compared: NDArray[np.intp]

    @classmethod
    def of_rows(cls, rows: Rows, splits: Splits, metric: Metric, names: list[str]) -> RowSummary:
        """Look at rows in memory; `names` are those of the features, if they are columns."""
        first = np.zeros(rows.n_tasks, dtype=np.intp)  # row of each task
        first[rows.codes[::-1]] = np.arange(len(rows.codes))[::-1]
        varies = np.any(rows.X[:, : len(names)] != rows.X[first[rows.codes], : len(names)], axis=0)
        return cls(
            counts=np.bincount(rows.codes, minlength=rows.n_tasks),
            baseline=baseline_score(rows, splits, metric),
            constant=np.array(names, dtype=object)[~varies].tolist(),
            fingerprint=_fingerprint(rows.X, rows.codes, pd.util.hash_array(rows.y)),
            compared=np.arange(rows.n_tasks),
        )

    @classmethod
    def of_sums(
        cls, total: Statistics, names: list[str], baseline: float, tasks: NDArray[np.intp]
    ) -> RowSummary:
        """Look at sums of all rows, of which the rows of some tasks were scored."""
        squares = np.einsum("nfjj->j", total.cells.scatters)[:-1]
        return cls(
            counts=total.counts,
            baseline=baseline,
            constant=np.array(names, dtype=object)[squares == 0].tolist(),
            fingerprint=_fingerprint(total.cells.counts, total.cells.means),
            compared=tasks,
        )

    @property
    def notes(self) -> list[str]:
        """Say if some tasks decided for all."""
        some, of = len(self.compared), len(self.counts)
        return [f"models were compared on {some:,} of {of:,} tasks"] if some < of else []


def _fingerprint(*arrays: NDArray[Any]) -> str:
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def baseline_score(rows: Rows, splits: Splits, metric: Metric) -> float:
    """Score of predicting the mean, quantile or class frequencies of training rows."""
    by_split = []
    for train, test in splits.parts:
        part = rows.take(test)
        predictions = _baseline(rows.take(train), len(test), metric)
        weights = part.row_weights
        by_split.append(metric.of_tasks(part.y, predictions, weights, part.codes, rows.n_tasks))
    scores, weights = (np.stack(part) for part in zip(*by_split, strict=True))
    by_task = Scores(["baseline"], scores[np.newaxis], weights).by_task
    return metric.reported(float(np.nanmean(by_task)))


def _baseline(rows: Rows, n_rows: int, metric: Metric) -> Predictions:
    y, weights = rows.counted, rows.row_weights[rows.row_weights > 0]
    if metric.quantile is not None:
        how: Any = {} if rows.weights is None else {"weights": weights, "method": "inverted_cdf"}
        value = np.asarray(np.quantile(y, metric.quantile, **how))
    elif rows.classes is None:
        value = np.asarray(np.average(y, weights=weights))
    else:
        counts = np.maximum(weights @ (y[:, np.newaxis] == rows.classes), 0.5)
        value = counts / counts.sum()
    return Predictions.of(np.repeat(value[np.newaxis], n_rows, axis=0), rows.classes)


@dataclass(frozen=True, kw_only=True)
class Checks:
    """Errors, coverage of intervals and examples, of numbers; reliability, of classes; notes."""

    residuals: Residuals | None = None
    calibration: tuple[Coverage, ...] = ()
    predicted: tuple[Prediction, ...] = ()
    reliability: Reliability | None = None
    notes: tuple[str, ...] = ()


def check_trials(
    trials: Trials, rows: Rows, splits: Splits, labels: Sequence[Any], seed: int
) -> Checks:
    """Check the predictions of the chosen model on held-out rows."""
    predictions, sds = (of[trials.chosen.name] for of in (trials.predictions, trials.sds))
    if rows.classes is not None:
        return Checks(reliability=_reliability(rows, predictions))
    usable = np.isfinite(predictions) & np.isfinite(sds) & (rows.row_weights > 0)
    if getattr(trials.chosen.estimator, "family", None) == "quantile":
        at_most = rows.y[usable] <= predictions[usable]
        share = percent(np.average(at_most, weights=rows.row_weights[usable]))
        return Checks(notes=(f"{share} of the held-out targets are at most their prediction",))
    rng, room = np.random.default_rng(seed), _MOST_ERRORS // len(splits.parts)
    tests = [np.sort(rng.permutation(test[usable[test]])[:room]) for _, test in splits.parts]
    parts = [(rows.take(test), predictions[test], sds[test]) for test in tests if len(test)]
    return check_intervals(parts, labels, seed)


def check_intervals(
    parts: list[tuple[Rows, Array, Array]], labels: Sequence[Any], seed: int
) -> Checks:
    """Check intervals; `parts` are rows, means and standard deviations of each split."""
    y = np.concatenate([rows.y for rows, *_ in parts])
    means = np.concatenate([means for _, means, _ in parts])
    codes = np.concatenate([rows.codes for rows, *_ in parts])
    some = np.sort(np.random.default_rng(seed).permutation(len(y))[:_MOST_SHOWN])
    numbers = [(rows.y, means, sds) for rows, means, sds in parts]
    residuals, coverage = calibrated(numbers, 0.0 if y.min() >= 0 else -np.inf)
    shown = (Prediction(actual=y[k], predicted=means[k], task=labels[codes[k]]) for k in some)
    return Checks(residuals=residuals, calibration=tuple(coverage), predicted=tuple(shown))


def _reliability(rows: Rows, shares: Array) -> Reliability:
    """Check probabilities of two classes for the second, of more for the predicted one.

    They are NaN for rows that were not held out.
    """
    classes, usable = np.asarray(rows.classes), np.isfinite(shares).all(axis=1)
    shares, true = shares[usable], np.searchsorted(classes, rows.y[usable])
    if len(classes) == 2:
        return reliability(shares[:, 1], true == 1, classes[1])
    return reliability(shares.max(axis=1), true == shares.argmax(axis=1))
