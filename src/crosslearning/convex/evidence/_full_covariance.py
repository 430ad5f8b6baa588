"""A full covariance between tasks, shrunk towards a diagonal one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from crosslearning.convex.deadline import check_deadline
from crosslearning.convex.evidence._point import VariancePoint
from crosslearning.tether import Array, Flags, Indices


def full_covariance(
    at: Callable[[Array, Array], VariancePoint],
    variances: Array,
    ratio: Array,
    group: Indices,
    *,
    fixed_ratio: Flags,
    tol: float,
    max_iter: int,
) -> tuple[Array, Array, int, bool]:
    """Maximise evidence - κ/2 (log det K + tr K⁻¹), where S = D^½ K D^½.

    D are the variances of the diagonal structure, those of 0 stay 0; κ, the number of parameters
    plus 1, counts as that many tasks that agree with the diagonal. L-BFGS over the Cholesky factor
    of K and log t; `group` holds the number of each parameter's t. Returns a root of S, a vector
    where S is 0, all t, the number of evaluations, and whether the optimiser has converged.
    """
    free = np.flatnonzero(variances > 0)
    n = len(free)
    if not n:
        return np.sqrt(variances), ratio, 0, True
    rows, columns = np.tril_indices(n)
    on_diagonal = rows == columns
    deviations = np.sqrt(variances[free])
    strength = n + 1.0

    def unpacked(x: Array) -> tuple[Array, Array]:
        factor = np.zeros((n, n))
        entries = x[: len(rows)]
        factor[rows, columns] = np.where(on_diagonal, np.exp(entries), entries)
        root = np.zeros((len(variances), len(variances)))
        root[np.ix_(free, free)] = deviations[:, None] * factor
        return factor, root

    def negative(x: Array) -> tuple[float, Array]:
        check_deadline()
        factor, root = unpacked(x)
        t = np.exp(x[len(rows) :])
        point = at(root, t[group])
        inverse = solve_triangular(factor, np.eye(n), lower=True)
        prior = -strength * (np.log(np.diagonal(factor)).sum() + 0.5 * np.sum(inverse**2))
        pull = strength * (inverse.T @ inverse - np.eye(n)) @ inverse.T
        slopes = deviations[:, None] * (point.slope_of_covariance @ root)[np.ix_(free, free)]
        slope = (2.0 * slopes + pull)[rows, columns]
        slope = np.where(on_diagonal, slope * factor[rows, columns], slope)
        by_ratio = np.where(fixed_ratio, 0.0, np.bincount(group, point.slope_of_ratio, len(t)) * t)
        return -(point.value + prior), -np.append(slope, by_ratio)

    start = np.append(np.zeros(len(rows)), np.log(ratio))
    try:
        best = minimize(
            negative,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_iter, "ftol": 1e-12, "gtol": 1e3 * tol},
        )
    except np.linalg.LinAlgError:  # rows leave no noise, and S grows beyond rounding
        return np.sqrt(variances), ratio, 1, True
    ratio = np.exp(best.x[len(rows) :])
    return unpacked(best.x)[1], ratio, int(best.nfev), bool(best.success)
