"""The rows of a table as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table that models learn from, or are scored on."""

    X: NDArray[np.float64]
    y: NDArray[Any]
    codes: NDArray[np.int64]
    n_tasks: int
    weights: NDArray[np.float64] | None = None
    classes: NDArray[Any] | None = None

    @property
    def given_weights(self) -> NDArray[np.float64]:
        """Weights of the rows, 1 by default."""
        return np.ones(len(self.y)) if self.weights is None else self.weights

    def take(self, rows: NDArray[np.intp]) -> Rows:
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        return Rows(
            self.X[rows], self.y[rows], self.codes[rows], self.n_tasks, weights, self.classes
        )
