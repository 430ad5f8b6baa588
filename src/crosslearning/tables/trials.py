"""Candidates tried on rows that they have not seen."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from crosslearning.convex.prediction import linear_scores
from crosslearning.convex.statistics import Statistics
from crosslearning.evaluation.choice import nested
from crosslearning.evaluation.scores import Scores
from crosslearning.evaluation.scoring import Predicted
from crosslearning.linear import CrossBayesianRidge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from crosslearning.tables.candidates import Candidate
    from crosslearning.tables.metrics import Metric
    from crosslearning.tables.rows import Rows
    from crosslearning.tables.splits import Splits

__all__ = ["Trials", "fitted", "over_tasks", "predicted", "run"]

_ROUNDING = 1e-9  # relative to the best score: differences below decide nothing
_MOST_SUMS = 5e7  # numbers in the sums of tasks and folds, beyond which rows are summed again


@dataclass(frozen=True, eq=False)
class Trials:
    """What candidates did on rows that they have not seen.

    Attributes
    ----------
    candidates : sequence of Candidate
        Simplest first.
    scores, plain : Scores
        By the metric of the choice, and squared errors or shares that are correct.
    models : dict of list
        Fitted models by name of the candidate, one for each split; None where it failed.
    seconds : dict
        Time spent on each.
    """

    candidates: Sequence[Candidate]
    scores: Scores
    plain: Scores
    models: dict[str, list[Any]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Names of the candidates."""
        return [candidate.name for candidate in self.candidates]

    @property
    def means(self) -> NDArray[np.float64]:
        """Mean score over the tasks; minus infinity for what could not be fitted."""
        return over_tasks(self.scores)

    @property
    def chosen(self) -> Candidate:
        """The candidate with the best score; the simplest of equal ones."""
        return self.best_of("pooled", "baseline", "cross", "separate")

    @property
    def nested_score(self) -> float:
        """Score of the choice itself, made for every split on the others."""
        everyone = {"chosen": range(len(self.candidates))}
        return float(over_tasks(nested(self.scores, everyone))[0])

    def best_of(self, *sharing: str) -> Candidate:
        """Return the best candidate of some kinds."""
        means = self.means
        own = [k for k, c in enumerate(self.candidates) if c.sharing in sharing]
        top = max(means[k] for k in own)
        if top == -np.inf:
            raise ValueError(
                "No model could be scored: every part that was left out lacks something to learn "
                "from, such as a class. Leave out other parts, or fewer of them."
            )
        return next(self.candidates[k] for k in own if means[k] >= top - _ROUNDING * abs(top))


def over_tasks(scores: Scores) -> NDArray[np.float64]:
    """Mean over the tasks that all settings have a score of; minus infinity if one has none."""
    values = scores.by_task
    usable = np.isfinite(values).any(axis=1)
    common = np.isfinite(values[usable]).all(axis=0)
    means = values[:, common].mean(axis=1) if common.any() else np.full(len(values), -np.inf)
    return np.where(usable, means, -np.inf)


def run(
    candidates: Sequence[Candidate],
    rows: Rows,
    splits: Splits,
    metric: Metric,
    plain: Metric,
    say: Callable[[str], object],
) -> Trials:
    """Fit every candidate on the training part of every split, and score it on the other.

    Settings of a model are found by the evidence of its training part alone.
    """
    shape = (len(candidates), len(splits.parts), rows.n_tasks)
    values, correct = np.full(shape, np.nan), np.full(shape, np.nan)
    weights = np.zeros(shape[1:])
    models: dict[str, list[Any]] = {}
    seconds: dict[str, float] = {}
    sums = _sums(rows, splits, candidates)
    for m, candidate in enumerate(candidates):
        say(f"Trying {candidate.label} ({m + 1} of {len(candidates)})")
        started = time.perf_counter()
        estimator, kept = candidate.estimator, list[Any]()
        for s, (train, test) in enumerate(splits.parts):
            try:
                if sums is not None and _by_sums(candidate):
                    model = clone(estimator).fit_statistics(_without(sums, s))
                else:
                    model = fitted(estimator, rows.take(train))
                    estimator = _settled(estimator, model)
            except ValueError:  # such as a training part with a single class
                kept.append(None)
                continue
            kept.append(model)
            part = rows.take(test)
            said = predicted(model, part)
            given = part.y, said, part.given_weights, part.codes, rows.n_tasks
            values[m, s], weights[s] = metric.of_tasks(*given)
            correct[m, s] = plain.of_tasks(*given)[0]
        models[candidate.name], seconds[candidate.name] = kept, time.perf_counter() - started
    names = [candidate.name for candidate in candidates]
    return Trials(
        candidates, Scores(names, values, weights), Scores(names, correct, weights), models, seconds
    )


def fitted(estimator: Any, rows: Rows, tasks: NDArray[Any] | None = None) -> Any:
    """Fit a clone on rows; tasks are called by their numbers unless labels are given."""
    labels = rows.codes if tasks is None else tasks
    given = {} if rows.weights is None else {"sample_weight": rows.weights}
    return clone(estimator).fit(rows.X, rows.y, tasks=labels, **given)


def predicted(model: Any, rows: Rows, tasks: NDArray[Any] | None = None) -> Predicted:
    """Ask a model about rows, whose tasks are called as in :func:`fitted`."""
    labels = rows.codes if tasks is None else tasks
    if rows.classes is None:
        if _by_sums_alone(model) and tasks is None:
            return Predicted(linear_scores(vars(model), rows.X, rows.codes)[:, 0])
        return Predicted(np.asarray(model.predict(rows.X, tasks=labels)))
    shares = np.zeros((len(rows.y), len(rows.classes)))
    own = np.searchsorted(rows.classes, model.classes_)
    shares[:, own] = model.predict_proba(rows.X, tasks=labels)
    return Predicted(rows.classes[shares.argmax(axis=1)], rows.classes, shares, None)


def _settled(estimator: Any, model: Any) -> Any:
    """Let other splits have the structure of the first: to find it takes most of the time."""
    if getattr(estimator, "covariance", None) != "auto" or isinstance(model, CrossBayesianRidge):
        return estimator
    return clone(estimator).set_params(covariance=model.structure_)


def _by_sums(candidate: Candidate) -> bool:
    return isinstance(candidate.estimator, CrossBayesianRidge)


def _by_sums_alone(model: Any) -> bool:
    """Whether a model was fitted from sums, where tasks are called by their numbers."""
    return isinstance(model, CrossBayesianRidge) and not model.calibration_


def _without(sums: Statistics, fold: int) -> Statistics:
    """Add all other folds: a difference would leave rounding errors in columns of zeros."""
    others = [sums.fold(k) for k in range(sums.n_folds) if k != fold]
    return reduce(add, others)


def _sums(rows: Rows, splits: Splits, candidates: Sequence[Candidate]) -> Statistics | None:
    """Sum rows by task and fold, where that is all that candidates need and not too much."""
    n_folds, width = len(splits.parts), rows.X.shape[1] + 1
    large = rows.n_tasks * n_folds * width**2 > _MOST_SUMS
    if splits.folds is None or large or not any(map(_by_sums, candidates)):
        return None
    return Statistics.of(
        rows.X,
        rows.y,
        rows.codes,
        labels=np.arange(rows.n_tasks),
        sample_weight=rows.weights,
        folds=splits.folds,
        n_folds=n_folds,
    )
