"""Folds of a cross-validation that divide every task."""

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.tasks.labels import Labels, factorize
from crosslearning.tether import Indices


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
