"""Whether predictions hold on held-out rows: intervals, probabilities, examples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.convex.residuals import Residuals, calibrated
from crosslearning.evaluation.calibration import reliability
from crosslearning.evaluation.numbers import percent
from crosslearning.tables.learners.trials import Trials
from crosslearning.tables.model_findings import Coverage, Prediction, Reliability, ReliabilityBin
from crosslearning.tables.rows import Rows
from crosslearning.tables.splits import Splits

Array = NDArray[np.float64]
_MOST_SHOWN = 2_000


@dataclass(frozen=True, kw_only=True)
class Checks:
    """Coverage of intervals and examples, of numbers; reliability, of classes; notes."""

    calibration: tuple[Coverage, ...] = ()
    predicted: tuple[Prediction, ...] = ()
    reliability: Reliability | None = None
    notes: tuple[str, ...] = ()


def left_out(
    trials: Trials, rows: Rows, splits: Splits, labels: Sequence[Any], seed: int
) -> tuple[Residuals | None, Checks]:
    """Errors of held-out rows, which intervals follow from; and whether predictions hold there."""
    predictions = trials.predictions[trials.chosen.name]
    if rows.classes is not None:
        return None, Checks(reliability=_reliability(rows, predictions))
    if getattr(trials.chosen.estimator, "family", None) == "quantile":
        usable = np.isfinite(predictions)
        at_most = rows.y[usable] <= predictions[usable]
        share = percent(np.average(at_most, weights=rows.given_weights[usable]))
        return None, Checks(
            notes=(f"{share} of the held-out targets are at most their prediction",)
        )
    sds = trials.sds[trials.chosen.name]
    usable = np.isfinite(predictions) & np.isfinite(sds) & (rows.given_weights > 0)
    tests = [test[usable[test]] for _, test in splits.parts]
    parts = [(rows.take(test), predictions[test], sds[test]) for test in tests if len(test)]
    return summary(parts, labels, np.random.default_rng(seed))


def summary(
    parts: list[tuple[Rows, Array, Array]], labels: Sequence[Any], rng: np.random.Generator
) -> tuple[Residuals, Checks]:
    """Errors, coverage of intervals and examples, of rows, means and deviations of each split."""
    y = np.concatenate([rows.y for rows, *_ in parts])
    means = np.concatenate([means for _, means, _ in parts])
    codes = np.concatenate([rows.codes for rows, *_ in parts])
    examples = [
        Prediction(actual=y[k], predicted=means[k], task=labels[codes[k]])
        for k in np.sort(rng.permutation(len(y))[:_MOST_SHOWN])
    ]
    numbers = [(rows.y, means, sds) for rows, means, sds in parts]
    residuals, coverage = calibrated(numbers, 0.0 if y.min() >= 0 else -np.inf)
    calibration = tuple(Coverage(**point) for point in coverage)
    return residuals, Checks(calibration=calibration, predicted=tuple(examples))


def _reliability(rows: Rows, shares: Array) -> Reliability:
    """Check probabilities of two classes for the second, of more for the predicted one.

    They are NaN for rows that were not held out.
    """
    classes, usable = np.asarray(rows.classes), np.isfinite(shares).all(axis=1)
    shares, true = shares[usable], np.searchsorted(classes, rows.y[usable])
    two = len(classes) == 2
    guess = np.ones_like(true) if two else shares.argmax(axis=1)
    checked = reliability(shares[np.arange(len(true)), guess], true == guess)
    return Reliability(
        class_=classes[1] if two else None,
        bins=tuple(ReliabilityBin(**row) for row in checked["bins"]),
        off=checked["off"],
    )
