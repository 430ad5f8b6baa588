"""Validation of rows, task labels, weights and folds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.tether import Array, Indices


def checked_rows(X: ArrayLike, y: ArrayLike) -> Array:
    """Features with the targets as the last column."""
    features, target = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if features.ndim != 2 or target.shape != features.shape[:1]:
        raise ValueError(
            "`X` must be a matrix and `y` must hold one number for each of its rows; got shapes "
            f"{features.shape} and {target.shape}."
        )
    rows = np.column_stack([features, target])
    if not np.isfinite(rows.sum()):  # a sum first: it needs no array of flags
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(bad):
            raise ValueError(
                f"`X` and `y` must be finite; row {bad[0]} is not. Impute missing values, or drop "
                "the row."
            )
    return rows


def checked_weights(weights: ArrayLike | None, n: int, name: str = "sample_weight") -> Array:
    """Weights of rows or tasks, 1 by default."""
    if weights is None:
        return np.ones(n)
    checked = np.asarray(weights, dtype=np.float64)
    if checked.shape != (n,) or not np.all((checked >= 0) & (checked < np.inf)):
        raise ValueError(
            f"`{name}` must hold {n} finite numbers of at least 0; got shape {checked.shape} and "
            f"smallest value {checked.min(initial=np.inf)}."
        )
    return checked


def encode(tasks: ArrayLike, labels: ArrayLike | None, n_rows: int) -> tuple[NDArray[Any], Indices]:
    """Sorted distinct labels, and the position of each row's."""
    array = _plain(tasks)
    if array.shape != (n_rows,):
        raise ValueError(
            f"`tasks` must hold one label for each of the {n_rows} rows; got shape {array.shape}."
        )
    if labels is None:
        names, codes = _unique(array, "tasks")
        return names, codes.reshape(-1)
    names, order = _unique(_plain(labels), "labels")
    if len(names) != len(order) or array.dtype.kind not in "iu":
        raise ValueError(
            "With `labels`, which must be distinct, `tasks` must hold positions among them; got "
            f"{len(order) - len(names)} repeated labels and tasks of type {array.dtype}."
        )
    if n_rows and not 0 <= array.min() <= array.max() < len(names):
        raise ValueError(
            f"`tasks` must be from 0 to {len(names) - 1}, the last position in `labels`; got "
            f"{array.min()} to {array.max()}."
        )
    return names, order[array]


def positions(sorted_labels: NDArray[Any], labels: NDArray[Any]) -> Indices | None:
    """Where labels are among sorted ones; None unless all are there."""
    if not len(sorted_labels) or sorted_labels.dtype.kind != labels.dtype.kind:
        return None
    where = np.searchsorted(sorted_labels, labels)
    present = sorted_labels[np.minimum(where, len(sorted_labels) - 1)] == labels
    return where if np.all(present) else None


def checked_folds(folds: ArrayLike, n_rows: int, n_folds: int) -> Indices:
    """Given folds of the rows."""
    array = np.asarray(folds)
    if array.shape != (n_rows,) or array.dtype.kind not in "iu":
        raise ValueError(
            f"`folds` must hold one whole number for each of the {n_rows} rows; got shape "
            f"{array.shape} and dtype {array.dtype}."
        )
    if array.size and not 0 <= array.min() <= array.max() < n_folds:
        raise ValueError(
            f"`folds` must be from 0 to {n_folds - 1}; got {array.min()} to {array.max()}. Set "
            "`n_folds` to their number."
        )
    return array.astype(np.intp, copy=False)


def deal_folds(task: Indices, n_folds: int, rng: np.random.Generator) -> Indices:
    """Deal the rows of each task, in random order, to the folds in turn."""
    if n_folds == 1:
        return np.zeros(len(task), dtype=np.intp)
    shuffled = rng.permutation(len(task))
    dealt = shuffled[np.argsort(task[shuffled], kind="stable")]
    folds = np.empty(len(task), dtype=np.intp)
    # A task begins where the one before it ended, so that the folds are of one size too.
    folds[dealt] = (rng.integers(n_folds) + np.arange(len(task))) % n_folds
    return folds


def _plain(labels: ArrayLike) -> NDArray[Any]:
    """Labels as an array of a type that sorts fast and can be saved, if there is one."""
    array = np.asarray(labels)
    if array.dtype.kind == "O" and array.size and all(isinstance(label, str) for label in array):
        return array.astype(str)
    if array.dtype.kind in "iu" and array.dtype != np.uint64:
        return array.astype(np.int64, copy=False)
    return array


def _unique(labels: NDArray[Any], name: str) -> tuple[NDArray[Any], Indices]:
    missing = labels != labels
    if labels.dtype.kind == "O":
        missing = np.array([label is None or label != label for label in labels], dtype=bool)
    if missing.any():
        raise ValueError(
            f"`{name}` must have no missing labels; number {missing.argmax()} is missing. Drop "
            "the row, or fill in the label."
        )
    try:
        return np.unique(labels, return_inverse=True)
    except TypeError as problem:
        raise ValueError(
            f"Labels in `{name}` must be of one type; got several ({problem}). Convert them, for "
            "example to strings."
        ) from problem
