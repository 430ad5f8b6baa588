"""What rows say: a summary of them, and whether predictions of held-out ones hold."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.convex.predict import Coverage, HeldOut, Residuals, calibrated
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.evaluation.numbers import percent
from crosslearning.evaluation.scores import Reliability, reliability
from crosslearning.tables.findings import Prediction, Size
from crosslearning.tables.learners.candidates import Trials
from crosslearning.tables.rows import Rows
from crosslearning.tasks.folds import Splits

Array = NDArray[np.float64]
_MOST_SHOWN = 2_000  # predictions
_MOST_ERRORS = 2**16  # of held-out rows, which are stored with the model


@dataclass(frozen=True, eq=False, kw_only=True)
class RowSummary:
    """Rows per task, features constant within tasks, a fingerprint, and tasks compared."""

    counts: NDArray[np.int64]
    constant: list[str]
    fingerprint: str
    compared: NDArray[np.intp]

    @classmethod
    def of_rows(cls, rows: Rows, names: list[str]) -> Self:
        """Look at rows in memory; `names` are those of the features, if they are columns."""
        first = np.unique(rows.codes, return_index=True)[1]  # row of each task
        varies = np.any(rows.X[:, : len(names)] != rows.X[first[rows.codes], : len(names)], axis=0)
        return cls(
            counts=np.bincount(rows.codes, minlength=rows.n_tasks),
            constant=list(compress(names, ~varies)),
            fingerprint=_fingerprint(rows.X, rows.codes, pd.util.hash_array(rows.y)),
            compared=np.arange(rows.n_tasks),
        )

    @classmethod
    def of_sums(cls, total: Statistics, names: list[str], tasks: NDArray[np.intp]) -> Self:
        """Look at sums of all rows, of which the rows of some tasks were scored."""
        squares = np.einsum("nfjj->j", total.cells.scatters)[:-1]
        return cls(
            counts=total.counts,
            constant=list(compress(names, squares == 0)),
            fingerprint=_fingerprint(total.cells.counts, total.cells.means),
            compared=tasks,
        )

    @property
    def size(self) -> Size:
        """Numbers of tasks and rows."""
        return Size(
            tasks=len(self.counts),
            compared=len(self.compared),
            rows=self.counts.sum(),
            smallest=self.counts.min(),
            largest=self.counts.max(),
        )


def _fingerprint(*arrays: NDArray[Any]) -> str:
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


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
    held_out = [HeldOut(rows.y, means, sds, rows.weights) for rows, means, sds in parts]
    y, means, *_ = HeldOut.joined(held_out)
    codes = np.concatenate([rows.codes for rows, *_ in parts])
    some = np.sort(np.random.default_rng(seed).permutation(len(y))[:_MOST_SHOWN])
    residuals, coverage = calibrated(held_out, 0.0 if y.min() >= 0 else -np.inf)
    shown = (Prediction(actual=y[k], predicted=means[k], task=labels[codes[k]]) for k in some)
    return Checks(residuals=residuals, calibration=tuple(coverage), predicted=tuple(shown))


def _reliability(rows: Rows, shares: Array) -> Reliability:
    """Check probabilities (NaN if not held out), of two classes the second's, else the largest."""
    usable = np.isfinite(shares).all(axis=1) & (rows.row_weights > 0)
    shares, rows, classes = shares[usable], rows.take(usable), np.asarray(rows.classes)
    true = np.searchsorted(classes, rows.y)
    if len(classes) == 2:
        return reliability(shares[:, 1], true == 1, classes[1], rows.weights)
    return reliability(shares.max(axis=1), true == shares.argmax(axis=1), None, rows.weights)
