"""Cubic curves of a standardised column, straight beyond their end knots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslearning.tether import Array


@dataclass(frozen=True, eq=False)
class Curves:
    """Piecewise cubic functions of one column.

    Attributes
    ----------
    column : int
        Which column.
    knots : array of shape (n_pieces + 1,)
        Ends of the pieces.
    coef : array of shape (4, n_pieces, n_curves)
        Coefficients of the cube, the square, the distance to the left end, and 1.
    """

    column: int
    knots: Array
    coef: Array

    def __call__(self, z: Array) -> Array:
        """Values of the curves, shape (n_rows, n_curves)."""
        inside = np.clip(z, self.knots[0], self.knots[-1])
        piece = np.clip(np.searchsorted(self.knots, inside, "right") - 1, 0, len(self.knots) - 2)
        d = (inside - self.knots[piece])[:, None]
        cube, square, slope, level = self.coef[:, piece]
        value = ((cube * d + square) * d + slope) * d + level
        return np.asarray(
            value + ((3.0 * cube * d + 2.0 * square) * d + slope) * (z - inside)[:, None]
        )
