"""The models that were compared, what their predictions of held-out rows say, and the final fit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.convex.predict import Coverage, Residuals, calibrated
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.evaluation.numbers import percent
from crosslearning.evaluation.scores import Reliability, Scores, reliability
from crosslearning.linear import CrossBayesianGLM, CrossBayesianRidge
from crosslearning.linear._estimator import state_of
from crosslearning.tables.differences import coefficient_table
from crosslearning.tables.findings import Prediction
from crosslearning.tables.forecast import Rotation, blend
from crosslearning.tables.learners.candidates import Candidate, Trials
from crosslearning.tables.learners.search import Bases
from crosslearning.tables.metrics import Metric, Predictions
from crosslearning.tables.model import TableModel
from crosslearning.tables.rows import Rows, Splits, bounded, bounds_of, fitted
from crosslearning.tables.schema import Schema

Array = NDArray[np.float64]
_LEARNED = 2**14  # tasks that are enough for variances
_MOST_SHOWN = 2_000  # predictions


@dataclass(frozen=True, eq=False, kw_only=True)
class Compared:
    """Models compared on held-out rows, checks of the chosen one, and how to fit any to all rows.

    `fit` remembers what it fitted. `bases` are there if all rows are in memory, and `rotation` if
    features are so many that models are those of their principal axes.
    """

    schema: Schema
    trials: Trials
    rows: RowSummary
    checks: Checks
    notes: list[str]
    fit: Callable[[Candidate], Any]
    bases: Bases | None = None
    rotation: Rotation | None = None

    @property
    def described(self) -> Any:
        """The estimator, linear in the columns, whose tasks are described."""
        return self.fit(self.trials.described)

    @property
    def sharing(self) -> Any:
        """The estimator that says how much tasks differ."""
        return self.fit(self.trials.spreading)

    def model(self) -> TableModel:
        """Fit the chosen model to all rows."""
        schema, names = self.schema, self.schema.encoder.feature_names
        return TableModel(
            task=schema.settings.task[-1],
            levels=schema.levels,
            target=schema.target.name,
            metric=schema.metric.name,
            encoder=schema.encoder,
            rotation=self.rotation,
            state=self._state(),
            residuals=self.checks.residuals,
            coefficients=coefficient_table(self.described, names, self.rotation),
            horizon=schema.horizon,
        )

    def _state(self) -> dict[str, Any]:
        """Return what predictions of the chosen model need, which may be a blend of several."""
        weights = self.trials.parts
        used = [c for c in self.trials.candidates if c.name in weights]
        states = [_state_of(self.fit(c)) for c in used]
        bases = {c.base for c in used if c.estimator is not None} - {"linear"}
        if not bases and len(used) == 1:
            return states[0]
        assert self.bases is not None  # which all but single linear models are fitted in
        basis = self.bases.final(bases) if bases else None
        seen = [basis.seen(c.base) if basis and c.base in bases else None for c in used]
        each = zip(used, seen, states, strict=True)
        return blend([(weights[c.name], columns, state) for c, columns, state in each], basis)


def _state_of(model: Any) -> dict[str, Any]:
    if isinstance(model, dict):  # trees
        return model
    state = state_of(model)
    state["fitted"].pop("calibration_", None)  # intervals use the errors of held-out rows
    return state


def fit_to_sums(
    schema: Schema,
    total: Statistics,
    ends: NDArray[Any],
    pass_over: Callable[..., Any],
    candidate: Candidate,
) -> Any:
    """Fit a linear model to sums of all rows, or by passes over them."""
    model = clone(candidate.estimator)
    if isinstance(model, CrossBayesianRidge):
        tasks = schema.levels.numbers if schema.levels and candidate.nested else None
        model.fit_statistics(total, tasks=tasks, learn_from=_LEARNED)
    else:
        about = ends.max() if isinstance(model, CrossBayesianGLM) else schema.classes
        model.fit_passes(total, partial(pass_over, schema), about, learn_from=_LEARNED)
    model.tasks_ = schema.labels
    return model if schema.classes is not None else bounded(model, ends)


def fit_to_rows(bases: Bases, trials: Trials, labels: NDArray[Any], candidate: Candidate) -> Any:
    """Fit a linear model to all rows in memory; of trees, return what predictions need."""
    if candidate.estimator is not None:
        rows = bases.of(candidate.base, None)
        return fitted(candidate.estimator, rows, labels, nested=candidate.nested)
    sds, attributes = np.zeros(2), {"tasks_": labels, "structure_": "trees"}
    if bases.rows.classes is not None:
        attributes["classes_"] = bases.rows.classes
    else:
        attributes["bounds_"] = bounds_of(bases.rows.counted)
        # Errors of trees that do not know the task are also those of new tasks.
        in_fit, new = (trials.sds[name] for name in (candidate.name, "pooled-trees"))
        sds = np.array([np.nanmean(in_fit), np.nanmean(new)])
    attributes["trees_"] = bases.boosting.final(sds, with_task=candidate.end == "cross")
    return {"class": "Trees", "parameters": {"family": bases.family}, "fitted": attributes}


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
    tests = [test[usable[test]] for _, test in splits.parts]
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
