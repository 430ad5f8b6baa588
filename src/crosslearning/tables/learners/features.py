"""Features derived from the columns of a table, for stored models.

Principal axes of many columns, splines, means of tasks, and predictions of boosted trees. Trees
are arrays, which predict without scikit-learn and are saved without pickle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from crosslearning.convex.sums.columns import Curves

Array = NDArray[np.float64]
BLOCKS = {
    "means": ("linear", "means"),
    "splines": ("linear", "curved"),
    "splines-means": ("linear", "curved", "means"),
    "trees": ("stacked",),
    "boosting": ("linear", "stacked"),
    "both": ("linear", "curved", "stacked"),
}
_AT_ONCE = 2**12  # rows
_MOST_AXES = 300
_ROUNDING = 1e-10  # of the largest singular value


@dataclass(frozen=True, eq=False)
class Rotation:
    """Standardised features to their principal axes.

    If tasks differ in all coefficients by one variance, nothing is lost with all axes: the prior is
    the same in every direction, and the rows carry no information about the others.
    """

    mean: Array
    scale: Array
    axes: Array

    @classmethod
    def of(cls, X: Array) -> Rotation | None:
        """Return the axes if features are many, or more than rows; else None."""
        n_rows, n_features = X.shape
        if n_features <= min(_MOST_AXES, n_rows):
            return None
        mean, scale = X.mean(axis=0), X.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        _, sizes, axes = np.linalg.svd((X - mean) / scale, full_matrices=False)
        kept = min(_MOST_AXES, int(np.count_nonzero(sizes > _ROUNDING * sizes[0])))
        return cls(mean, scale, axes[:kept].T.copy())

    def apply(self, X: Array) -> Array:
        """Return the features in the axes."""
        return np.asarray((X - self.mean) / self.scale @ self.axes)


@dataclass(frozen=True, eq=False)
class Trees:
    """Scores as sums of trees: `start` plus the `value` of one leaf of each tree.

    Nodes of all trees are numbered consecutively; a leaf is its own child. Rows whose `feature` is
    at most the `threshold` go left. `roots` has the shape (n_trees, n_scores).
    """

    start: Array
    roots: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: Array
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    value: Array
    depth: int

    @classmethod
    def of(cls, model: Any) -> Trees:
        """Take the trees of a histogram-based gradient boosting model of numeric features."""
        trees = [[tree.nodes for tree in stage] for stage in model._predictors]
        sizes = np.array([[len(nodes) for nodes in stage] for stage in trees])
        roots = np.cumsum(np.append(0, sizes.ravel()))[:-1].reshape(sizes.shape)
        nodes = np.concatenate([nodes for stage in trees for nodes in stage])
        own, base = np.arange(len(nodes)), np.repeat(roots.ravel(), sizes.ravel())
        leaf = nodes["is_leaf"].astype(bool)
        return cls(
            np.asarray(model._baseline_prediction, dtype=np.float64).ravel(),
            roots.astype(np.int64),
            np.where(leaf, 0, nodes["feature_idx"]).astype(np.int64),
            np.where(leaf, np.inf, nodes["num_threshold"]),
            np.where(leaf, own, base + nodes["left"]).astype(np.int64),
            np.where(leaf, own, base + nodes["right"]).astype(np.int64),
            nodes["value"].astype(np.float64),
            int(nodes["depth"].max()),
        )

    def scores(self, X: Array) -> Array:
        """Scores of rows, shape (n_rows, n_scores)."""
        found = np.empty((len(X), self.roots.shape[1]))
        for start in range(0, len(X), _AT_ONCE):
            part = X[start : start + _AT_ONCE]
            rows = np.arange(len(part))[:, None]
            at = np.tile(self.roots.ravel(), (len(part), 1))
            for _ in range(self.depth):
                below = part[rows, self.feature[at]] <= self.threshold[at]
                at = np.where(below, self.left[at], self.right[at])
            leaves = self.value[at].reshape(len(part), *self.roots.shape)
            found[start : start + _AT_ONCE] = self.start + leaves.sum(axis=1)
        return found


@dataclass(frozen=True, eq=False)
class Stacked:
    """Bounded and standardised scores of trees; for several classes relative to their mean."""

    trees: Trees
    low: float
    high: float
    mean: Array
    scale: Array

    def bounded(self, X: Array) -> Array:
        """Scores before they are standardised."""
        scores = self.trees.scores(X)
        if scores.shape[1] == 1:
            return np.clip(scores, self.low, self.high)
        logs = np.clip(log_softmax(scores, axis=1), self.low, self.high)
        return np.asarray(logs - logs.mean(axis=1, keepdims=True))

    def apply(self, X: Array) -> Array:
        """Columns for linear models."""
        return np.asarray((self.bounded(X) - self.mean) / self.scale)


@dataclass(frozen=True, eq=False)
class TaskMeans:
    """Means of some columns in each task.

    Their coefficients tell how tasks with a higher mean differ (Mundlak, 1978), while those of the
    columns tell what happens within a task. A row of a new task lets expect the mean
    `center` + `shares` (row - `center`), by regression of means on rows; `spread` is the covariance
    of the rest.
    """

    columns: NDArray[np.int64]
    values: Array
    center: Array
    shares: Array
    spread: Array

    @classmethod
    def of(cls, Z: Array, codes: NDArray[np.int64], weights: Array, n_tasks: int) -> TaskMeans:
        """Take the means of all columns; those of a task without weight are NaN."""
        used = weights > 0
        Z, codes, weights = Z[used], codes[used], weights[used]
        counts = np.bincount(codes, weights, n_tasks)
        totals = np.transpose([np.bincount(codes, weights * z, n_tasks) for z in Z.T])
        means = np.full_like(totals, np.nan)
        means[counts > 0] = totals[counts > 0] / counts[counts > 0, None]
        weights = weights / weights.sum()
        center = weights @ Z
        apart, own = Z - center, means[codes] - center
        between, total = weights @ own**2, weights @ apart**2
        shares = np.divide(between, total, out=0.0 * total, where=total > 0)
        rest = own - shares * apart
        return cls(np.arange(Z.shape[1]), means, center, shares, (rest.T * weights) @ rest)

    def take(self, columns: NDArray[np.int64]) -> TaskMeans:
        """Return the means of some columns."""
        each = self.values[:, columns], self.center[columns], self.shares[columns]
        return TaskMeans(self.columns[columns], *each, self.spread[np.ix_(columns, columns)])

    def apply(self, Z: Array, codes: NDArray[np.int64]) -> Array:
        """Means of the task of each row; the code -1 is a new task."""
        own = np.where(codes[:, None] < 0, np.nan, self.values[codes])
        expected = self.center + self.shares * (Z[:, self.columns] - self.center)
        return np.where(np.isnan(own), expected, own)


@dataclass(frozen=True, eq=False)
class Basis:
    """Standardised columns, then curves of them, means of tasks, and scores of trees.

    Stored by the order of the fields, so that new ones come last.
    """

    mean: Array
    scale: Array
    curves: list[Curves]
    stacked: Stacked | None = None
    means: TaskMeans | None = None

    def apply(self, X: Array, codes: NDArray[np.int64]) -> Array:
        """Columns for linear models, in the order of `blocks`."""
        Z = (X - self.mean) / self.scale
        parts = [Z, *(curves(Z[:, curves.column]) for curves in self.curves)]
        parts += [] if self.means is None else [self.means.apply(Z, codes)]
        return np.hstack([*parts, *([] if self.stacked is None else [self.stacked.apply(X)])])

    @property
    def blocks(self) -> NDArray[np.str_]:
        """What each column is."""
        curved = sum(curves.coef.shape[2] for curves in self.curves)
        means = 0 if self.means is None else len(self.means.columns)
        stacked = 0 if self.stacked is None else len(self.stacked.mean)
        sizes = [len(self.mean), curved, means, stacked]
        return np.repeat(["linear", "curved", "means", "stacked"], sizes)

    def seen(self, name: str) -> NDArray[np.intp]:
        """Positions of the columns of a base."""
        return np.flatnonzero(np.isin(self.blocks, BLOCKS[name]))

    def guessed(self, columns: NDArray[np.intp]) -> Array:
        """Covariance of what some columns of a new task leave open: its means."""
        at = np.flatnonzero(self.blocks == "means")
        covariance = np.zeros((len(self.blocks), len(self.blocks)))
        if self.means is not None:
            covariance[np.ix_(at, at)] = self.means.spread
        return covariance[np.ix_(columns, columns)]
