"""Predictions of linear models, for estimators and for stored models alike.

A row has Gaussian scores, whose means and covariances follow from the posterior of its task's
parameters. Its target has a mean and a standard deviation, or its classes have probabilities, which
are averages over these scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from crosslearning.convex.families import (
    Bernoulli,
    Family,
    Gaussian,
    Multinomial,
    OneScore,
    Ordinal,
    family_of,
)
from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.rows import score_covariances
from crosslearning.tether import Array, Indices

_AT_ONCE = 2**16  # rows


def linear_scores(attributes: Mapping[str, Any], X: Array, codes: Indices) -> Array:
    """Scores of rows, shape (n_rows, n_scores), by an estimator with these attributes.

    `codes` are the tasks of the rows; -1 is the centre.
    """
    return _linear_scores(*_with_center(attributes), X, codes)


def _with_center(attributes: Mapping[str, Any]) -> tuple[Array, Array]:
    """Coefficients (n_tasks + 1, n_scores, n_features) and intercepts, the centre's last.

    Groups of tasks, if there are any, come between tasks and centre.
    """
    center = np.atleast_2d(attributes["center_coef_"])
    coefs = [attributes["coef_"], *attributes.get("group_coef_", ()), center]
    levels = [attributes["intercept_"], *attributes.get("group_intercept_", ())]
    levels.append(np.reshape(attributes["center_intercept_"], (1, -1)))
    return (
        np.concatenate([coef.reshape(-1, *center.shape) for coef in coefs]),
        np.concatenate([level.reshape(-1, len(center)) for level in levels]),
    )


def _linear_scores(coef: Array, intercept: Array, X: Array, codes: Indices) -> Array:
    # One score at a time: the coefficients of all rows at once could be large.
    scores = [np.einsum("rp,rp->r", X, column[codes]) for column in coef.swapaxes(0, 1)]
    return np.asarray(np.stack(scores, axis=1) + intercept[codes])


@dataclass(frozen=True, eq=False, kw_only=True)
class Predictor:
    """What predictions of a Bayesian linear model need.

    Codes of rows are the numbers of their tasks; -1 is a new task. Of groups within groups, larger
    numbers are new tasks in known groups. `coef` (n_tasks + 1, n_scores, n_features) and
    `intercept` are those of the tasks and, last, of the centre, with a score for each of three or
    more classes. `scaling` leads from features to the columns that the covariances of the
    parameters belong to. `target_scale` is the unit of the scores' standard deviations,
    `largest_mean` a limit of means, and `feature_covariance` that of features of a new task that
    are guesses.
    """

    family: Family
    coef: Array
    intercept: Array
    scaling: Scaling
    fit_intercept: bool
    task_covariances: Array
    new_task_covariance: Array
    dispersion: float
    target_scale: float
    largest_mean: float
    feature_covariance: Array | None = None

    @classmethod
    def of(cls, attributes: Mapping[str, Any], feature_covariance: Array | None = None) -> Self:
        """Take the parameters and fitted attributes of an estimator."""
        family, (coef, intercept) = family_of(attributes), _with_center(attributes)
        covariances, between = attributes["task_covariances_"], attributes["covariance_"]
        between = between.reshape(-1, *covariances.shape[1:])  # of each level
        if groups := attributes.get("group_covariances_"):
            covariances = np.concatenate([covariances, *groups])
        return cls(
            family=family,
            coef=coef,
            intercept=intercept,
            scaling=Scaling(attributes["feature_mean_"], attributes["feature_scale_"]),
            fit_intercept=attributes["fit_intercept"],
            task_covariances=covariances,
            new_task_covariance=attributes["center_covariance_"] + between.sum(axis=0),
            dispersion=attributes["noise_sd_"] ** 2 if family.has_dispersion else 1.0,
            target_scale=attributes.get("target_scale_", 1.0),
            largest_mean=attributes.get("largest_mean_", np.inf),
            feature_covariance=feature_covariance,
        )

    def scores(self, X: Array, codes: Indices) -> Array:
        """Mean scores of rows, shape (n_rows, n_scores)."""
        return _linear_scores(self.coef, self.intercept, X, codes)

    def score_covariances(self, X: Array, codes: Indices) -> Array:
        """Covariances of the scores of rows, shape (n_rows, n_scores, n_scores)."""
        columns = self.scaling.columns(X, intercept=self.fit_intercept)
        result = score_covariances(columns, codes, self.task_covariances, self.new_task_covariance)
        if self.feature_covariance is not None:
            coef = self.coef[-1]
            if isinstance(self.family, Multinomial):
                coef = self.family.basis.T @ coef
            result[codes < 0] += coef @ self.feature_covariance @ coef.T
        return result

    def means(self, X: Array, codes: Indices, offset: Array | None = None) -> Array:
        """Means of targets. Those of real numbers take no covariances."""
        if not isinstance(self.family, Gaussian):
            return self.moments(X, codes, offset)[0]
        scores = self.scores(X, codes)[:, 0]
        return scores if offset is None else scores + offset

    def moments(self, X: Array, codes: Indices, offset: Array | None = None) -> tuple[Array, Array]:
        """Means and standard deviations of targets; an offset is added to the score."""
        assert isinstance(self.family, OneScore)
        offset = np.zeros(len(X)) if offset is None else offset
        mean, variance = np.empty(len(X)), np.empty(len(X))
        for rows in _chunks(len(X)):
            score = self.scores(X[rows], codes[rows])[:, 0] + offset[rows]
            covariance = self.target_scale**2 * self.score_covariances(X[rows], codes[rows])
            mean[rows], variance[rows] = self.family.predictive(
                score, covariance[:, 0, 0], self.dispersion
            )
        exposure = 1.0 if isinstance(self.family, Gaussian) else np.exp(offset)
        # Means beyond the largest one believed are shrunk, and their standard deviations alike.
        positive = np.maximum(mean, np.finfo(np.float64).tiny)
        share = np.minimum(1.0, self.largest_mean * exposure / positive)
        return share * mean, share * np.sqrt(variance)

    def probabilities(self, X: Array, codes: Indices) -> Array:
        """Probabilities of the classes, shape (n_rows, n_classes)."""
        assert isinstance(self.family, Bernoulli | Multinomial | Ordinal)
        result = np.empty((len(X), self.family.n_classes))
        for rows in _chunks(len(X)):
            scores = self.scores(X[rows], codes[rows])
            covariances = self.score_covariances(X[rows], codes[rows])
            result[rows] = _class_probabilities(self.family, scores, covariances)
        return result


def _chunks(n_rows: int) -> Iterator[slice]:
    return (slice(start, start + _AT_ONCE) for start in range(0, n_rows, _AT_ONCE))


def _class_probabilities(family: Family, scores: Array, covariances: Array) -> Array:
    """Probabilities of classes, averaged over Gaussian scores."""
    if isinstance(family, Multinomial):
        return family.predictive(scores @ family.basis, covariances)
    score, variance = scores[:, 0], covariances[:, 0, 0]
    if isinstance(family, Ordinal):
        return family.probabilities(score, variance)
    assert isinstance(family, Bernoulli)
    return np.column_stack([family.predictive(sign * score, variance)[0] for sign in (-1.0, 1.0)])


def central_interval(
    family: OneScore, mean: Array, sd: Array, dispersion: float, coverage: float
) -> tuple[Array, Array]:
    """Lower and upper end; of counts and positive targets by matching the first two moments.

    `mean` and `sd` are those of the targets. Both tails have the same probability.
    """
    levels = np.array([[0.5 * (1.0 - coverage)], [0.5 * (1.0 + coverage)]])
    lower, upper = family.quantiles(mean, sd, dispersion, levels)
    return lower, upper


def possible_ends(family: Family, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return ends that such targets can have: not negative, whole counts."""
    return family.possible_ends(lower, upper) if isinstance(family, OneScore) else (lower, upper)
