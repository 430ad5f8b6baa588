"""Additive sums over the rows of each task, which replace the rows in least squares."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.convex.sums.cells import Cells
from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.rows import Moments, checked_weights
from crosslearning.files import replacing
from crosslearning.tether import Array, Indices

_FORMAT = 1


class Statistics:
    """Counts, weights, means and centred scatter of (features, target), per task and fold.

    They are all that least squares needs. Statistics of chunks of a file, or of machines that keep
    their rows, can be added in any order.

    Parameters
    ----------
    n_folds : int
        Number of folds into which the rows of each task are divided.
    seed : int
        Seed for folds by default. Within a chunk the folds of a task differ in size by at most one.

    Attributes
    ----------
    labels : array of shape (n_tasks,)
        Labels of the tasks, sorted.
    cells : Cells
        The sums, arranged in shape (n_tasks, n_folds); the target is the last column.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, y, tasks = rng.normal(size=(6, 2)), rng.normal(size=6), list("aabbcc")
    >>> whole = Statistics.of(X, y, tasks)
    >>> parts = Statistics.of(X[:3], y[:3], tasks[:3]) + Statistics.of(X[3:], y[3:], tasks[3:])
    >>> parts.labels, bool(np.allclose(parts.cells.scatters, whole.cells.scatters))
    (array(['a', 'b', 'c'], dtype='<U1'), True)
    """

    def __init__(self, n_folds: int = 1, seed: int = 0) -> None:
        if n_folds < 1:
            raise ValueError(f"`n_folds` must be at least 1; got {n_folds}.")
        self.n_folds, self.seed = n_folds, seed
        self.labels: NDArray[Any] = np.empty(0)
        self.cells = Cells.empty((0, n_folds), 1)

    @classmethod
    def empty(cls, labels: NDArray[Any], n_features: int, n_folds: int = 1) -> Statistics:
        """Return statistics without rows, for tasks with sorted labels."""
        return cls()._with(labels, Cells.empty((len(labels), n_folds), n_features + 1))

    @classmethod
    def of(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        tasks: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        folds: ArrayLike | None = None,
        n_folds: int | None = None,
        seed: int = 0,
    ) -> Statistics:
        """Sum rows; arguments as in :meth:`partial_fit` and in the class, `n_folds` by `folds`."""
        if n_folds is None:
            n_folds = 1 if folds is None else int(np.max(np.asarray(folds), initial=0)) + 1
        return cls(n_folds, seed).partial_fit(
            X, y, tasks, labels=labels, sample_weight=sample_weight, folds=folds
        )

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        tasks: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        folds: ArrayLike | None = None,
    ) -> Statistics:
        """Add rows, and return this object.

        `tasks` holds labels or, if there are distinct `labels`, positions among them. `folds` holds
        numbers from 0 to ``n_folds - 1``, random by default.
        """
        features, target = checked_rows(X, y)
        names, task = encode(tasks, labels, len(target))
        weights = checked_weights(sample_weight, len(target))
        if folds is None:
            rng = np.random.default_rng([self.seed, self.n_rows])
            fold = deal_folds(task, self.n_folds, rng)
        else:
            fold = checked_codes(folds, len(task), self.n_folds, "folds")
        used = weights > 0
        if not used.all():
            features, target, weights = features[used], target[used], weights[used]
            task, fold = task[used], fold[used]
        if len(names):
            cell = self._grown(names, features.shape[1] + 1)[task] * self.n_folds + fold
            self.cells.flat.add_rows(cell, features, target, weights)
        return self

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self.labels)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.cells.means.shape[-1] - 1)

    @property
    def n_rows(self) -> int:
        """Number of rows of positive weight."""
        return int(self.cells.counts.sum())

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of rows of positive weight of each task."""
        return np.asarray(self.cells.counts.sum(axis=1))

    @property
    def task_weights(self) -> Array:
        """Sum of the weights of each task."""
        return np.asarray(self.cells.weights.sum(axis=1))

    def __repr__(self) -> str:
        size = f"{self.n_rows} rows, {self.n_tasks} tasks, {self.n_features} features"
        return f"Statistics({size}, {self.n_folds} folds)"

    def __radd__(self, other: object) -> Statistics:
        return self if other == 0 else NotImplemented  # `sum` starts with 0

    def __add__(self, other: Statistics) -> Statistics:
        if not isinstance(other, Statistics):
            return NotImplemented
        self._check_folds(other)
        total = self._with(self.labels, self.cells.copy())
        if other.n_tasks:
            where = total._grown(other.labels, other.n_features + 1)
            total.cells.add(where, other.cells)
        return total

    def __sub__(self, other: Statistics) -> Statistics:
        """Statistics without the rows of `other`, which must be among them."""
        if not isinstance(other, Statistics):
            return NotImplemented
        self._check_folds(other)
        where = positions(self.labels, other.labels)
        if where is None or np.any(self.cells.counts[where] < other.cells.counts):
            raise ValueError(
                "Statistics can only be subtracted from statistics that include their rows; check "
                "the order of the operands."
            )
        rest = self._with(self.labels, self.cells.copy())
        rest.cells[where] = rest.cells[where].minus(other.cells)
        return rest

    def total(self) -> Statistics:
        """All folds together."""
        total = self.fold(0)
        for fold in range(1, self.n_folds):
            total.cells.add(np.arange(self.n_tasks), self.cells[:, fold : fold + 1])
        return total

    def fold(self, fold: int) -> Statistics:
        """Return the rows of one fold."""
        return self._with(self.labels, self.cells[:, fold : fold + 1].copy())

    def pooled_means(self) -> Array:
        """Weighted means of features and target over all rows."""
        weights, means = self.cells.weights, self.cells.means
        # Relative to one cell's means: a sum of large numbers would lose digits.
        first = means[np.unravel_index(weights.argmax(), weights.shape)]
        deviations = np.where(weights[..., None] > 0, means - first, 0.0)
        return np.asarray(first + np.tensordot(weights, deviations, 2) / weights.sum())

    def take(self, tasks: Indices | slice) -> Statistics:
        """Return some of the tasks."""
        return self._with(self.labels[tasks], self.cells[tasks])

    def relabelled(self, labels: NDArray[Any]) -> Statistics:
        """Return the same sums with other labels, distinct and in the same order."""
        return self._with(labels, self.cells)

    def scaling(self, *, center: bool = True, scale: bool = True) -> Scaling:
        """Weighted mean and standard deviation of each feature; constant ones keep scale 1."""
        cells = self.cells
        mean = self.pooled_means()[:-1]
        deviations = cells.means[..., :-1] - mean
        squares = np.einsum("...jj->...j", cells.scatters)[..., :-1]
        squares = squares + cells.weights[..., None] * deviations**2
        sds = np.sqrt(squares.sum(axis=(0, 1)) / cells.weights.sum())
        varies = sds > 10 * np.finfo(np.float64).eps * np.abs(mean)
        deviation = np.where(varies & scale, sds, 1.0)
        return Scaling(mean if center else np.zeros_like(mean), deviation)

    def moments(
        self, scaling: Scaling, *, intercept: bool = True, target_mean: float | None = None
    ) -> Moments:
        """Return sums of products of scaled columns, ones for the intercept, and targets.

        Targets are measured from `target_mean`, by default their mean if there is an intercept.
        """
        cells = self.total().cells[:, 0]
        if target_mean is None:
            target_mean = float(self.pooled_means()[-1]) if intercept else 0.0
        scale = np.append(scaling.scale, 1.0)
        width = self.n_features + intercept + 1
        others = np.append(np.arange(self.n_features), width - 1)  # all but the ones
        deviations = np.ones((self.n_tasks, width))
        deviations[:, others] = (cells.means - np.append(scaling.mean, target_mean)) / scale
        products = np.zeros((self.n_tasks, width, width))
        products[:, others[:, None], others] = cells.scatters / np.outer(scale, scale)
        products += (cells.weights[:, None] * deviations)[:, :, None] * deviations[:, None]
        return Moments(products, cells.counts, cells.log_weights, intercept, target_mean)

    def save(self, path: str | Path | BinaryIO) -> None:
        """Write an npz file, without pickle, or to a binary stream."""
        if self.labels.dtype.hasobject:
            raise ValueError(
                "Only task labels that are strings, numbers or dates can be saved; got objects, "
                f"the first one of type {type(self.labels[0]).__name__}. Use strings."
            )
        header = {"format": _FORMAT, "n_folds": self.n_folds, "seed": self.seed}
        text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        arrays = {"header": text, "labels": self.labels, **vars(self.cells)}
        if not isinstance(path, str | Path):
            np.savez(path, **arrays)
            return
        with replacing(Path(path)) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: str | Path | BinaryIO) -> Statistics:
        """Read what :meth:`save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            header = json.loads(file["header"].tobytes()) if "header" in file else {}
            if header.get("format") != _FORMAT:
                raise ValueError(
                    f"{path} is not a statistics file of format {_FORMAT}; its header is {header}. "
                    "Write it with `Statistics.save` of this version."
                )
            cells = Cells(*(file[field.name] for field in fields(Cells)))
            return cls(seed=header["seed"])._with(file["labels"], cells)

    def _with(self, labels: NDArray[Any], cells: Cells) -> Statistics:
        other = Statistics(cells.counts.shape[1], self.seed)
        other.labels, other.cells = labels, cells
        return other

    def _grown(self, labels: NDArray[Any], n_columns: int) -> Indices:
        """Add tasks with distinct, sorted labels if necessary, and return their positions."""
        if not self.n_tasks:
            self.labels, self.cells = labels, Cells.empty((len(labels), self.n_folds), n_columns)
        if n_columns != self.n_features + 1:
            counts = f"{n_columns - 1} after {self.n_features}"
            raise ValueError(f"All rows must have the same features; got {counts}.")
        if labels.dtype.kind != self.labels.dtype.kind:
            raise ValueError(
                f"All task labels must be of one type; got {labels.dtype} after "
                f"{self.labels.dtype}. Convert them, for example to strings."
            )
        where = positions(self.labels, labels)
        if where is not None:
            return where
        union = np.union1d(self.labels, labels)
        grown = Cells.empty((len(union), self.n_folds), n_columns)
        grown[np.searchsorted(union, self.labels)] = self.cells
        self.labels, self.cells = union, grown
        return np.searchsorted(union, labels)

    def _check_folds(self, other: Statistics) -> None:
        if self.n_folds != other.n_folds:
            raise ValueError(
                f"Both statistics must have the same number of folds; got {self.n_folds} and "
                f"{other.n_folds}. Take their `total()` first."
            )


def checked_rows(X: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    """Features and targets as arrays of finite numbers."""
    features, target = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if features.ndim != 2 or target.shape != features.shape[:1]:
        raise ValueError(
            "`X` must be a matrix and `y` must hold one number for each of its rows; got shapes "
            f"{features.shape} and {target.shape}."
        )
    if not np.isfinite(features.sum() + target.sum()):  # fast, and needs no array of flags
        finite = np.isfinite(features).all(axis=1) & np.isfinite(target)
        if not finite.all():
            raise ValueError(
                f"`X` and `y` must be finite; row {np.argmin(finite)} is not. Impute missing "
                "values, or drop the row."
            )
    return features, target


def encode(tasks: ArrayLike, labels: ArrayLike | None, n_rows: int) -> tuple[NDArray[Any], Indices]:
    """Sorted distinct labels, and the position of each row's."""
    array = _plain(tasks)
    if array.shape != (n_rows,):
        raise ValueError(
            f"`tasks` must hold one label for each of the {n_rows} rows; got shape {array.shape}."
        )
    if labels is None:
        return _unique(array, "tasks")
    names, order = _unique(_plain(labels), "labels")
    if len(names) != len(order):
        raise ValueError(f"`labels` must be distinct; got {len(order)}, {len(names)} distinct.")
    return names, order[checked_codes(array, n_rows, len(names), "tasks")]


def checked_codes(codes: ArrayLike, n_rows: int, n: int, name: str) -> Indices:
    """Numbers of the rows' folds, or positions of their tasks among labels."""
    array = np.asarray(codes)
    whole = array.shape == (n_rows,) and array.dtype.kind in "iu"
    if not whole or (n_rows and not 0 <= array.min() <= array.max() < n):
        raise ValueError(
            f"`{name}` must hold a whole number from 0 to {n - 1} for each of the {n_rows} rows; "
            f"got shape {array.shape}, dtype {array.dtype} and values such as {array.ravel()[:3]}."
        )
    return array.astype(np.intp, copy=False)


def positions(sorted_labels: NDArray[Any], labels: NDArray[Any]) -> Indices | None:
    """Where labels are among sorted ones; None unless all are there."""
    if not len(sorted_labels) or sorted_labels.dtype.kind != labels.dtype.kind:
        return None
    where = np.searchsorted(sorted_labels, labels)
    present = sorted_labels[np.minimum(where, len(sorted_labels) - 1)] == labels
    return where if np.all(present) else None


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
        missing |= np.array([label is None for label in labels], dtype=bool)
    if missing.any():
        raise ValueError(
            f"`{name}` must have no missing labels; number {missing.argmax()} is missing. Drop "
            "the row, or fill in the label."
        )
    try:
        names, codes = np.unique(labels, return_inverse=True)
    except TypeError as problem:
        raise ValueError(
            f"Labels in `{name}` must be of one type; got several ({problem}). Convert them, for "
            "example to strings."
        ) from problem
    return names, codes.reshape(-1)
