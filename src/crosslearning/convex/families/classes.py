"""Two or more classes: logit and softmax, and a cumulative logit for those that have an order."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, logit, ndtri, softmax

from crosslearning.convex.families.base import MASSES, NODES, Family, OneScore
from crosslearning.tether import Array, Indices

_WIDE = 0.25  # sum of the variances of scores from which errors with few nodes exceed 0.001
_FEW, _MANY = 64, 512  # nodes
_AT_ONCE = 2**16  # numbers in temporary arrays, which stay in the cache
_ROUNDING, _TINY = 1e-13, 1e-200  # added to covariances, so that they are positive definite


@cache
def contrasts(n_classes: int) -> Array:
    """Return the map from parameters to class scores, shape (n_classes, n_scores).

    Two classes have one score, that of the second. More have scores that add up to 0, in
    orthonormal coordinates: Helmert's, each class against the mean of those before it.
    """
    if n_classes == 2:
        return np.array([[0.0], [1.0]])
    before = np.arange(1.0, n_classes)
    against = np.triu(np.ones((n_classes, n_classes - 1)))
    against[np.arange(1, n_classes), np.arange(n_classes - 1)] = -before
    return np.asarray(against / np.sqrt(before * (before + 1.0)))


@dataclass(frozen=True)
class Bernoulli(OneScore):
    """Targets 0 and 1, logit link."""

    name, words, link, by_passes = "bernoulli", "two classes", "logit", True
    rule, _remedy, n_classes = "0 or 1", "Encode the classes", 2

    def possible(self, y: Array) -> NDArray[Any]:
        return np.isin(y, (0.0, 1.0))

    def start(self, y: Array, weights: Array) -> Array:
        return np.array([logit((weights @ y + 0.5) / (weights.sum() + 1.0))])

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:  # noqa: ARG002
        return np.asarray(y * scores[..., 0] - np.logaddexp(0.0, scores[..., 0]))

    def derivatives(self, y: Array, score: Array) -> tuple[Array, Array, Array]:
        p = expit(score)
        w = p * expit(-score)
        return y - p, w, w * (1.0 - 2.0 * p)

    def probabilities(self, score: Array, variance: Array) -> Array:
        """Mean probabilities (rows, classes) of classes whose scores are Gaussian."""
        return np.column_stack([self.predictive(sign * score, variance)[0] for sign in (-1.0, 1.0)])

    def mean(self, score: Array) -> Array:
        return np.asarray(expit(score))

    def variance(self, mean: Array) -> Array:
        return mean * (1.0 - mean)

    def deviance(self, y: Array, mean: Array) -> Array:
        return np.asarray(-2.0 * np.log(np.where(y > 0, mean, 1.0 - mean)))


@dataclass(frozen=True)
class Multinomial(Family):
    """Targets 0 ... n_classes - 1, at least 3 classes; scores are contrasts between them."""

    n_classes: int
    name, words, link, by_passes = "multinomial", "three or more classes", "logit", True
    rule, _remedy = "numbers of classes", "Encode them"

    @property
    def n_scores(self) -> int:  # type: ignore[override]
        return self.n_classes - 1

    @property
    def basis(self) -> Array:
        """Map from scores to classes, orthonormal."""
        return contrasts(self.n_classes)

    def possible(self, y: Array) -> NDArray[Any]:
        return np.isin(y, np.arange(self.n_classes))

    def start(self, y: Array, weights: Array) -> Array:
        shares = np.bincount(y.astype(np.intp), weights, self.n_classes) + 0.5
        return np.asarray(np.log(shares) @ self.basis)

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:  # noqa: ARG002
        logs = log_softmax(self._classes(scores), axis=0)
        return np.asarray(np.take_along_axis(logs, y.astype(np.intp)[None], axis=0)[0])

    def probabilities(self, scores: Array) -> Array:
        return np.moveaxis(softmax(self._classes(scores), axis=0), 0, -1)

    def _classes(self, scores: Array) -> Array:
        """Scores of the classes, which come first: sums over a short last axis are slow."""
        return np.ascontiguousarray(np.moveaxis(scores @ self.basis.T, -1, 0))

    def predictive(self, scores: Array, covariance: Array) -> Array:
        """Mean probabilities (rows, classes) under Gaussian scores, by quasi-Monte Carlo."""
        means = np.zeros((len(scores), self.n_classes))
        for rows, masses, p in _drawn(self.basis, scores, covariance):
            means[rows] = p @ masses
        return means

    def averaged(self, y: Array, scores: Array, covariance: Array) -> tuple[Array, Array]:
        k, q, B, flat = self.n_classes, self.n_scores, self.basis, y.ravel().astype(np.intp)
        means, products = np.zeros((len(flat), k)), np.zeros((len(flat), k, k))
        for rows, masses, p in _drawn(B, scores.reshape(-1, q), covariance.reshape(-1, q, q)):
            means[rows], products[rows] = p @ masses, (p * masses) @ p.swapaxes(1, 2)
        slope = (np.eye(k)[flat] - means) @ B
        bend = B.T @ (means[:, :, None] * np.eye(k) - products) @ B
        return slope.reshape(scores.shape), bend.reshape(covariance.shape)

    def slope(self, y: Array, scores: Array) -> Array:
        one_hot = np.eye(self.n_classes)[y.astype(np.intp)]
        return np.asarray((one_hot - self.probabilities(scores)) @ self.basis)

    def curvature(self, y: Array, scores: Array) -> Array:  # noqa: ARG002
        p, B = self.probabilities(scores), self.basis
        mean, pairs = p @ B, (B[:, :, None] * B[:, None, :]).reshape(len(B), -1)
        squares = (p @ pairs).reshape(*mean.shape, -1)
        return np.asarray(squares - mean[..., :, None] * mean[..., None, :])

    def curvature_slope(self, y: Array, scores: Array, covariance: Array) -> Array:  # noqa: ARG002
        p, B = self.probabilities(scores), self.basis
        variances = np.einsum("kq,...qs,ks->...k", B, covariance, B, optimize=True)
        by_class = variances - 2.0 * ((p @ B)[..., None, :] @ covariance)[..., 0, :] @ B.T
        mean = np.sum(p * by_class, axis=-1, keepdims=True)
        return np.asarray((p * (by_class - mean)) @ B)


@cache
def normal_nodes(dimension: int, n_nodes: int) -> tuple[Array, Array]:
    """Points and masses that stand for a standard normal distribution, with covariance I.

    Antithetic pairs of a Kronecker sequence with powers of the generalised golden ratio. Every
    other point is twice as far out, with less mass, for the sake of improbable classes.
    """
    ratio = np.roots([1.0, *np.zeros(dimension - 1), -1.0, -1.0]).real.max()
    steps, number = ratio ** -np.arange(1.0, dimension + 1.0), np.arange(n_nodes // 2)
    half = (1.0 + number % 2)[:, None] * ndtri((0.5 + np.outer(number, steps)) % 1.0)
    points = np.vstack([half, -half])
    masses = 1.0 / (1.0 + 2.0**-dimension * np.exp(0.375 * np.sum(points**2, axis=1)))
    masses /= masses.sum()
    root = np.linalg.cholesky(points.T @ (masses[:, None] * points))
    return np.asarray(np.linalg.solve(root, points.T).T), masses


def _drawn(basis: Array, scores: Array, K: Array) -> Iterator[tuple[Indices, Array, Array]]:
    """Yield some rows at a time, masses, and probabilities (rows, classes, nodes).

    The first coordinates of a node are contrasts between the likeliest classes, so that nothing
    depends on how classes are numbered. Wide distributions of scores need more nodes.
    """
    k, q = basis.shape
    wide = np.einsum("rqq->r", K) > _WIDE
    for rows, n_nodes in ((np.flatnonzero(~wide), _FEW), (np.flatnonzero(wide), _MANY)):
        (points, masses), middle = normal_nodes(q, n_nodes), scores[rows] @ basis.T
        turn = basis.T @ basis[np.argsort(-middle, axis=-1)]
        turned = turn @ K[rows] @ turn.swapaxes(1, 2)
        least = np.einsum("rqq->r", turned) * _ROUNDING + _TINY
        factor = np.linalg.cholesky(turned + least[:, None, None] * np.eye(q))
        root, size = basis @ turn.swapaxes(1, 2) @ factor, max(_AT_ONCE // (k * n_nodes), 1)
        for start in range(0, len(rows), size):
            some = slice(start, start + size)
            p = (root[some].reshape(-1, q) @ points.T).reshape(-1, k, n_nodes)
            p += middle[some, :, None]
            p -= p.max(axis=1, keepdims=True)
            np.exp(p, out=p)
            p /= p.sum(axis=1, keepdims=True)
            yield rows[some], masses, p


@dataclass(frozen=True)
class Ordinal(Family):
    """Targets 0 ... n_classes - 1, cumulative logit: P(y ≤ k) = expit(thresholds[k] - score).

    The first threshold stays, since the intercept moves with it; gaps are learned by evidence.
    """

    thresholds: tuple[float, ...]
    name, words, link, parameters = "ordinal", "ordered classes", "logit", ("thresholds_",)
    rule, _remedy = "numbers of classes", "Encode them"

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> Self:
        """Take thresholds of a fit, or evenly spaced ones before it."""
        evenly = np.arange(len(attributes["classes_"]) - 1.0)
        return cls(tuple(map(float, attributes.get("thresholds_", evenly))))

    @property
    def n_classes(self) -> int:
        return len(self.thresholds) + 1

    def begun(self, y: Array, weights: Array) -> Self:
        shares = np.bincount(y.astype(np.intp), weights, self.n_classes) + 0.5
        below = np.cumsum(shares)[:-1] / shares.sum()
        return replace(self, thresholds=tuple(map(float, logit(below))))

    @property
    def shape(self) -> Array:
        return np.log(np.diff(self.thresholds))

    def with_shape(self, shape: Array) -> Self:
        first, gaps = self.thresholds[0], np.exp(shape)
        return replace(self, thresholds=(first, *map(float, first + np.cumsum(gaps))))

    def possible(self, y: Array) -> NDArray[Any]:
        return np.isin(y, np.arange(self.n_classes))

    def _ends(self, y: Array, score: Array) -> tuple[Array, Array]:
        """Thresholds above and below each class, less the score."""
        ends = np.concatenate([[-np.inf], self.thresholds, [np.inf]])
        number = y.astype(np.intp)
        return ends[number + 1] - score, ends[number] - score

    def log_density(self, y: Array, scores: Array, dispersion: float) -> Array:  # noqa: ARG002
        upper, lower = self._ends(y, scores[..., 0])
        # expit(u) - expit(l) = expit(u) expit(-l) (1 - exp(l - u)), without cancellation.
        gap = np.log(-np.expm1(lower - upper))
        return np.asarray(gap - np.logaddexp(0.0, -upper) - np.logaddexp(0.0, lower))

    def derivatives(self, y: Array, score: Array) -> tuple[Array, Array, Array]:
        u, l = (expit(end) for end in self._ends(y, score))  # noqa: E741
        bends = u * (1.0 - u), l * (1.0 - l)
        third = -bends[0] * (1.0 - 2.0 * u) - bends[1] * (1.0 - 2.0 * l)
        return u + l - 1.0, bends[0] + bends[1], third

    def threshold_curvatures(self, y: Array, score: Array, weights: Array) -> tuple[Array, Array]:
        """Minus second derivatives of the log density by thresholds, without the first of them.

        By the score and a threshold, of each row; and by two thresholds, summed over the rows.
        """
        upper, lower = self._ends(y, score)
        by_upper, by_lower = (expit(end) * expit(-end) for end in (upper, lower))
        both = np.exp(lower - upper) / np.expm1(lower - upper) ** 2
        number, n = y.astype(np.intp), self.n_classes + 1
        with_score, together = np.zeros((len(y), n)), np.zeros((n, n))
        rows = np.arange(len(y))
        with_score[rows, number], with_score[rows, number + 1] = -by_lower, -by_upper
        np.add.at(together, (number, number), weights * (both + by_lower))
        np.add.at(together, (number + 1, number + 1), weights * (both + by_upper))
        np.add.at(together, (number, number + 1), -weights * both)
        together += np.triu(together, 1).T
        return with_score[:, 2:-1], together[2:-1, 2:-1]

    def probabilities(self, score: Array, variance: Array) -> Array:
        """Mean probabilities (rows, classes) of classes whose scores are Gaussian."""
        at = score[:, None] + np.sqrt(variance)[:, None] * NODES
        below = [expit(threshold - at) @ MASSES for threshold in self.thresholds]
        ends = np.column_stack([np.zeros(len(score)), *below, np.ones(len(score))])
        return np.diff(ends, axis=1)
