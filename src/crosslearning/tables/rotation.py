"""Principal axes of the features of a wide table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_MOST = 300  # axes
_ROUNDING = 1e-10  # of the largest singular value


@dataclass(frozen=True, eq=False)
class Rotation:
    """Standardised features to their principal axes.

    Where tasks differ in all coefficients by one variance, models of all axes are those of the
    features: the prior is the same in every direction, and rows say nothing of the others.
    """

    mean: Array
    scale: Array
    axes: Array

    @classmethod
    def of(cls, X: Array) -> Rotation | None:
        """Return the axes if they are fewer than features, of which there are many; else None."""
        n_rows, n_features = X.shape
        if n_features <= min(_MOST, n_rows):
            return None
        mean, scale = X.mean(axis=0), X.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        _, sizes, axes = np.linalg.svd((X - mean) / scale, full_matrices=False)
        kept = min(_MOST, int(np.count_nonzero(sizes > _ROUNDING * sizes[0])))
        return cls(mean, scale, axes[:kept].T.copy())

    def apply(self, X: Array) -> Array:
        """Return the features in the axes."""
        return np.asarray((X - self.mean) / self.scale @ self.axes)
