"""Logistic and multinomial losses, one per task."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crosslearning.linear.losses import floored
from crosslearning.linear.rows import buckets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["Logistic", "contrasts"]


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
class Logistic:
    """f_i(θ) = Σ_rows weight · log-loss + ½ Σ_j ridge_ij θ_j².

    The parameters of a task are a matrix of shape (columns, scores), flattened.

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
    ridge : array of shape (n_tasks, n_columns * n_scores)
        Ridge penalties.
    basis : array of shape (n_classes, n_scores)
        See :func:`contrasts`.
    """

    X: NDArray[np.float64]
    classes: NDArray[np.intp]
    weights: NDArray[np.float64]
    tasks: NDArray[np.intp]
    ridge: NDArray[np.float64]
    basis: NDArray[np.float64]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of tasks and number of parameters."""
        n_tasks, n_parameters = self.ridge.shape
        return n_tasks, n_parameters

    @cached_property
    def curvature(self) -> NDArray[np.float64]:
        """Mean second derivative where all classes are equally likely."""
        share = 1.0 / len(self.basis)
        typical = self._squares * share * (1.0 - share) / self.X.shape[1]
        return floored(typical + self.ridge.mean(axis=1))

    @cached_property
    def scale(self) -> float:
        """Bound of the gradient at 0."""
        return float(np.sqrt(self._squares * self._totals).max()) or 1.0

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
            error = bucket.weights[:, :, None] * (_softmax(scores) - bucket.targets)
            slope = bucket.X.transpose(0, 2, 1) @ (error @ self.basis)
            result[bucket.tasks] += slope.reshape(len(slope), -1)
        return result

    def hessian(self, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
        """∇²f_i(θ_i)."""
        n_tasks, p = self.shape
        columns, q = self.X.shape[1], self.basis.shape[1]
        result = np.zeros((n_tasks, columns, q, columns, q))
        for bucket, scores in self._scores(thetas):
            likely = _softmax(scores)
            mean = likely @ self.basis
            for k in range(q):
                for m in range(k + 1):
                    spread = likely @ (self.basis[:, k] * self.basis[:, m])
                    spread -= mean[:, :, k] * mean[:, :, m]
                    spread *= bucket.weights
                    block = bucket.X.transpose(0, 2, 1) @ (spread[:, :, None] * bucket.X)
                    result[bucket.tasks, :, k, :, m] = block
                    result[bucket.tasks, :, m, :, k] = block
        flat = result.reshape(n_tasks, p, p)
        flat[:, np.arange(p), np.arange(p)] += self.ridge
        return flat

    def pooled(self) -> Logistic:
        """Return the loss of all rows as one task."""
        return Logistic(
            self.X,
            self.classes,
            self.weights,
            np.zeros_like(self.tasks),
            self.ridge.sum(axis=0, keepdims=True),
            self.basis,
        )

    @cached_property
    def _totals(self) -> NDArray[np.float64]:
        return np.bincount(self.tasks, self.weights, self.shape[0]).astype(np.float64)

    @cached_property
    def _squares(self) -> NDArray[np.float64]:
        squares = self.weights * np.einsum("rp,rp->r", self.X, self.X)
        return np.bincount(self.tasks, squares, self.shape[0]).astype(np.float64)

    @cached_property
    def _padded(self) -> list[_Padded]:
        one_hot = np.eye(len(self.basis))[self.classes]
        return [
            _Padded(b.tasks, self.X[b.rows], one_hot[b.rows], self.weights[b.rows] * b.inside)
            for b in buckets(self.tasks, self.shape[0])
        ]

    def _scores(self, thetas: NDArray[np.float64]) -> Iterator[tuple[_Padded, NDArray[np.float64]]]:
        """Scores of all classes for the rows of each bucket."""
        for bucket in self._padded:
            matrices = thetas[bucket.tasks].reshape(len(bucket.tasks), self.X.shape[1], -1)
            yield bucket, (bucket.X @ matrices) @ self.basis.T


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    likely: NDArray[np.float64] = np.exp(scores - scores.max(axis=2, keepdims=True))
    likely /= likely.sum(axis=2, keepdims=True)
    return likely
