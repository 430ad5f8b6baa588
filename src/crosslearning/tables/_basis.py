"""Features beside the columns of a table: curves, and what boosted trees predict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

if TYPE_CHECKING:
    from crosslearning.convex.curves import Curves
    from crosslearning.tables._trees import Trees

Array = NDArray[np.float64]
BLOCKS = {
    "splines": ("linear", "curved"),
    "boosting": ("linear", "stacked"),
    "both": ("linear", "curved", "stacked"),
}


@dataclass(frozen=True, eq=False)
class Stacked:
    """Scores of trees within bounds, standardised; of several classes relative to their mean."""

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
class Basis:
    """Standardised columns, then curves of them, then scores of trees."""

    mean: Array
    scale: Array
    curves: list[Curves]
    stacked: Stacked | None = None

    def apply(self, X: Array) -> Array:
        """Columns for linear models, in the order of `blocks`."""
        Z = (X - self.mean) / self.scale
        parts = [Z, *(curves(Z[:, curves.column]) for curves in self.curves)]
        return np.hstack([*parts, *([] if self.stacked is None else [self.stacked.apply(X)])])

    @property
    def blocks(self) -> NDArray[np.str_]:
        """What each column is."""
        curved = sum(curves.coef.shape[2] for curves in self.curves)
        stacked = 0 if self.stacked is None else len(self.stacked.mean)
        return np.repeat(["linear", "curved", "stacked"], [len(self.mean), curved, stacked])

    def seen(self, name: str) -> NDArray[np.intp]:
        """Positions of the columns that models of a base see."""
        return np.flatnonzero(np.isin(self.blocks, BLOCKS[name]))
