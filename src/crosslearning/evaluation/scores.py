"""The table of scores, settings × splits × tasks, the choice by it, and reliability."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from crosslearning.tether import Array, Flags, Indices

_BINS = 10  # of probabilities
_ROUNDING = 1e-9  # relative to the best score; smaller differences are ties


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores on held-out rows; greater is better.

    Parameters
    ----------
    settings : sequence
        What was scored: radii, candidates of a search, names of methods.
    values, weights : array of shape (n_settings, n_splits, n_tasks), (n_splits, n_tasks)
        Scores (NaN or infinite if undefined), and the number or total weight of their rows.
    by_rows : bool, default=False
        Whether averages weight tasks by their rows, or equally.

    >>> scores = Scores(["pooled", "separate"], [[[-1.0, -3.0]], [[-2.0, -1.0]]], [[3, 1]])
    >>> scores.means
    array([-2. , -1.5])
    """

    settings: Sequence[Any]
    values: Array
    weights: Array
    by_rows: bool = False

    def of(self, settings: Sequence[Any]) -> Self:
        """Return the scores of some of the settings."""
        at = [self.settings.index(setting) for setting in settings]
        return replace(self, settings=settings, values=np.asarray(self.values)[at])

    @property
    def n_splits(self) -> int:
        """Number of splits."""
        return len(self.weights)

    @property
    def by_split(self) -> Array:
        """Mean over the tasks of each split, NaN if undefined: (n_settings, n_splits)."""
        weights = np.asarray(self.weights)
        return mean(self.values, weights if self.by_rows else weights > 0, axis=2)

    @property
    def by_task(self) -> Array:
        """Mean over the rows of each task, NaN if undefined: (n_settings, n_tasks)."""
        return mean(self.values, self.weights, axis=1)

    @property
    def means(self) -> Array:
        """Mean over the splits with a score; minus infinity if there is none."""
        means = mean(self.by_split, 1.0, axis=1)
        return np.where(np.isnan(means), -np.inf, means)

    @property
    def over_tasks(self) -> Array:
        """Mean over the tasks that all settings have a score of; minus infinity if one has none."""
        values = self.by_task
        usable = np.isfinite(values).any(axis=1)
        common = np.isfinite(values[usable]).all(axis=0)
        means = values[:, common].mean(axis=1) if common.any() else np.full(len(values), -np.inf)
        return np.where(usable, means, -np.inf)


def mean(values: Any, weights: Any, axis: int) -> Array:
    """Weighted mean of the finite values; NaN if there are none."""
    values = np.asarray(values, dtype=np.float64)
    present = np.isfinite(values)
    share = np.where(present, weights, 0.0)
    total = share.sum(axis=axis)
    sums = np.sum(share * np.where(present, values, 0.0), axis=axis)
    return np.asarray(np.divide(sums, total, out=np.full_like(total, np.nan), where=total > 0))


def mean_by_task(rows: Array, weights: Array, tasks: Indices, n_tasks: int) -> tuple[Array, Array]:
    """Weighted mean of the scores of the rows of each task, NaN without any, and its weight."""
    total = np.bincount(tasks, weights, n_tasks).astype(np.float64)
    sums = np.bincount(tasks, weights * rows, n_tasks)
    return np.divide(sums, total, out=np.full(n_tasks, np.nan), where=total > 0), total


def areas_by_task(
    scores: Array, positive: Flags, weights: Array, tasks: Indices, n_tasks: int
) -> Array:
    """Area under the curve of each task, NaN if it has rows of one class alone.

    That is the share of pairs of a positive and a negative row whose order is right (Mann and
    Whitney, 1947). Ties count one half, and a pair the product of its weights.
    """
    order = np.lexsort((scores, tasks))
    scores, tasks, weights = scores[order], tasks[order], weights[order]
    first = np.ones(len(order), dtype=bool)  # of equal scores in a task
    first[1:] = (np.diff(tasks) > 0) | (np.diff(scores) > 0)
    of_scores, of_tasks = np.cumsum(first) - 1, tasks[first]
    above = np.where(positive[order], weights, 0.0)
    up, down = (np.bincount(of_scores, part) for part in (above, weights - above))
    ups, downs = (np.bincount(of_tasks, part, n_tasks) for part in (up, down))
    earlier = np.cumsum(downs) - downs  # in the tasks before
    below = np.cumsum(down) - 0.5 * down - earlier[of_tasks]
    right, pairs = np.bincount(of_tasks, up * below, n_tasks), ups * downs
    areas = np.full(n_tasks, np.nan)
    np.divide(right, pairs, out=areas, where=pairs > 0)
    return areas


def best(scores: Scores) -> int:
    """Position of the setting with the highest mean; the first of equal ones.

    >>> best(Scores([0.0, 1.0, 2.0], [[[-3.0]], [[-2.0]], [[-2.0]]], [[1]]))
    1
    """
    return first_best(scores.means, "`scoring` is undefined for every task. Choose another scorer.")


def first_best(means: Array, if_none: str) -> int:
    """Position of the highest mean, the first of equal ones; or this error if all are undefined."""
    top = means.max()
    if top == -np.inf:
        raise ValueError(if_none)
    return int(np.argmax(means >= top - _ROUNDING * abs(top)))


def over_all(values: Array, weights: Array) -> float:
    """Mean over the tasks of the scores of one setting, by split and task."""
    return float(Scores([""], values[np.newaxis], weights).over_tasks[0])


def standard_error(scores: Scores, position: int) -> float:
    """Return the standard error of a setting's mean over the splits; 0 for a single split."""
    values = scores.by_split[position]
    values = values[np.isfinite(values)]
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def nested(
    scores: Scores, methods: Mapping[str, Sequence[int]], chosen: int | None = None
) -> Scores:
    """Scores of methods whose settings for each split are those that are best on the other splits.

    `methods` maps names to positions of settings. `chosen` is the position of the setting that is
    kept: if it is one of an earlier method's, the last method is that method, and ties with it.
    With a single split the choice is not nested. Otherwise a small bias remains, since models
    scored on the other splits were fitted on rows of this one.
    """
    *rivals, last = methods
    same = [methods[name] for name in rivals if chosen in methods[name]]
    choices = {**methods, last: [*same, methods[last]][0]}
    values, by_split, picked = np.asarray(scores.values), scores.by_split, []
    for positions in map(np.asarray, choices.values()):
        at = positions[_best_on_others(by_split[positions])]
        picked.append(values[at, np.arange(len(at))])
    return Scores(list(methods), np.stack(picked), scores.weights, scores.by_rows)


def _best_on_others(by_split: Array) -> Indices:
    """Position of the best setting for each split, by the scores of all others."""
    missing = np.isnan(by_split)
    # A split without scores is ignored; a score that only some settings lack is their worst.
    filled = np.where(missing, np.where(missing.all(axis=0), 0.0, -np.inf), by_split)
    n_splits = filled.shape[1]
    others = [np.delete(filled, split, axis=1).sum(axis=1) for split in range(n_splits)]
    return np.asarray(np.argmax(others if n_splits > 1 else filled.T, axis=1))


@dataclass(frozen=True)
class ReliabilityBin:
    """Mean probability and observed frequency, with its 95 % interval, of `count` rows.

    The count is their total weight, rounded.
    """

    predicted: float
    observed: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Reliability:
    """Probabilities of a class, or of the predicted one, and their mean error, `off`."""

    class_: Any
    bins: tuple[ReliabilityBin, ...]
    off: float


def reliability(
    probabilities: NDArray[np.floating],
    happened: NDArray[np.bool_],
    label: Any = None,
    weights: Array | None = None,
) -> Reliability:
    """Compare probabilities of a class, in bins of equal width, with how often it was true.

    Intervals are those of Jeffreys; the mean error is the expected calibration error. A row of
    weight 2 counts like two rows; weights with a mean below 1 are relative to it.
    """
    from scipy.special import betaincinv  # which predictions of a stored model do without

    at = np.minimum((probabilities * _BINS).astype(np.intp), _BINS - 1)
    weights = np.ones(len(at)) if weights is None else weights / min(1.0, weights.mean())
    each = weights, weights * probabilities, weights * happened
    sums = np.stack([np.bincount(at, values, _BINS) for values in each])
    count, predicted, true = sums[:, sums[0] > 0]
    low, high = (betaincinv(true + 0.5, count - true + 0.5, tail) for tail in (0.025, 0.975))
    columns = (predicted / count, true / count, low, high, np.rint(count).astype(np.intp))
    rows = zip(*(values.tolist() for values in columns), strict=True)
    off = float(np.abs(predicted - true).sum() / count.sum())
    return Reliability(label, tuple(ReliabilityBin(*row) for row in rows), off)
