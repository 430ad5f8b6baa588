"""Folds that divide every task, and other parts of rows to train on and to test on."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from crosslearning.tasks.labels import Labels, factorize
from crosslearning.tether import Indices

_PURPOSES = ("sample", "fold", "row", "task", "group")  # a seed gives each its random numbers
_ROOM = 8  # for purposes
_MIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of SplitMix64


def within_task_folds(
    codes: ArrayLike, n_splits: int, seed: int | np.random.Generator, classes: Labels | None = None
) -> NDArray[np.int64]:
    """Divide the rows of every task among the folds of a cross-validation.

    The rows of each task are shuffled and assigned to the folds in turn, starting where the last
    task ended, so that fold sizes differ by at most 1 within every task and overall. A task with a
    single row is a new task when its fold is held out. Folds are not stratified by class: the
    held-out rows of a small task would mirror the classes of its other rows, and a model of that
    task alone would look better than it is.

    Parameters
    ----------
    codes : array of int, shape (n_rows,)
        Number of the task of each row, as from :meth:`TaskIndex.of`.
    n_splits, seed
        Number of folds, from 2 to the number of rows, and the random seed.
    classes : array-like of shape (n_rows,), optional
        Class of each row. If one fold has all rows of a class, one of them is swapped with a row of
        another, of the same task if possible, to have each class of two rows in all training sets.

    Returns
    -------
    array of int64, shape (n_rows,)
        The fold, from 0 to ``n_splits - 1``, in which each row is held out.

    Examples
    --------
    >>> folds = within_task_folds([0, 0, 0, 0, 1, 1], n_splits=2, seed=0)
    >>> np.bincount(folds[:4]), np.bincount(folds[4:])
    (array([2, 2]), array([1, 1]))
    """
    task = np.asarray(codes)
    if task.ndim != 1 or task.dtype.kind not in "iu" or not task.size or task.min() < 0:
        raise ValueError(
            "`codes` must hold a task number of at least 0 per row, for at least one row; got "
            f"shape {task.shape} and dtype {task.dtype}. Use the codes of TaskIndex.of(tasks)."
        )
    n_rows = len(task)
    if np.asarray(n_splits).dtype.kind not in "iu" or not 2 <= n_splits <= n_rows:
        raise ValueError(
            f"`n_splits` must be a whole number from 2 to the number of rows, {n_rows}; got "
            f"{n_splits!r}."
        )
    rng = np.random.default_rng(seed)
    # In random order, so that tasks that alternate by name do not share a fold.
    group = rng.permutation(int(task.max()) + 1)[task]
    shuffled = rng.permutation(n_rows)
    dealt = shuffled[np.argsort(group[shuffled], kind="stable")]
    folds = np.empty(n_rows, dtype=np.int64)
    folds[dealt] = np.arange(n_rows) % n_splits
    if classes is not None:
        class_codes, _, _ = factorize(classes, "classes")
        n = len(class_codes)
        if n != n_rows:
            raise ValueError(
                f"`classes` must hold one label per row; got {n} labels for {n_rows} rows."
            )
        _spread_classes(folds, task, class_codes, rng)
    return folds


def splits_of(
    cv: Any, X: Any, y: NDArray[Any], codes: NDArray[np.int64], seed: int, *, classes: bool
) -> list[tuple[Indices, Indices]]:
    """Return training and held-out rows of each split; tasks are the groups of splitters."""
    if isinstance(cv, Integral):
        n = int(cv)
        if not 2 <= n <= len(codes):
            raise ValueError(
                f"`cv` must be from 2 to the number of rows; got cv={n} for n_samples={len(codes)}."
            )
        fold = within_task_folds(codes, n, seed, y if classes else None)
        return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n)]
    from sklearn.model_selection import check_cv

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The groups parameter is ignored")  # tasks are groups
        splits: list[tuple[Indices, Indices]] = list(check_cv(cv).split(X, y, codes))
    if not splits:
        raise ValueError(f"`cv` must produce at least one split; got {cv!r}.")
    return splits


def _spread_classes(
    folds: NDArray[np.int64], task: NDArray[np.int64], classes: Indices, rng: np.random.Generator
) -> None:
    """Swap rows in place until no class with at least two rows is confined to one fold."""
    count = np.zeros((classes.max() + 1, folds.max() + 1), dtype=np.int64)  # of class, fold
    np.add.at(count, (classes, folds), 1)
    total = count.sum(axis=1)
    for c in np.flatnonzero((total > 1) & (count.max(axis=1) == total)):
        k = int(count[c].argmax())
        if count[c, k] < total[c]:  # an earlier swap has spread this class
            continue
        row = rng.choice(np.flatnonzero(classes == c))
        # In balanced folds some row can always move to fold k without confining its own class.
        moves = (folds != k) & ((total == 1) | (total - count[:, k] > 1))[classes]
        near = moves & (task == task[row])
        other = rng.choice(np.flatnonzero(near if near.any() else moves))
        np.subtract.at(count, ([c, classes[other]], [k, folds[other]]), 1)
        np.add.at(count, ([c, classes[other]], [folds[other], k]), 1)
        folds[[row, other]] = folds[[other, row]]


@dataclass(frozen=True, eq=False)
class Splits:
    """Rows to train on and rows to test on, of each split."""

    parts: list[tuple[NDArray[np.intp], NDArray[np.intp]]]

    @classmethod
    def of(cls, folds: NDArray[np.intp], *, in_time: bool = False) -> Splits:
        """Test on each fold after training on the others, or `in_time` on the earlier ones."""
        sides = ((folds < k if in_time else folds != k, folds == k) for k in np.unique(folds))
        parts = [(np.flatnonzero(train), np.flatnonzero(test)) for train, test in sides]
        return cls([part for part in parts if len(part[0])])


def divide(
    codes: NDArray[np.int64],
    n_splits: int,
    seed: int,
    classes: NDArray[Any] | None = None,
    groups: NDArray[Any] | None = None,
) -> Splits:
    """Divide rows within tasks, or by groups that stay together."""
    if groups is None:
        return Splits.of(within_task_folds(codes, min(n_splits, len(codes)), seed, classes))
    group_codes, names = pd.factorize(groups)
    if len(names) < 2:
        raise ValueError(
            "A column of groups must have at least 2 values to hold some out; got one. "
            "Choose another column."
        )
    dealt = np.random.default_rng(seed).permutation(len(names)) % min(n_splits, len(names))
    return Splits.of(dealt[group_codes])


def time_starts(values: NDArray[Any], name: str, n_splits: int) -> NDArray[Any]:
    """First moments of equal parts of the later half of the rows; a moment is never divided."""
    moments, counts = np.unique(values, return_counts=True)
    if len(moments) < 2:
        raise ValueError(
            f"The column {name!r} must have at least 2 values to test on later rows; got one. "
            "Choose another column."
        )
    before = np.cumsum(counts) / len(values)
    shares = 0.5 + 0.5 * np.arange(n_splits) / n_splits
    starts = np.unique(np.clip(np.searchsorted(before, shares), 1, len(moments) - 1))
    return np.asarray(moments[starts])


def uniform(a: Any, b: Any, seed: int, purpose: str) -> NDArray[np.float64]:
    """Numbers from 0 to 1 by two whole numbers, a seed and a purpose alone (SplitMix64)."""
    x, y, z = map(np.uint64, _MIX)
    mixed = np.asarray(a, dtype=np.uint64) * x + np.asarray(b, dtype=np.uint64) * y
    mixed = mixed + np.array([_ROOM * seed + _PURPOSES.index(purpose)], dtype=np.uint64) * z
    return np.asarray(pd.util.hash_array(mixed) / 2.0**64)


def deal(
    codes: NDArray[np.intp], seen: NDArray[np.int64], n_folds: int, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Deal rows to folds whose sizes differ by at most one within a task; and draw a key for each.

    `seen` counts the rows of each task so far, and is brought up to date: chunks do not matter. Of
    `n_folds` consecutive rows of a task, one is in each fold, beginning anywhere. Keys are uniform.
    """
    number = seen[codes] + pd.Series(codes).groupby(codes, sort=False).cumcount().to_numpy()
    seen += np.bincount(codes, minlength=len(seen))
    group, place = np.divmod(number, n_folds)
    start = np.asarray(n_folds * uniform(codes, group, seed, "fold"), dtype=np.intp)
    return (place + start) % n_folds, uniform(codes, number, seed, "row")
