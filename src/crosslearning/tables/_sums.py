"""Candidates tried on sums of rows, task by task and fold by fold, in place of the rows."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.convex.statistics import Statistics
from crosslearning.evaluation.scores import Scores
from crosslearning.tables._facts import Facts
from crosslearning.tables.candidates import Candidate
from crosslearning.tables.forecast import forecast
from crosslearning.tables.rows import Rows, without
from crosslearning.tables.trials import Trials

Array = NDArray[np.float64]
COMPARED = 50_000  # tasks that are enough to compare models by
_LEARNED = 2**10  # tasks that are enough for variances to compare models by
_MIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of SplitMix64


def uniform(a: Any, b: Any, seed: int) -> Array:
    """Numbers from 0 to 1 that depend on two whole numbers and a seed alone (SplitMix64)."""
    x, y, z = map(np.uint64, _MIX)
    mixed = np.asarray(a, dtype=np.uint64) * x + np.asarray(b, dtype=np.uint64) * y
    mixed = mixed + np.array([seed], dtype=np.uint64) * z
    mixed = (mixed ^ (mixed >> np.uint64(30))) * y
    mixed = (mixed ^ (mixed >> np.uint64(27))) * z
    return np.asarray((mixed ^ (mixed >> np.uint64(31))) / 2.0**64)


def deal(
    codes: NDArray[np.intp], seen: NDArray[np.int64], n_folds: int, seed: int
) -> tuple[NDArray[np.intp], Array]:
    """Deal rows to folds so that those of a task differ in size by one at most; and a key each.

    `seen` counts the rows of each task so far, and is brought up to date: in whatever pieces a
    table comes, its rows are dealt alike. Of each `n_folds` rows of a task in turn, one is in each
    fold, beginning anywhere. Keys are uniform numbers to draw rows by.
    """
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes, minlength=len(seen))
    number = np.empty(len(codes), dtype=np.int64)
    number[order] = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    number += seen[codes]
    seen += sizes
    group, place = np.divmod(number, n_folds)
    start = np.asarray(n_folds * uniform(codes, group, 2 * seed), dtype=np.intp)
    return (place + start) % n_folds, uniform(codes, number, 2 * seed + 1)


def try_sums(
    candidates: Sequence[Candidate],
    sums: Statistics,
    total: Statistics,
    sample: Rows,
    folds: NDArray[np.intp],
    names: list[str],
    say: Callable[[str], object],
) -> tuple[Trials, dict[str, list[tuple[Rows, Array, Array]]], Facts]:
    """Fit candidates on all folds but one, and score them on that one, by squared errors.

    Of very many tasks some decide, and no model is kept, since they are large. `sample` holds
    rows, of the given folds, to look at predictions of, which are returned by candidate and split.
    """
    counts = sums.cells.counts.sum(axis=1)
    squares = np.einsum("nfjj->j", total.cells.scatters)[:-1]
    constant = [name for name, square in zip(names, squares, strict=True) if square == 0]
    among = np.arange(0, sums.n_tasks, -(-sums.n_tasks // COMPARED))
    everyone, sums = sums, sums.take(among)
    sample, folds = _of_tasks(sample, folds, among)
    n_folds, n_tasks = sums.n_folds, sums.n_tasks
    values = np.full((len(candidates), n_folds, n_tasks), np.nan)
    guesses = np.empty((1, n_folds, n_tasks))
    said: dict[str, list[Any]] = {candidate.name: [] for candidate in candidates}
    seconds = dict.fromkeys(said, 0.0)
    for s in range(n_folds):
        train, test = without(sums, s), sums.cells[:, s]
        nothing = np.zeros((n_tasks, sums.n_features))
        guesses[0, s] = _scores(nothing, np.full(n_tasks, train.pooled_means()[-1]), test)
        part = sample.take(np.flatnonzero(folds == s))
        for m, candidate in enumerate(candidates):
            say(f"Trying {candidate.label}, part {s + 1} of {n_folds}")
            started = time.perf_counter()
            model = clone(candidate.estimator).fit_statistics(train, learn_from=_LEARNED)
            values[m, s] = _scores(model.coef_, model.intercept_, test)
            state = {"fitted": vars(model), "parameters": model.get_params()}
            if len(part.y):
                said[candidate.name].append((part, *forecast(state, part.X, part.codes)))
            seconds[candidate.name] += time.perf_counter() - started
    weights = sums.cells.weights.T
    scores = Scores(list(said), values, weights)
    baseline = -float(np.nanmean(Scores(["guess"], guesses, weights).by_task[0]))
    facts = Facts(counts, baseline, constant, _fingerprint(everyone), among)
    return Trials(candidates, scores, scores, {}, seconds), said, facts


def _of_tasks(
    rows: Rows, folds: NDArray[np.intp], among: NDArray[np.intp]
) -> tuple[Rows, NDArray[np.intp]]:
    """Rows of some tasks, under the numbers that these have among themselves."""
    position = np.full(rows.n_tasks, -1)
    position[among] = np.arange(len(among))
    own = np.flatnonzero(position[rows.codes] >= 0)
    part = rows.take(own)
    return replace(part, codes=position[part.codes], n_tasks=len(among)), folds[own]


def _scores(coef: Array, intercept: Array, cells: Any) -> Array:
    """Minus the mean squared error of each task; NaN where it has no rows."""
    v = np.column_stack([-coef, np.ones(len(coef))])
    squares = np.einsum("nj,nj->n", (cells.scatters @ v[:, :, None])[:, :, 0], v)
    gap = np.einsum("nj,nj->n", v, cells.means) - intercept
    total = np.maximum(squares, 0.0) + cells.weights * gap**2
    scores = np.full(len(v), np.nan)
    np.divide(-total, cells.weights, out=scores, where=cells.weights > 0)
    return scores


def _fingerprint(sums: Statistics) -> str:
    """SHA-256 of what the sums of each task and fold are."""
    digest = hashlib.sha256(sums.cells.counts.tobytes())
    digest.update(np.ascontiguousarray(sums.cells.means).tobytes())
    return digest.hexdigest()
