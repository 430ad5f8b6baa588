"""Linear models of normal targets compared by sums of all rows by task and fold."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.convex.sums.cells import Cells
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.evaluation.scores import Scores
from crosslearning.tables.engines import Collected
from crosslearning.tables.forecast import forecast
from crosslearning.tables.learners.candidates import Candidate
from crosslearning.tables.learners.selection import choices
from crosslearning.tables.learners.trials import Choice, Trials, best_choice
from crosslearning.tables.rows import Rows, bounded
from crosslearning.tables.schema import COMPARED

Array = NDArray[np.float64]
Predictions = list[tuple[Rows, Array, Array]]
_FEWEST = 2_000  # tasks to compare models by,
_NUMBERS = 10**7  # in the sums of which there are at most so many, unless they are the fewest
_LEARNED = 2**10  # tasks that are enough for variances to compare models by


def compare_by_sums(
    candidates: Sequence[Candidate],
    collected: Collected,
    parts: list[tuple[list[int], int]],
    say: Callable[[str], object],
) -> tuple[Trials, dict[str, Predictions], float, NDArray[np.intp]]:
    """Fit candidates on all folds of a part but one, and score them on that by squared errors.

    If tasks are very many, some decide. No model is kept, since models of many tasks are large.

    Returns
    -------
    tuple
        Trials; rows that were kept, with means and standard deviations, by candidate; the mean
        squared error of predicting the mean; and the tasks that decide.
    """
    sums, kept = collected.sums, collected.kept
    most = np.clip(_NUMBERS // sums.cells.scatters[:1].size, _FEWEST, COMPARED)
    tasks = np.arange(0, sums.n_tasks, -(-sums.n_tasks // most))
    some, levels = sums.take(tasks), kept.levels.numbers.iloc[tasks] if kept.levels else None
    sample, folds = _of_tasks(kept, tasks, sums.n_tasks)
    values = np.full((len(candidates), len(parts), len(tasks)), np.nan)
    guesses, weights = np.empty((1, *values.shape[1:])), np.empty(values.shape[1:])
    predictions: dict[str, Predictions] = {candidate.name: [] for candidate in candidates}
    seconds = dict.fromkeys(predictions, 0.0)
    for s, (learned, tested) in enumerate(parts):
        # A difference would leave rounding errors in columns of zeros.
        train, test = reduce(add, [some.fold(k) for k in learned]), some.cells[:, tested]
        nothing, weights[s] = np.zeros((len(tasks), sums.n_features)), test.weights
        guesses[0, s] = _scores(nothing, np.full(len(tasks), train.pooled_means()[-1]), test)
        part = sample.take(np.flatnonzero(folds == tested))
        for m, candidate in enumerate(candidates):
            say(f"Trying {candidate.label}, part {s + 1} of {len(parts)}")
            started = time.perf_counter()
            groups = levels if candidate.nested else None
            values[m, s], predicted = _tried(candidate, train, groups, test, part, collected.ends)
            predictions[candidate.name] += predicted
            seconds[candidate.name] += time.perf_counter() - started
    scores = Scores(list(predictions), values, weights)

    def choice(some: Sequence[Candidate]) -> Choice:
        return best_choice(some, scores.of([c.name for c in some]))

    baseline = -float(np.nanmean(Scores(["guess"], guesses, weights).by_task[0]))
    trials = Trials(candidates, scores, scores, choices(candidates, choice), seconds=seconds)
    return trials, predictions, baseline, tasks


def _tried(
    candidate: Candidate, train: Statistics, groups: Any, test: Cells, part: Rows, ends: Array
) -> tuple[Array, Predictions]:
    """Scores of the tasks, and predictions of rows if there are any."""
    model = clone(candidate.estimator).fit_statistics(train, tasks=groups, learn_from=_LEARNED)
    bounded(model, ends)
    state = {"fitted": vars(model), "parameters": model.get_params()}
    predicted = [(part, *forecast(state, part.X, part.codes))] if len(part.y) else []
    return _scores(model.coef_, model.intercept_, test), predicted


def _of_tasks(kept: Rows, tasks: NDArray[np.intp], n_tasks: int) -> tuple[Rows, NDArray[np.intp]]:
    """Rows of some tasks, under the numbers that these have among themselves; and their folds."""
    position = np.full(n_tasks, -1)
    position[tasks] = np.arange(len(tasks))
    codes = position[kept.codes]
    at = np.flatnonzero(codes >= 0)
    folds = np.asarray(kept.folds)[at]
    return Rows(kept.X[at], kept.y[at], codes[at], len(tasks)), folds


def _scores(coef: Array, intercept: Array, cells: Cells) -> Array:
    """Minus the mean squared error of each task; NaN where it has no rows."""
    v = np.column_stack([-coef, np.ones(len(coef))])
    squares = np.einsum("nj,nj->n", (cells.scatters @ v[:, :, None])[:, :, 0], v)
    gap = np.einsum("nj,nj->n", v, cells.means) - intercept
    total = np.maximum(squares, 0.0) + cells.weights * gap**2
    scores = np.full(len(v), np.nan)
    np.divide(-total, cells.weights, out=scores, where=cells.weights > 0)
    return scores
