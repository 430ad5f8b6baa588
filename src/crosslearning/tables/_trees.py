"""Boosted trees as arrays: they predict without scikit-learn, and are saved without pickle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_AT_ONCE = 2**12  # rows


@dataclass(frozen=True, eq=False)
class Trees:
    """Scores as sums of trees: `start` plus the `value` of one leaf of each tree.

    Nodes of all trees are numbered through; a leaf leads to itself. Rows whose `feature` is at
    most the `threshold` go left. `roots` has the shape (n_trees, n_scores).
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
        """Take the trees of a histogram-based gradient boosting whose features are numbers."""
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
