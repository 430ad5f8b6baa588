"""Predictions of linear models, for estimators and for stored models alike.

A row has Gaussian scores, from the posterior of its task's parameters; means and probabilities of
targets are averages over them. Intervals follow from these, or from errors of held-out rows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import ndtri, softmax

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
from crosslearning.tether import Array, Flags, Indices

_AT_ONCE = 2**16  # rows
_COVERAGES = (0.5, 0.8, 0.9, 0.95)
_FEWEST = 40  # rows of a group: fewer have no quantiles that 95 % lie between
_N_GROUPS = (1, 2, 4, 8, 16, 32)
_MOST_ERRORS = 2001
_SMALLEST = 1e-12  # probability of a class


def linear_scores(attributes: Mapping[str, Any], X: Array, codes: Indices) -> Array:
    """Scores (n_rows, n_scores) by an estimator with these attributes; of code -1 by the centre."""
    return _linear_scores(*_with_center(attributes), X, codes)


def _with_center(attributes: Mapping[str, Any]) -> tuple[Array, Array]:
    """Coefficients (n, n_scores, n_features) and intercepts of tasks, groups and centre."""
    shape = np.atleast_2d(attributes["center_coef_"]).shape

    def stacked(name: str, shape: tuple[int, ...]) -> Array:
        groups = attributes.get(f"group_{name}", ())
        levels = [attributes[name], *groups, attributes[f"center_{name}"]]
        return np.concatenate([np.reshape(level, (-1, *shape)) for level in levels])

    return stacked("coef_", shape), stacked("intercept_", shape[:1])


def _linear_scores(coef: Array, intercept: Array, X: Array, codes: Indices) -> Array:
    # One score at a time: the coefficients of all rows at once could be large.
    scores = [np.einsum("rp,rp->r", X, column[codes]) for column in coef.swapaxes(0, 1)]
    return np.asarray(np.stack(scores, axis=1) + intercept[codes])


@dataclass(frozen=True, eq=False, kw_only=True)
class Predictor:
    """What predictions of a Bayesian linear model need.

    Codes of rows are numbers of tasks; -1 is a new task, larger numbers are new tasks in groups.
    """

    family: Family
    coef: Array  # (n_tasks + 1, n_scores, n_features), the centre last; a score for each class
    intercept: Array
    scaling: Scaling  # from features to the columns that the covariances belong to
    fit_intercept: bool
    task_covariances: Array
    new_task_covariance: Array
    dispersion: float
    target_scale: float  # unit of the scores' standard deviations
    largest_mean: float  # limit of means
    feature_covariance: Array | None = None  # of features of a new task that are guesses

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
            moments = self.family.predictive(score, covariance[:, 0, 0], self.dispersion)
            mean[rows], variance[rows] = moments
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
            K = self.score_covariances(X[rows], codes[rows])
            if isinstance(self.family, Multinomial):
                result[rows] = self.family.predictive(scores @ self.family.basis, K)
            else:
                result[rows] = self.family.probabilities(scores[:, 0], K[:, 0, 0])
        return result


def _chunks(n_rows: int) -> Iterator[slice]:
    return (slice(start, start + _AT_ONCE) for start in range(0, n_rows, _AT_ONCE))


def log_lifts(probabilities: Array, frequencies: Array) -> Array:
    """Logarithms of probabilities over the frequencies of the classes."""
    return np.asarray(np.log(np.maximum(probabilities, _SMALLEST)) - np.log(frequencies))


def blended(weights: Array, predictions: Array, frequencies: Array | None) -> Array:
    """Weighted means over models (and rows); of classes, of log probabilities over frequencies."""
    weights = weights.reshape(len(weights), -1)
    if frequencies is None:
        return np.asarray((weights * predictions).sum(axis=0))
    lifts = (weights[:, :, np.newaxis] * log_lifts(predictions, frequencies)).sum(axis=0)
    return np.asarray(softmax(lifts + np.log(frequencies), axis=1))


def summary(errors: Array) -> Array:
    """Quantiles of errors, at most 2,001 of them."""
    levels = np.linspace(0.0, 1.0, min(len(errors), _MOST_ERRORS))
    return np.asarray(np.quantile(errors, levels, method="inverted_cdf"))


def conformal_quantile(errors: Array, coverage: float) -> float:
    """Return the split-conformal quantile of absolute errors."""
    rank = min(int(np.ceil(coverage * (len(errors) + 1))), len(errors))
    return float(np.sort(errors)[rank - 1])


def weighted_quantiles(values: Array, weights: Array | None, levels: Array) -> Array:
    """Weibull's quantiles: of n sorted values, what is at the position level (n + 1).

    A value of weight w takes the place of w equal ones, exactly so if w is a whole number. Weights
    with a mean below 1 are relative to it.
    """
    if weights is None:
        return np.asarray(np.quantile(values, levels, method="weibull"))
    order = np.argsort(values)
    weights = weights[order] / min(1.0, weights.mean())
    ends = np.cumsum(weights)
    middle, reach = ends - 0.5 * (weights - 1.0), 0.5 * np.maximum(weights - 1.0, 0.0)
    positions = np.column_stack([middle - reach, middle + reach]).ravel()
    at = levels * (ends[-1] + 1.0)
    return np.asarray(np.interp(at, positions, np.repeat(values[order], 2)))


class HeldOut(NamedTuple):
    """Held-out rows; a weight is the number of rows that a row counts like, 1 by default."""

    y: Array
    means: Array
    sds: Array
    weights: Array | None = None

    @classmethod
    def joined(cls, parts: "list[HeldOut]") -> Self:
        """Put parts together, all with weights or all without."""
        y, means, sds = (np.concatenate([part[k] for part in parts]) for k in range(3))
        weights = [part.weights for part in parts if part.weights is not None]
        return cls(y, means, sds, np.concatenate(weights) if weights else None)

    @property
    def n_rows(self) -> float:
        """Number of rows; those of weights above 1 count more."""
        weights = 0.0 if self.weights is None else float(self.weights.sum())
        return max(len(self.y), weights)


@dataclass(frozen=True)
class Coverage:
    """Nominal and observed coverage of intervals on held-out rows."""

    nominal: float
    observed: float


@dataclass(frozen=True, eq=False)
class Residuals:
    """Errors of held-out rows, in groups of similar predictions; interpolated between groups."""

    predictions: Array  # mean of each group, in increasing order
    sds: Array  # root mean squares of predicted standard deviations of rows
    errors: list[Array]  # target minus prediction, in predicted standard deviations
    weights: list[Array] | None = None  # of these errors

    @classmethod
    def of(cls, held_out: HeldOut, n_groups: int, *, symmetric: bool = False) -> "Residuals":
        """Group rows by their predictions; `symmetric` errors count with both signs."""
        y, means, sds, weights = held_out
        resolved = np.finfo(np.float64).eps * np.abs(y).max() + np.finfo(np.float64).tiny
        errors = (y - means) / np.maximum(sds, resolved)
        signs = (1.0, -1.0) if symmetric else (1.0,)
        levels = np.arange(1, n_groups) / n_groups
        edges = np.quantile(means, levels, method="inverted_cdf", weights=weights)
        group = np.searchsorted(np.unique(edges), means)
        groups = [np.flatnonzero(group == k) for k in np.unique(group)]
        of_rows = [None if weights is None else weights[rows] for rows in groups]
        parts = list(zip(groups, of_rows, strict=True))
        return cls(
            np.array([np.average(means[rows], weights=w) for rows, w in parts]),
            np.array([np.sqrt(np.average(sds[rows] ** 2, weights=w)) for rows, w in parts]),
            [np.concatenate([sign * errors[rows] for sign in signs]) for rows in groups],
            None if weights is None else [np.tile(weights[rows], len(signs)) for rows in groups],
        )

    def ends(self, mean: Array, sd: Array, in_fit: Flags, coverage: float) -> tuple[Array, Array]:
        """Return ends of intervals with equal tails, given a model's predictions.

        A row of a new task, not `in_fit`, has the errors of the tasks of the fit and, independent
        of them, the normal deviation of its task.
        """
        tails = np.array([0.5 * (1.0 - coverage), 0.5 * (1.0 + coverage)])
        quantiles = np.array([weighted_quantiles(*group, tails) for group in self._groups])
        within, between = self._parts(mean, sd, in_fit)
        reach_between = ndtri(tails[1]) * between
        below, above = (
            np.hypot(within * np.maximum(self._at(mean, reach), 0.0), reach_between)
            for reach in (-quantiles[:, 0], quantiles[:, 1])
        )
        return mean - below, mean + above

    def std(self, mean: Array, sd: Array, in_fit: Flags) -> Array:
        """Return the root mean squares of the errors that intervals are made of."""
        within, between = self._parts(mean, sd, in_fit)
        squares = [np.average(errors**2, weights=weights) for errors, weights in self._groups]
        return np.hypot(within * self._at(mean, np.sqrt(squares)), between)

    @property
    def _groups(self) -> list[tuple[Array, Array | None]]:
        """Errors and weights of each group."""
        weights: list[Any] = self.weights or [None] * len(self.errors)
        return list(zip(self.errors, weights, strict=True))

    def _parts(self, mean: Array, sd: Array, in_fit: Flags) -> tuple[Array, Array]:
        """Divide standard deviations: within tasks of the fit, and of new tasks beyond that."""
        within = np.where(in_fit, sd, np.minimum(sd, self._at(mean, self.sds)))
        return within, np.sqrt(sd**2 - within**2)

    def _at(self, mean: Array, values: Array) -> Array:
        return np.interp(mean, self.predictions, values)


def calibrated(splits: list[HeldOut], least: float) -> tuple[Residuals, list[Coverage]]:
    """Group held-out rows so that intervals are best; and the coverage of these, by level.

    Intervals of a split come from the errors of the others and end at the `least` possible target.
    Their score is the width, and 2 / (1 - coverage) times the distance of a target outside.
    """
    everything = HeldOut.joined(splits)
    if len(splits) < 2:
        return Residuals.of(everything, 1, symmetric=True), []
    n_others = everything.n_rows - max(split.n_rows for split in splits)
    groupings = [(1, True), *((n, False) for n in _N_GROUPS if n * _FEWEST <= n_others)]
    checks = [_checked(splits, least, n, symmetric=symmetric) for n, symmetric in groupings]
    best = int(np.argmin([score for score, _ in checks]))
    n, symmetric = groupings[best]
    return Residuals.of(everything, n, symmetric=symmetric), checks[best][1]


def _checked(
    splits: list[HeldOut], least: float, n_groups: int, *, symmetric: bool
) -> tuple[float, list[Coverage]]:
    """Mean interval score, and coverage at each level."""
    scores, inside = [], []
    for k, (y, means, sds, _) in enumerate(splits):
        rest = HeldOut.joined(splits[:k] + splits[k + 1 :])
        others = Residuals.of(rest, n_groups, symmetric=symmetric)
        for level in _COVERAGES:
            in_fit = np.ones(len(y), dtype=bool)
            low, high = np.maximum(others.ends(means, sds, in_fit, level), least)
            outside = np.maximum(np.maximum(low - y, y - high), 0.0)
            scores.append(high - low + 2.0 / (1.0 - level) * outside)
            inside.append(outside == 0.0)
    weights, n_levels = HeldOut.joined(splits).weights, len(_COVERAGES)

    def means_of(parts: list[Any]) -> list[float]:
        by_level = [np.concatenate(parts[m::n_levels]) for m in range(n_levels)]
        return [float(np.average(rows, weights=weights)) for rows in by_level]

    coverage = list(map(Coverage, _COVERAGES, means_of(inside)))
    return float(np.mean(means_of(scores))), coverage
