"""Candidates tried on a large table: on sums of its rows by task and fold, or on a sample."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.convex._cells import Cells
from crosslearning.convex.statistics import Statistics
from crosslearning.evaluation.scores import Scores
from crosslearning.tables.engines.plan import Plan, Shown
from crosslearning.tables.facts import Facts
from crosslearning.tables.forecast import forecast
from crosslearning.tables.learners.candidates import Candidate
from crosslearning.tables.learners.running import Running
from crosslearning.tables.learners.selection import choices
from crosslearning.tables.learners.spaces import Spaces
from crosslearning.tables.learners.trials import Choice, Trials, best_choice
from crosslearning.tables.metrics import Metric
from crosslearning.tables.rows import Rows, bounded
from crosslearning.tables.splits import Splits

Array = NDArray[np.float64]
COMPARED, _FEWEST = 50_000, 2_000  # tasks that are enough to compare models by,
_NUMBERS = 10**7  # in the sums of which there are at most so many, unless they are the fewest
_LEARNED = 2**10  # tasks that are enough for variances to compare models by


def try_sums(
    candidates: Sequence[Candidate],
    sums: Statistics,
    total: Statistics,
    shown: Shown,
    parts: list[tuple[list[int], int]],
    names: list[str],
    say: Callable[[str], object],
) -> tuple[Trials, dict[str, list[tuple[Rows, Array, Array]]], Facts]:
    """Fit candidates on all folds of a part but one, and score them on that by squared errors.

    If tasks are very many, some decide; no model is kept, since they are large. `shown` are rows
    whose predictions are returned, by candidate and part.
    """
    most = np.clip(_NUMBERS // sums.cells.scatters[:1].size, _FEWEST, COMPARED)
    among = np.arange(0, sums.n_tasks, -(-sums.n_tasks // most))
    some = sums.take(among)
    sample, folds = _of_tasks(shown, among, sums.n_tasks)
    values = np.full((len(candidates), len(parts), len(among)), np.nan)
    guesses, weights = np.empty((1, *values.shape[1:])), np.empty(values.shape[1:])
    said: dict[str, list[Any]] = {candidate.name: [] for candidate in candidates}
    seconds = dict.fromkeys(said, 0.0)
    for s, (learned, tested) in enumerate(parts):
        # A difference would leave rounding errors in columns of zeros.
        train, test = reduce(add, [some.fold(k) for k in learned]), some.cells[:, tested]
        nothing, weights[s] = np.zeros((len(among), sums.n_features)), test.weights
        guesses[0, s] = _scores(nothing, np.full(len(among), train.pooled_means()[-1]), test)
        part = sample.take(np.flatnonzero(folds == tested))
        for m, candidate in enumerate(candidates):
            say(f"Trying {candidate.label}, part {s + 1} of {len(parts)}")
            started = time.perf_counter()
            values[m, s], told = _tried(candidate, train, test, part, shown.ends)
            said[candidate.name] += told
            seconds[candidate.name] += time.perf_counter() - started
    scores = Scores(list(said), values, weights)

    def choice(some: Sequence[Candidate]) -> Choice:
        return best_choice(some, scores.of([c.name for c in some]))

    baseline = -float(np.nanmean(Scores(["guess"], guesses, weights).by_task[0]))
    return (
        Trials(candidates, scores, scores, choices(candidates, choice), seconds=seconds),
        said,
        facts_of(total, names, baseline, among),
    )


def _tried(
    candidate: Candidate, train: Statistics, test: Cells, part: Rows, ends: Array
) -> tuple[Array, Any]:
    """Scores of the tasks, and predictions of rows if there are any."""
    model = clone(candidate.estimator).fit_statistics(train, learn_from=_LEARNED)
    bounded(model, ends)
    state = {"fitted": vars(model), "parameters": model.get_params()}
    told = [(part, *forecast(state, part.X, part.codes))] if len(part.y) else []
    return _scores(model.coef_, model.intercept_, test), told


def try_rows(
    candidates: Sequence[Candidate],
    shown: Shown,
    plan: Plan,
    metric: Metric,
    say: Callable[[str], object],
) -> tuple[Trials, Rows, Splits, NDArray[np.intp]]:
    """Fit and score candidates on rows of some tasks that are kept in memory; and say which."""
    among, codes = np.unique(shown.codes, return_inverse=True)
    y = shown.y if plan.classes is None else plan.classes[shown.y.astype(np.intp)]
    weights = None if plan.weights is None else shown.weights
    rows = Rows(shown.X, y, codes, len(among), weights, plan.classes)
    sides = (
        (np.flatnonzero(np.isin(shown.folds, train)), np.flatnonzero(shown.folds == test))
        for train, test in plan.parts
    )
    parts = [(train, test) for train, test in sides if len(train) and len(test)]
    if not parts:  # such as one group only
        raise ValueError(f"Testing {plan.words} leaves nothing to train on. Hold out other rows.")
    folds = np.unique(shown.folds, return_inverse=True)[1]  # some have no rows
    splits = Splits(parts, plan.words, folds if plan.time is None else None)
    spaces = Spaces(rows, splits, "linear", "gaussian", plan.seed)
    running = Running(
        spaces, splits, metric, seed=plan.seed, blend=False, say=lambda text, _: say(text)
    )
    running.first(candidates[0])
    running.more(candidates[1:], share=(0.2, 1.0))
    return running.finish(), rows, splits, among


def facts_of(
    total: Statistics, names: list[str], baseline: float, among: NDArray[np.intp]
) -> Facts:
    """Tell from sums what results have to know of the rows."""
    squares = np.einsum("nfjj->j", total.cells.scatters)[:-1]
    constant = [name for name, square in zip(names, squares, strict=True) if square == 0]
    digest = hashlib.sha256(total.cells.counts.tobytes())
    digest.update(np.ascontiguousarray(total.cells.means).tobytes())
    return Facts(total.counts, baseline, constant, digest.hexdigest(), among)


def _of_tasks(shown: Shown, among: NDArray[np.intp], n_tasks: int) -> tuple[Rows, NDArray[np.intp]]:
    """Rows of some tasks, under the numbers that these have among themselves; and their folds."""
    position = np.full(n_tasks, -1)
    position[among] = np.arange(len(among))
    codes = position[shown.codes]
    own = np.flatnonzero(codes >= 0)
    return Rows(shown.X[own], shown.y[own], codes[own], len(among)), shown.folds[own]


def _scores(coef: Array, intercept: Array, cells: Cells) -> Array:
    """Minus the mean squared error of each task; NaN where it has no rows."""
    v = np.column_stack([-coef, np.ones(len(coef))])
    squares = np.einsum("nj,nj->n", (cells.scatters @ v[:, :, None])[:, :, 0], v)
    gap = np.einsum("nj,nj->n", v, cells.means) - intercept
    total = np.maximum(squares, 0.0) + cells.weights * gap**2
    scores = np.full(len(v), np.nan)
    np.divide(-total, cells.weights, out=scores, where=cells.weights > 0)
    return scores
