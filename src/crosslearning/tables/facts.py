"""What results need to know about the rows of a table."""

import hashlib
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.convex.sums.statistics import Statistics
from crosslearning.evaluation.scores import Scores
from crosslearning.tables.metrics import Metric, Predictions
from crosslearning.tables.rows import Rows
from crosslearning.tables.splits import Splits


class Facts(NamedTuple):
    """Rows per task, score of a guess, features constant within tasks, tasks that were scored."""

    counts: NDArray[np.int64]
    baseline: float
    constant: list[str]
    fingerprint: str
    compared: NDArray[np.intp]

    @property
    def notes(self) -> list[str]:
        """Say if some tasks decided for all."""
        some, of = len(self.compared), len(self.counts)
        return [f"models were compared on {some:,} of {of:,} tasks"] if some < of else []


def facts_of_rows(rows: Rows, splits: Splits, metric: Metric, names: list[str]) -> Facts:
    """Look at rows in memory; `names` are those of the features, if they are columns."""
    digest = hashlib.sha256(np.ascontiguousarray(rows.X).tobytes())
    digest.update(rows.codes.tobytes())
    digest.update(pd.util.hash_array(rows.y).tobytes())
    return Facts(
        counts=np.bincount(rows.codes, minlength=rows.n_tasks),
        baseline=baseline_of(rows, splits, metric),
        constant=_constant(rows, names),
        fingerprint=digest.hexdigest(),
        compared=np.arange(rows.n_tasks),
    )


def facts_of_sums(
    total: Statistics, names: list[str], baseline: float, tasks: NDArray[np.intp]
) -> Facts:
    """Look at sums of all rows, of which the rows of some tasks were scored."""
    squares = np.einsum("nfjj->j", total.cells.scatters)[:-1]
    digest = hashlib.sha256(total.cells.counts.tobytes())
    digest.update(np.ascontiguousarray(total.cells.means).tobytes())
    return Facts(
        counts=total.counts,
        baseline=baseline,
        constant=[name for name, square in zip(names, squares, strict=True) if square == 0],
        fingerprint=digest.hexdigest(),
        compared=tasks,
    )


def baseline_of(rows: Rows, splits: Splits, metric: Metric) -> float:
    """Score of predicting the mean, quantile or class frequencies of the training rows."""
    by_split = []
    for train, test in splits.parts:
        part = rows.take(test)
        guess = guessed(rows.take(train), len(test), metric)
        score = metric.of_tasks(part.y, guess, part.given_weights, part.codes, rows.n_tasks)
        by_split.append(score)
    scores, weights = (np.stack(part) for part in zip(*by_split, strict=True))
    return metric.shown(float(np.nanmean(Scores(["guess"], scores[np.newaxis], weights).by_task)))


def guessed(rows: Rows, n_rows: int, metric: Metric) -> Predictions:
    """Predict the mean, quantile or class frequencies of some rows for others."""
    y, weights = rows.counted, rows.given_weights[rows.given_weights > 0]
    if metric.quantile is not None:
        how: Any = {} if rows.weights is None else {"weights": weights, "method": "inverted_cdf"}
        guess = np.asarray(np.quantile(y, metric.quantile, **how))
    elif rows.classes is None:
        guess = np.asarray(np.average(y, weights=weights))
    else:
        counts = np.maximum(weights @ (y[:, np.newaxis] == rows.classes), 0.5)
        guess = counts / counts.sum()
    return Predictions.of(np.repeat(guess[np.newaxis], n_rows, axis=0), rows.classes)


def guess_of(kind: str, quantile: float | None) -> str:
    """Name such a guess."""
    if quantile is not None:
        return f"the training {quantile:g} quantile"
    return "the training mean" if kind == "regression" else "the class frequencies"


def _constant(rows: Rows, names: list[str]) -> list[str]:
    """Features that do not vary within any task: their coefficients tell nothing of tasks."""
    X, codes = rows.X, rows.codes
    first = np.zeros(rows.n_tasks, dtype=np.intp)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return [name for j, name in enumerate(names) if np.array_equal(X[:, j], X[first[codes], j])]
