"""Intervals and standard deviations from errors of held-out rows.

Only NumPy and one function of SciPy are imported, so that stored models predict at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from crosslearning.tether import Array

_COVERAGES = (0.5, 0.8, 0.9, 0.95)
_FEWEST = 40  # rows of a group: fewer have no quantiles that 95 % lie between
_N_GROUPS = (1, 2, 4, 8, 16, 32)
_MOST_ERRORS = 2001


def summary(errors: Array, weights: Array) -> Array:
    """Quantiles of weighted errors, at most 2,001 of them."""
    used = weights > 0
    levels = np.linspace(0.0, 1.0, min(int(used.sum()), _MOST_ERRORS))
    return np.asarray(
        np.quantile(errors[used], levels, weights=weights[used], method="inverted_cdf")
    )


def conformal_quantile(errors: Array, coverage: float) -> float:
    """Return the split-conformal quantile of absolute errors."""
    rank = min(int(np.ceil(coverage * (len(errors) + 1))), len(errors))
    return float(np.sort(errors)[rank - 1])


class HeldOut(NamedTuple):
    """Targets of held-out rows, their predictions, and the standard deviations of these."""

    y: Array
    means: Array
    sds: Array


@dataclass(frozen=True)
class Coverage:
    """Nominal and observed coverage of intervals on held-out rows."""

    nominal: float
    observed: float


@dataclass(frozen=True, eq=False)
class Residuals:
    """Errors of held-out rows, in groups of similar predictions.

    `predictions` are the mean predictions of the groups, in increasing order, `sds` root mean
    squares of the standard deviations that the model predicts for their rows, and `errors` (target
    minus prediction) are in these. Between two groups, quantiles and mean squares of errors are
    interpolated.
    """

    predictions: Array
    sds: Array
    errors: list[Array]

    @classmethod
    def of(
        cls, y: Array, means: Array, sds: Array, n_groups: int, *, symmetric: bool = False
    ) -> Residuals:
        """Group rows by their predictions; `symmetric` errors count with both signs."""
        resolved = np.finfo(np.float64).eps * np.abs(y).max() + np.finfo(np.float64).tiny
        errors = (y - means) / np.maximum(sds, resolved)
        signs = (1.0, -1.0) if symmetric else (1.0,)
        levels = np.arange(1, n_groups) / n_groups
        edges = np.unique(np.quantile(means, levels, method="inverted_cdf"))
        group = np.searchsorted(edges, means)
        groups = [np.flatnonzero(group == k) for k in np.unique(group)]
        return cls(
            np.array([means[rows].mean() for rows in groups]),
            np.array([np.sqrt(np.mean(sds[rows] ** 2)) for rows in groups]),
            [np.concatenate([sign * errors[rows] for sign in signs]) for rows in groups],
        )

    def ends(
        self, mean: Array, sd: Array, in_fit: NDArray[np.bool_], coverage: float
    ) -> tuple[Array, Array]:
        """Return the ends of intervals, given predictions and standard deviations of a model.

        Both tails have the same probability. A row of a new task, not `in_fit`, has the errors of
        the tasks of the fit and, independent of them, the normal deviation of its task.
        """
        tails = 0.5 * (1.0 - coverage), 0.5 * (1.0 + coverage)
        quantiles = np.array([np.quantile(group, tails, method="weibull") for group in self.errors])
        within, between = self._parts(mean, sd, in_fit)
        reach_between = ndtri(tails[1]) * between
        below, above = (
            np.hypot(within * np.maximum(self._at(mean, reach), 0.0), reach_between)
            for reach in (-quantiles[:, 0], quantiles[:, 1])
        )
        return mean - below, mean + above

    def std(self, mean: Array, sd: Array, in_fit: NDArray[np.bool_]) -> Array:
        """Return the root mean squares of the errors that intervals are made of."""
        within, between = self._parts(mean, sd, in_fit)
        scale = self._at(mean, np.array([np.sqrt(np.mean(group**2)) for group in self.errors]))
        return np.hypot(within * scale, between)

    def _parts(self, mean: Array, sd: Array, in_fit: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Divide standard deviations: within tasks of the fit, and of new tasks beyond that."""
        within = np.where(in_fit, sd, np.minimum(sd, self._at(mean, self.sds)))
        return within, np.sqrt(sd**2 - within**2)

    def _at(self, mean: Array, values: Array) -> Array:
        return np.interp(mean, self.predictions, values)


def calibrated(
    splits: list[tuple[Array, Array, Array]], least: float
) -> tuple[Residuals, list[Coverage]]:
    """Group held-out rows so that intervals are best; and the coverage of these, by level.

    `splits` are the targets, predictions and predicted standard deviations of each. Intervals of a
    split come from the errors of the others and end at the `least` possible target. They are
    compared by the interval score: width, and 2 / (1 - coverage) times the distance of a target
    outside.
    """
    held_out = [HeldOut(*split) for split in splits]
    everything = _joined(held_out)
    if len(held_out) < 2:
        return Residuals.of(*everything, 1, symmetric=True), []
    n_others = len(everything.y) - max(len(split.y) for split in held_out)
    groupings = [(1, True), *((n, False) for n in _N_GROUPS if n * _FEWEST <= n_others)]
    checks = [_checked(held_out, least, n, symmetric=symmetric) for n, symmetric in groupings]
    best = int(np.argmin([score for score, _ in checks]))
    n, symmetric = groupings[best]
    coverage = [Coverage(*pair) for pair in zip(_COVERAGES, checks[best][1], strict=True)]
    return Residuals.of(*everything, n, symmetric=symmetric), coverage


def _checked(
    splits: list[HeldOut], least: float, n_groups: int, *, symmetric: bool
) -> tuple[float, list[float]]:
    """Mean interval score, and coverage at each level."""
    scores, inside = [], []
    for k, (y, means, sds) in enumerate(splits):
        others = Residuals.of(*_joined(splits[:k] + splits[k + 1 :]), n_groups, symmetric=symmetric)
        for level in _COVERAGES:
            in_fit = np.ones(len(y), dtype=bool)
            low, high = np.maximum(others.ends(means, sds, in_fit, level), least)
            outside = np.maximum(np.maximum(low - y, y - high), 0.0)
            scores.append(high - low + 2.0 / (1.0 - level) * outside)
            inside.append(outside == 0.0)
    n = len(_COVERAGES)
    shares = [float(np.concatenate(inside[m::n]).mean()) for m in range(n)]
    return float(np.concatenate(scores).mean()), shares


def _joined(splits: list[HeldOut]) -> HeldOut:
    return HeldOut(*(np.concatenate(values) for values in zip(*splits, strict=True)))
