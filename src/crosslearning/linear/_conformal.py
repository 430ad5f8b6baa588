"""Studentised leave-one-out errors, without refitting: the variances are kept fixed.

In all functions `score` and `variance` are posterior means and variances of the rows' scores, and
`weight` is the weight of a row relative to its dispersion.
"""

from __future__ import annotations

import numpy as np

from crosslearning.convex.families import OneScore
from crosslearning.convex.sums.rows import Moments, quadratic_forms
from crosslearning.convex.sums.table import TaskTable
from crosslearning.tether import Array

_LEAST = 1e-6  # of what is left of a row's own variance without it


def left_out_rows(
    family: OneScore, y: Array, score: Array, variance: Array, dispersion: Array, weight: Array
) -> Array:
    """Return studentised leave-one-row-out errors."""
    without, sd = left_out_scores(family, y, score, variance, weight / dispersion)
    return _studentised(family, y, without, sd, dispersion)


def left_out_scores(
    family: OneScore, y: Array, score: Array, variance: Array, counts: Array
) -> tuple[Array, Array]:
    """Return means and variances of the scores of rows, each without that row itself."""
    slope, curvature, _ = family.derivatives(y, score)
    rest = np.maximum(1.0 - counts * curvature * variance, _LEAST)
    return score - counts * slope * variance / rest, variance / rest


def left_out_tasks(
    family: OneScore,
    rows: TaskTable,
    columns: Array,
    score: Array,
    dispersion: Array,
    weight: Array,
    center_score: Array,
    center_covariance: Array,
    covariance: Array,
) -> Array:
    """Return studentised leave-one-task-out errors."""
    # g_i is the gradient of the task's log-likelihood, W_i its information about the centre; the
    # centre without the task is β - C₋ᵢ g_i with C₋ᵢ⁻¹ = C⁻¹ - W_i.
    C, p, tasks = center_covariance, columns.shape[1], rows.tasks
    slope, curvature, _ = family.derivatives(rows.y, score)
    steps = np.divide(slope, curvature, out=np.zeros_like(slope), where=curvature > 0)
    counts = weight / dispersion * curvature
    products = Moments.of_rows(
        columns, steps, counts, tasks, rows.n_tasks, intercept=False
    ).products
    A, g = products[:, :p, :p], products[:, :p, p]
    # W = (A⁻¹ + Σ)⁻¹, where A may be singular.
    W = np.linalg.solve(np.eye(p) + A @ covariance, A)
    without = np.linalg.solve((1.0 + _LEAST) * np.eye(p) - C @ W, np.broadcast_to(C, W.shape))
    shift = -np.einsum("npq,nq->np", without, g)
    moved = center_score + np.einsum("rp,rp->r", columns, shift[tasks])
    variance = quadratic_forms(columns, tasks, without + covariance)
    return _studentised(family, rows.y, moved, np.maximum(variance, 0.0), dispersion)


def _studentised(
    family: OneScore, y: Array, score: Array, variance: Array, dispersion: Array
) -> Array:
    mean, sd = family.predictive(score, variance, dispersion)
    return np.asarray(np.abs(y - mean) / np.sqrt(sd))
