"""From features to the columns of a model: scaled ones, their principal axes, and curves."""

from dataclasses import dataclass

import numpy as np

from crosslearning.tether import Array

_MOST_AXES = 300
_ROUNDING = 1e-10  # of the largest singular value


@dataclass(frozen=True, eq=False)
class Scaling:
    """Affine change of features, x -> (x - mean) / scale, by statistics pooled over all tasks."""

    mean: Array
    scale: Array

    @classmethod
    def of(cls, X: Array, weights: Array, *, center: bool, scale: bool) -> "Scaling":
        """Weighted mean and standard deviation of each column; constant columns keep scale 1."""
        total, counted = weights.sum(), X[weights > 0]
        mean = weights @ X / total
        # Rounding errors of a constant column would be taken for differences.
        constant = (counted == counted[:1]).all(axis=0)
        mean = np.where(constant, counted[0], mean) if len(counted) else mean
        deviation = np.ones(X.shape[1])
        if scale:
            sds = np.sqrt(weights @ (X - mean) ** 2 / total)
            varies = sds > 10 * np.finfo(np.float64).eps * np.abs(X).max(axis=0, initial=0.0)
            deviation = np.where(varies, sds, 1.0)
        return cls(mean if center else np.zeros_like(mean), deviation)

    def columns(self, X: Array, *, intercept: bool) -> Array:
        """Scaled features, followed by a column of ones if there is an intercept."""
        columns = np.empty((len(X), X.shape[1] + intercept))
        np.subtract(X, self.mean, out=columns[:, : X.shape[1]])
        columns[:, : X.shape[1]] /= self.scale
        columns[:, X.shape[1] :] = 1.0
        return columns

    def to_user(self, thetas: Array) -> tuple[Array, Array]:
        """Unscaled coefficients (..., scores, features), intercepts of (..., columns, scores)."""
        p = len(self.mean)
        coef = np.swapaxes(thetas[..., :p, :], -1, -2) / self.scale
        intercept = thetas[..., p:, :].sum(axis=-2) - coef @ self.mean
        return coef, intercept

    def from_user(self, coef: Array, intercept: Array, *, fit_intercept: bool) -> Array:
        """Invert `to_user`, for one model: shape (columns, scores)."""
        rows = (coef * self.scale).T
        return np.vstack([rows, intercept + coef @ self.mean]) if fit_intercept else rows


@dataclass(frozen=True, eq=False)
class Rotation:
    """Standardised features to principal axes: exact if tasks differ in all by one variance."""

    mean: Array
    scale: Array
    axes: Array

    @classmethod
    def of(cls, X: Array, weights: Array) -> "Rotation | None":
        """Return the axes of weighted rows if features are many, or more than rows; else None."""
        if X.shape[1] <= min(_MOST_AXES, np.count_nonzero(weights)):
            return None
        scaling = Scaling.of(X, weights, center=True, scale=True)
        weighted = np.sqrt(weights)[:, None] * scaling.columns(X, intercept=False)
        _, sizes, axes = np.linalg.svd(weighted, full_matrices=False)
        kept = min(_MOST_AXES, int(np.count_nonzero(sizes > _ROUNDING * sizes[0])))
        return cls(scaling.mean, scaling.scale, axes[:kept].T.copy())

    def apply(self, X: Array) -> Array:
        """Return the features in the axes."""
        return np.asarray((X - self.mean) / self.scale @ self.axes)


@dataclass(frozen=True, eq=False)
class Curves:
    """Piecewise cubic functions of one column, between knots."""

    column: int
    knots: Array  # (n_pieces + 1,)
    coef: Array  # (4, n_pieces, n_curves), by powers of the distance to the left end, cube first

    def __call__(self, z: Array) -> Array:
        """Values of the curves, shape (n_rows, n_curves)."""
        inside = np.clip(z, self.knots[0], self.knots[-1])
        piece = np.clip(np.searchsorted(self.knots, inside, "right") - 1, 0, len(self.knots) - 2)
        d = (inside - self.knots[piece])[:, None]
        cube, square, slope, level = self.coef[:, piece]
        value = ((cube * d + square) * d + slope) * d + level
        steepness = (3.0 * cube * d + 2.0 * square) * d + slope
        return np.asarray(value + steepness * (z - inside)[:, None])
