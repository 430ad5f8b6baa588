"""Folds of a cross-validation that divide every task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crosslearning.tasks.labels import factorize

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from crosslearning.tasks.labels import Labels

__all__ = ["within_task_folds"]


def within_task_folds(
    codes: ArrayLike, n_splits: int, seed: int | np.random.Generator, strata: Labels | None = None
) -> NDArray[np.int64]:
    """Divide the rows of every task over the folds of a cross-validation.

    The rows of each task (within it, of each stratum) are shuffled and dealt to the folds in
    turn; a task begins where the one before it ended. The fold sizes of a task, of a stratum
    within a task and of the whole data set therefore differ by at most 1 each, however small the
    tasks are. A task with fewer rows than folds is absent from some of them; a task with a
    single row is in one fold, and counts as never seen when that fold is held out.

    Parameters
    ----------
    codes : array of int, shape (n_rows,)
        Number of the task of each row, as from :meth:`TaskIndex.of`.
    n_splits : int
        Number of folds, from 2 to the number of rows.
    seed : int or Generator
        The same seed gives the same folds.
    strata : array-like of shape (n_rows,), optional
        Label of the stratum of each row, such as its class.

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
    task = _check_codes(codes)
    n_rows = len(task)
    if np.asarray(n_splits).dtype.kind not in "iu" or not 2 <= n_splits <= n_rows:
        raise ValueError(
            f"`n_splits` must be a whole number from 2 to the number of rows, {n_rows}; got "
            f"{n_splits!r}."
        )
    rng = np.random.default_rng(seed)
    n_tasks = int(task.max()) + 1
    # In random order, so that tasks or strata that alternate by name do not share a fold.
    group = rng.permutation(n_tasks)[task]
    if strata is not None:
        stratum, n_strata = _check_strata(strata, n_rows)
        first = rng.integers(n_strata, size=n_tasks)
        group = group * n_strata + (rng.permutation(n_strata)[stratum] + first[task]) % n_strata
    shuffled = rng.permutation(n_rows)
    dealt = shuffled[np.argsort(group[shuffled], kind="stable")]
    folds = np.empty(n_rows, dtype=np.int64)
    folds[dealt] = np.arange(n_rows) % n_splits
    return folds


def _check_codes(codes: ArrayLike) -> NDArray[np.int64]:
    task = np.asarray(codes)
    if task.ndim != 1 or task.dtype.kind not in "iu" or not task.size:
        raise ValueError(
            "`codes` must hold one task number per row, for at least one row; got shape "
            f"{task.shape} and dtype {task.dtype}. Use the codes of TaskIndex.of(tasks)."
        )
    if task.min() < 0:
        raise ValueError(
            f"`codes` must be at least 0; got {task.min()} in row {task.argmin()}. "
            "Leave out rows of tasks that are not in the index."
        )
    return task.astype(np.int64, copy=False)


def _check_strata(strata: Labels, n_rows: int) -> tuple[NDArray[np.intp], int]:
    codes, labels, _ = factorize(strata, "strata")
    if len(codes) != n_rows:
        raise ValueError(
            f"`strata` must hold one label per row; got {len(codes)} labels for {n_rows} rows."
        )
    return codes, len(labels)
