"""What results need to know about the rows of a table."""

import hashlib
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.evaluation.scores import Scores
from crosslearning.tables.metrics import Metric, Said
from crosslearning.tables.rows import Rows
from crosslearning.tables.splits import Splits


class Facts(NamedTuple):
    """Rows per task, score of a guess, features constant within tasks, tasks that were scored."""

    counts: NDArray[np.int64]
    baseline: float
    constant: list[str]
    fingerprint: str
    compared: NDArray[np.intp]


def facts_of(
    frame: pd.DataFrame, rows: Rows, splits: Splits, metric: Metric, names: list[str]
) -> Facts:
    """Look at rows in memory; `names` are those of the features, if they are columns."""
    counts = np.bincount(rows.codes, minlength=rows.n_tasks)
    score, everyone = baseline_of(rows, splits, metric), np.arange(rows.n_tasks)
    return Facts(counts, score, _constant(rows, names), _fingerprint(frame), everyone)


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


def guessed(rows: Rows, n_rows: int, metric: Metric) -> Said:
    """Predict the mean, quantile or class frequencies of some rows for others."""
    if metric.quantile is not None:
        guess = np.asarray(np.quantile(rows.y, metric.quantile))
    elif rows.classes is None:
        guess = np.asarray(rows.y.mean())
    else:
        counts = np.maximum((rows.y[:, np.newaxis] == rows.classes).sum(axis=0), 0.5)
        guess = counts / counts.sum()
    return Said.of(np.repeat(guess[np.newaxis], n_rows, axis=0), rows.classes)


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


def _fingerprint(frame: pd.DataFrame) -> str:
    """SHA-256 of the values and the names of the columns."""
    digest = hashlib.sha256("\n".join(frame.columns).encode())
    for name in frame.columns:
        digest.update(pd.util.hash_pandas_object(frame[name], index=False).to_numpy().tobytes())
    return digest.hexdigest()
