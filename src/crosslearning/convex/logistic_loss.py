"""Logistic and multinomial losses, one per task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crosslearning.convex._padding import buckets
from crosslearning.convex.losses import floored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["ClassRows", "Logistic", "contrasts", "softmax"]


def contrasts(n_classes: int) -> NDArray[np.float64]:
    """Return the map from parameters to class scores, shape (n_classes, n_scores).

    Two classes have one score, that of the second. More classes have scores that add up to 0, in
    orthonormal coordinates: distances between parameters are those between the scores' weights.
    """
    if n_classes == 2:
        return np.array([[0.0], [1.0]])
    centred = np.eye(n_classes) - 1.0 / n_classes
    return np.asarray(np.linalg.svd(centred)[0][:, : n_classes - 1])


class _Padded(NamedTuple):
    """Rows of tasks of similar size, padded with rows of weight 0."""

    tasks: NDArray[np.intp]
    X: NDArray[np.float64]  # (tasks, rows, columns)
    targets: NDArray[np.float64]  # (tasks, rows, classes), one-hot
    weights: NDArray[np.float64]  # (tasks, rows)


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Rows of all tasks and their classes: what losses that differ in the ridge term share.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        Rows of all tasks, a column of ones for the intercept among them.
    classes : array of int of shape (n_rows,)
        Class of each row.
    weights : array of shape (n_rows,)
        Weight of each row.
    tasks : array of int of shape (n_rows,)
        Task of each row.
    n_tasks : int
        Number of tasks.
    basis : array of shape (n_classes, n_scores)
        See :func:`contrasts`.
    """

    X: NDArray[np.float64]
    classes: NDArray[np.intp]
    weights: NDArray[np.float64]
    tasks: NDArray[np.intp]
    n_tasks: int
    basis: NDArray[np.float64]

    @cached_property
    def totals(self) -> NDArray[np.float64]:
        """Sum of the weights of each task."""
        return np.bincount(self.tasks, self.weights, self.n_tasks).astype(np.float64)

    @cached_property
    def squares(self) -> NDArray[np.float64]:
        """Weighted sum of squares of all columns of each task."""
        squares = self.weights * np.einsum("rp,rp->r", self.X, self.X)
        return np.bincount(self.tasks, squares, self.n_tasks).astype(np.float64)

    @cached_property
    def padded(self) -> list[_Padded]:
        """Return the rows task by task."""
        one_hot = np.eye(len(self.basis))[self.classes]
        return [
            _Padded(b.tasks, self.X[b.rows], one_hot[b.rows], self.weights[b.rows] * b.inside)
            for b in buckets(self.tasks, self.n_tasks)
        ]


@dataclass(frozen=True, eq=False)
class Logistic:
    """f_i(θ) = Σ_rows weight · log-loss + ½ Σ_j ridge_ij θ_j².

    The parameters of a task are a matrix of shape (columns, scores), flattened.

    Parameters
    ----------
    rows : ClassRows
        The rows.
    ridge : array of shape (n_tasks, n_columns * n_scores)
        Ridge penalties.
    """

    rows: ClassRows
    ridge: NDArray[np.float64]

    @classmethod
    def of_rows(
        cls,
        X: NDArray[np.float64],
        y: NDArray[np.intp],
        weights: NDArray[np.float64],
        tasks: NDArray[np.intp],
        n_tasks: int,
        *,
        basis: NDArray[np.float64],
    ) -> Logistic:
        """Σ_rows weight · log-loss; arguments as in :class:`ClassRows`."""
        rows = ClassRows(X, y, weights, tasks, n_tasks, basis)
        return cls(rows, np.zeros((n_tasks, X.shape[1] * basis.shape[1])))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of tasks and number of parameters."""
        n_tasks, n_parameters = self.ridge.shape
        return n_tasks, n_parameters

    @cached_property
    def curvature(self) -> NDArray[np.float64]:
        """Mean second derivative where all classes are equally likely."""
        share = 1.0 / len(self.rows.basis)
        typical = self.rows.squares * share * (1.0 - share) / self.rows.X.shape[1]
        return floored(typical + self.ridge.mean(axis=1))

    @cached_property
    def scale(self) -> float:
        """Bound of the gradient at 0."""
        return float(np.sqrt(self.rows.squares * self.rows.totals).max()) or 1.0

    def value(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        """f_i(θ_i)."""
        result: NDArray[np.float64] = 0.5 * np.einsum("np,np->n", self.ridge, thetas**2)
        for bucket, scores in self._scores(thetas):
            top = scores.max(axis=2)
            logs = np.log(np.exp(scores - top[:, :, None]).sum(axis=2)) + top
            logs -= np.einsum("nrk,nrk->nr", bucket.targets, scores)
            result[bucket.tasks] += np.einsum("nr,nr->n", bucket.weights, logs)
        return result

    def gradient(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        """∇f_i(θ_i)."""
        result = self.ridge * thetas
        for bucket, scores in self._scores(thetas):
            error = bucket.weights[:, :, None] * (softmax(scores) - bucket.targets)
            slope = bucket.X.transpose(0, 2, 1) @ (error @ self.rows.basis)
            result[bucket.tasks] += slope.reshape(len(slope), -1)
        return result

    def hessian(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        """∇²f_i(θ_i)."""
        n_tasks, p = self.shape
        basis = self.rows.basis
        columns, q = self.rows.X.shape[1], basis.shape[1]
        result = np.zeros((n_tasks, columns, q, columns, q))
        for bucket, scores in self._scores(thetas):
            likely = softmax(scores)
            mean = likely @ basis
            for k in range(q):
                for m in range(k + 1):
                    spread = likely @ (basis[:, k] * basis[:, m])
                    spread -= mean[:, :, k] * mean[:, :, m]
                    spread *= bucket.weights
                    block = bucket.X.transpose(0, 2, 1) @ (spread[:, :, None] * bucket.X)
                    result[bucket.tasks, :, k, :, m] = block
                    result[bucket.tasks, :, m, :, k] = block
        flat = result.reshape(n_tasks, p, p)
        flat[:, np.arange(p), np.arange(p)] += self.ridge
        return flat

    def with_ridge(self, ridge: NDArray[np.float64]) -> Logistic:
        """Add a ridge term."""
        return replace(self, ridge=self.ridge + ridge)

    def pooled(self) -> Logistic:
        """Return the loss of all rows as one task."""
        rows = replace(self.rows, tasks=np.zeros_like(self.rows.tasks), n_tasks=1)
        return Logistic(rows, self.ridge.sum(axis=0, keepdims=True))

    def _scores(self, thetas: NDArray[np.float64]) -> Iterator[tuple[_Padded, NDArray[np.float64]]]:
        """Scores of all classes for the rows of each bucket."""
        for bucket in self.rows.padded:
            matrices = thetas[bucket.tasks].reshape(len(bucket.tasks), self.rows.X.shape[1], -1)
            yield bucket, (bucket.X @ matrices) @ self.rows.basis.T


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of classes, the last axis, from their scores."""
    likely: NDArray[np.float64] = np.exp(scores - scores.max(axis=-1, keepdims=True))
    likely /= likely.sum(axis=-1, keepdims=True)
    return likely
