"""Evidence with Student's t noise, which is robust to outliers.

A row's noise is Gaussian with a precision of its own, drawn from a gamma distribution; given the
precisions the model is that of `evidence`. Parameters and precisions take turns (variational
Bayes), which never lowers a bound of the evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np
from scipy.special import digamma, gammaln

from crosslearning.convex.evidence.gaussian import evidence_fit
from crosslearning.convex.evidence.posterior import EvidenceFit, EvidenceStatus, Fit
from crosslearning.convex.evidence.search import SearchOptions
from crosslearning.convex.families import Student
from crosslearning.convex.sums.rows import GLMRows, Moments
from crosslearning.tether import Array

AnyFit = TypeVar("AnyFit", bound=Fit)
_MAX_ROUNDS = 200
_STRUCTURE_ROUNDS = 3  # after which the structure of the covariance stays
_NORMAL = 1.4826  # standard deviation over median absolute deviation


def robust_fit(
    rows: GLMRows, family: Student, task_weights: Array, options: SearchOptions
) -> tuple[EvidenceFit, Moments]:
    """Fit rows with real targets and Student noise: with the bound as evidence, and its moments."""

    def solve(
        moments: Moments, options: SearchOptions, start: EvidenceFit | None
    ) -> tuple[EvidenceFit, Array, Array]:
        fit = evidence_fit(moments, task_weights=task_weights, start=start, **options._asdict())
        return fit, fit.thetas, fit.task_posteriors(moments)[0]

    return reweighted(rows, family, task_weights, options, solve)


def reweighted(
    rows: GLMRows,
    family: Student,
    task_weights: Array,
    options: SearchOptions,
    solve: Callable[[Moments, SearchOptions, AnyFit | None], tuple[AnyFit, Array, Array]],
) -> tuple[AnyFit, Moments]:
    """Let precisions of rows and a Gaussian fit, from the one before, take turns.

    `solve` returns a fit, and the posterior means and covariances of its tasks.
    """
    row_weights = task_weights[rows.tasks] * (rows.weights > 0)
    squares, bound = _robust_squares(rows.y - rows.offset[:, 0]), -np.inf
    last: AnyFit | None = None
    for n in range(_MAX_ROUNDS):
        moments = rows.moments(family.precisions(squares))
        fit, thetas, covariances = solve(moments, options, last)
        last = fit
        previous, bound = bound, fit.log_evidence + float(row_weights @ _charge(family.df, squares))
        if n + 1 >= _STRUCTURE_ROUNDS:
            options = options._replace(covariance=fit.structure)
        if n >= _STRUCTURE_ROUNDS and bound - previous <= 10.0 * options.tol:
            break
        squares = rows.expected_squares(thetas, covariances) / fit.noise_variance
    else:
        fit = replace(fit, status=EvidenceStatus.MAX_ITER)
    return replace(fit, log_evidence=bound), moments


def _robust_squares(y: Array) -> Array:
    """Squared deviations from the median in robust units, to begin with."""
    deviations = np.abs(y - np.median(y))
    unit = _NORMAL * np.median(deviations)
    return np.asarray((deviations / unit) ** 2) if unit > 0 else np.ones(len(y))


def _charge(df: float, squares: Array) -> Array:
    """Return what the bound adds to the evidence at mean precisions: ½(E log τ - log E τ) - KL."""
    shape, rate, prior = 0.5 * (df + 1.0), 0.5 * (df + squares), 0.5 * df
    logs = digamma(shape) - np.log(rate)
    divergence = (
        (shape - prior) * digamma(shape)
        - gammaln(shape)
        + gammaln(prior)
        + prior * (np.log(rate) - np.log(prior))
        + shape * (prior - rate) / rate
    )
    return np.asarray(0.5 * (logs - np.log(shape / rate)) - divergence)
