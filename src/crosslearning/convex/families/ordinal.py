"""Classes that have an order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from crosslearning.convex.families.base import MASSES, NODES, Scored
from crosslearning.tether import Array


@dataclass(frozen=True)
class Ordinal(Scored):
    """Targets 0 ... n_classes - 1, cumulative logit: P(y ≤ k) = expit(thresholds[k] - score).

    Thresholds are common to all tasks. The first one stays, since the intercept moves with it; the
    gaps between them are learned by evidence.
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
        """Number of classes."""
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

    def start(self, y: Array, weights: Array) -> Array:  # noqa: ARG002
        return np.zeros(1)

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
