"""Rows of a generalised linear model, and sums of products over the rows of each task."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.convex.families import Family
from crosslearning.tether import Array, Flags, Indices

_LARGEST = 2**13  # rows, so that what is made of a bucket stays in the cache


def buckets(tasks: Indices, n_tasks: int) -> Iterator[tuple[Indices, Indices, Flags]]:
    """Group tasks by size, rounded up to powers of 2, so that at most half is padding.

    Yields some tasks, the positions of their rows (tasks, length), and which are no padding.
    """
    order = np.argsort(tasks, kind="stable")
    sizes = np.bincount(tasks, minlength=n_tasks)
    first = np.cumsum(sizes) - sizes
    magnitude = np.ceil(np.log2(np.maximum(sizes, 1)))
    for level in np.unique(magnitude[sizes > 0]):
        alike = np.flatnonzero((magnitude == level) & (sizes > 0))
        position = np.arange(sizes[alike].max())
        at_once = max(_LARGEST // len(position), 1)
        for start in range(0, len(alike), at_once):
            members = alike[start : start + at_once]
            inside = position < sizes[members, None]
            yield members, order[np.where(inside, first[members, None] + position, 0)], inside


@dataclass(frozen=True, eq=False)
class Moments:
    """Z_iᵀZ_i of the weighted rows Z_i = (columns, target) of each task i."""

    products: Array
    counts: NDArray[Any]  # of rows
    log_weights: Array  # sums of the logarithms of their weights
    intercept: bool  # the last column
    target_mean: float = 0.0  # subtracted from the targets

    @property
    def n_tasks(self) -> int:
        return len(self.products)

    @property
    def n_columns(self) -> int:
        return int(self.products.shape[1] - 1)

    def take(self, tasks: Indices | slice) -> "Moments":
        parts = {name: getattr(self, name)[tasks] for name in ("products", "counts", "log_weights")}
        return replace(self, **parts)


def checked_weights(weights: ArrayLike | None, n: int) -> Array:
    """Weights of rows, 1 by default."""
    if weights is None:
        return np.ones(n)
    checked = np.asarray(weights, dtype=np.float64)
    if checked.shape != (n,) or not np.all((checked >= 0) & (checked < np.inf)):
        raise ValueError(
            f"`sample_weight` must hold {n} finite numbers of at least 0; got shape "
            f"{checked.shape} and smallest value {checked.min(initial=np.inf)}."
        )
    return checked


def times_each(A: Array, thetas: Array) -> Array:
    """A_i θ_i of all tasks."""
    return np.asarray(np.matmul(A, thetas[:, :, None])[:, :, 0])


def quadratic_forms(columns: Array, tasks: Indices, covariances: Array) -> Array:
    """xᵀK_ix of rows of known tasks."""
    return score_covariances(columns, tasks, covariances, covariances[0])[:, 0, 0]


def score_covariances(columns: Array, tasks: Indices, covariances: Array, unseen: Array) -> Array:
    """Covariances (n_rows, n_scores, n_scores) of scores; a new task, -1, has the one `unseen`."""
    q = len(unseen) // columns.shape[1]
    result = np.empty((len(columns), q, q))
    known, new = np.flatnonzero(tasks >= 0), np.flatnonzero(tasks < 0)
    result[new] = _padded_covariances(columns[None, new], unseen[None])[0]
    for some, at, inside in buckets(tasks[known], len(covariances)):
        rows = known[at]
        block = _padded_covariances(columns[rows], covariances[some])
        result[rows[inside]] = block[inside]
    return result


def _padded_covariances(X: Array, covariances: Array) -> Array:
    """Covariances of the scores of each row of each task, (tasks, rows, scores, scores)."""
    n_tasks, n_rows, p = X.shape
    q = covariances.shape[1] // p
    K = covariances.reshape(n_tasks, p, q, p, q)
    result = np.empty((n_tasks, n_rows, q, q))
    for k in range(q):
        for m in range(k + 1):
            block = np.sum((X @ K[:, :, k, :, m]) * X, axis=2)
            result[:, :, k, m] = result[:, :, m, k] = block
    return result


class _Padded(NamedTuple):
    """Rows of tasks of similar size, padded with rows of weight 0."""

    tasks: Indices
    X: Array  # (tasks, rows, columns)
    y: Array  # (tasks, rows)
    weights: Array
    offset: Array  # (tasks, rows, scores)

    def summed(self, slope: Array) -> Array:
        """Weighted sums over rows of columns times slopes, flattened."""
        products = self.X.swapaxes(1, 2) @ (slope * self.weights[:, :, None])
        return np.asarray(products.reshape(len(self.X), -1))


@dataclass(frozen=True, eq=False, kw_only=True)
class GLMRows:
    """Rows of all tasks; a task's parameters are a matrix (columns, scores), flattened."""

    X: Array
    y: Array
    weights: Array
    tasks: Indices
    n_tasks: int
    offset: Array  # (n_rows, n_scores), added to the scores
    family: Family
    intercept: bool  # the last column

    @property
    def n_parameters(self) -> int:
        return int(self.X.shape[1] * self.family.n_scores)

    @cached_property
    def mean_squares(self) -> Array:
        """Weighted mean of the squares of each column, 0 for the intercept."""
        means = self.weights @ self.X**2 / self.weights.sum()
        means[self.X.shape[1] - self.intercept :] = 0.0
        return np.asarray(means)

    @cached_property
    def counts(self) -> Indices:
        """Number of rows of each task, without those of weight 0."""
        return np.bincount(self.tasks[self.weights > 0], minlength=self.n_tasks)

    @cached_property
    def padded(self) -> list[_Padded]:
        X, y, weights, offset = self.X, self.y, self.weights, self.offset
        return [
            _Padded(tasks, X[rows], y[rows], weights[rows] * inside, offset[rows])
            for tasks, rows, inside in buckets(self.tasks, self.n_tasks)
        ]

    def with_family(self, family: Family) -> "GLMRows":
        """Return the rows with another family, and with what does not depend on it."""
        other = replace(self, family=family)
        vars(other)["padded"] = self.padded
        return other

    def around_pooled(self) -> "tuple[GLMRows, Array]":
        """Measure intercepts from the pooled scores: the rows, and what to add to parameters."""
        family = self.family.begun(self.y, self.weights)
        rest = self.y - self.offset[:, 0] if family.link == "identity" else self.y
        shift = family.start(rest, self.weights) * self.intercept
        rows = replace(self, offset=self.offset + shift, family=family)
        return rows, np.append(np.zeros(self.n_parameters - len(shift)), shift)

    def moments(self, precisions: Array | float = 1.0) -> Moments:
        """Sum products of columns and of what the offset leaves of real targets."""
        columns = np.column_stack([self.X, self.y - self.offset[:, 0]])
        weights, n, width = self.weights * precisions, self.n_tasks, columns.shape[1]
        products = np.zeros((n, width, width))
        for tasks, rows, inside in buckets(self.tasks, n):
            weighted = columns[rows] * (weights[rows] * inside)[:, :, None]
            products[tasks] = weighted.swapaxes(1, 2) @ columns[rows]
        used = weights > 0
        logs = np.bincount(self.tasks[used], np.log(weights[used]), n).astype(np.float64)
        return Moments(products, self.counts, logs, self.intercept)

    def responses(self, thetas: Array, shares: Array) -> Array:
        """Scores and shares of the errors of real targets."""
        scores = self._real_scores(thetas)
        return np.asarray(scores + shares * (self.y - scores))

    def expected_squares(self, thetas: Array, covariances: Array | None = None) -> Array:
        """Weighted squared error of each row with a real target, or its posterior mean."""
        squares = (self.y - self._real_scores(thetas)) ** 2
        if covariances is not None:
            squares += quadratic_forms(self.X, self.tasks, covariances)
        return np.asarray(self.weights * squares)

    def _real_scores(self, thetas: Array) -> Array:
        return np.asarray(np.einsum("rp,rp->r", self.X, thetas[self.tasks]) + self.offset[:, 0])

    def log_likelihood(self, thetas: Array, dispersion: float) -> Array:
        return self.totals(thetas, partial(self.family.log_density, dispersion=dispersion))

    def totals(self, thetas: Array, function: Callable[[Array, Array], Array]) -> Array:
        """Weighted sums over rows of a function of targets and scores."""
        result = np.zeros(self.n_tasks)
        for rows, scores in self._scores(thetas):
            result[rows.tasks] = np.einsum("nr,nr->n", rows.weights, function(rows.y, scores))
        return result

    def slopes(self, thetas: Array) -> Array:
        """Gradient of the weighted log density of each task at dispersion 1."""
        result = np.zeros((self.n_tasks, self.n_parameters))
        for rows, scores in self._scores(thetas):
            result[rows.tasks] = rows.summed(self.family.slope(rows.y, scores))
        return result

    def derivatives(self, thetas: Array, covariances: Array | None = None) -> tuple[Array, Array]:
        """Gradient, and minus the second derivatives; averaged if there are covariances."""
        p, q = self.X.shape[1], self.family.n_scores
        slopes = np.zeros((self.n_tasks, p * q))
        bends = np.zeros((self.n_tasks, p, q, p, q))
        for rows, scores in self._scores(thetas):
            if covariances is None:
                slope = self.family.slope(rows.y, scores)
                bend = self.family.curvature(rows.y, scores)
            else:
                K = _padded_covariances(rows.X, covariances[rows.tasks])
                slope, bend = self.family.averaged(rows.y, scores, K)
            slopes[rows.tasks] = rows.summed(slope)
            bend = bend * rows.weights[:, :, None, None]
            flipped = rows.X.swapaxes(1, 2)
            for k in range(q):
                for m in range(k + 1):
                    block = flipped @ (bend[:, :, k, m, None] * rows.X)
                    bends[rows.tasks, :, k, :, m] = bends[rows.tasks, :, m, :, k] = block
        return slopes, bends.reshape(self.n_tasks, p * q, p * q)

    def products(
        self, thetas: Array, covariances: Array | None = None, dispersion: float = 1.0
    ) -> Array:
        """Curvature A_i, bordered by b_i = A_iθ_i + gradient; averaged as in `derivatives`."""
        g, A = self.derivatives(thetas, covariances)
        products = np.zeros((len(A), A.shape[1] + 1, A.shape[1] + 1))
        products[:, :-1, :-1] = A
        products[:, :-1, -1] = products[:, -1, :-1] = g + times_each(A, thetas)
        products /= dispersion
        return products

    @cached_property
    def at_zero(self) -> Array:
        """Return `products` at 0, of a family that bends as this one does near the targets."""
        typical = replace(self, family=self.family.typical)
        return typical.products(np.zeros((self.n_tasks, self.n_parameters)))

    def tilt(self, thetas: Array, covariances: Array, dispersion: float) -> Array:
        """Gradient by θ_i of ½ tr(A_i(θ_i) K_i) for given covariances K_i."""
        result = np.zeros((self.n_tasks, self.n_parameters))
        for rows, scores in self._scores(thetas):
            K = _padded_covariances(rows.X, covariances[rows.tasks])
            result[rows.tasks] = rows.summed(self.family.curvature_slope(rows.y, scores, K))
        return 0.5 / dispersion * result

    def _scores(self, thetas: Array) -> Iterator[tuple[_Padded, Array]]:
        for rows in self.padded:
            matrices = thetas[rows.tasks].reshape(len(rows.tasks), self.X.shape[1], -1)
            yield rows, rows.offset + rows.X @ matrices
