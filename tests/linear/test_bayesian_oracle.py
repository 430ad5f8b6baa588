"""Bounded Bayesian models against a general conic solver."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.special import expit

from crosslearning.linear import (
    CrossBayesianLogisticRegression,
    CrossBayesianRidge,
)
from tests.support.hierarchical import scaled_columns, scaled_parameters, simulated


def solution_by_cvxpy(model, X, y, tasks, epsilon, log_loss=False):
    """Parameters of tasks and centre that minimise the definition."""
    Z, sd = scaled_columns(model, X), np.sqrt(np.diagonal(model.covariance_))
    free, p = sd > 0, Z.shape[1]
    center, offsets = cp.Variable(p), cp.Variable((len(model.tasks_), p))
    objective = cp.sum_squares(center[: p - 1]) / (2 * model.center_sd_[0] ** 2)
    constraints = [offsets[:, ~free] == 0] if not free.all() else []
    for i, task in enumerate(model.tasks_):
        rows = tasks == task
        score = Z[rows] @ (center + offsets[i])
        if log_loss:
            objective += cp.sum(cp.logistic(score)) - y[rows] @ score
        else:
            objective += cp.sum_squares(y[rows] - score) / (2 * model.noise_sd_**2)
        own = cp.multiply(offsets[i][free], 1 / sd[free])
        objective += 0.5 * cp.sum_squares(own)
        constraints.append(cp.norm(own) <= epsilon)
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return center.value + offsets.value


@pytest.mark.parametrize("epsilon", [0.3, 1.0, np.inf])
@pytest.mark.parametrize("covariance", ["block", "diagonal"])
def test_bounded_ridge_against_cvxpy(epsilon, covariance):
    X, _, y, tasks = simulated(1, n_tasks=6, n=7)
    model = CrossBayesianRidge(epsilon=epsilon, covariance=covariance).fit(X, y, tasks)
    expected = solution_by_cvxpy(model, X, y, tasks, 1e6 if epsilon == np.inf else epsilon)
    np.testing.assert_allclose(scaled_parameters(model), expected, atol=2e-5)
    assert model.kkt_residual_ <= 1e-8
    assert epsilon == np.inf or model.distances_.max() == pytest.approx(epsilon, abs=1e-9)


def test_bounded_logistic_against_cvxpy():
    X, score, _, tasks = simulated(2, n_tasks=5, n=30)
    y = (np.random.default_rng(0).random(len(score)) < expit(score - 2)).astype(float)
    model = CrossBayesianLogisticRegression(epsilon=0.5, covariance="block").fit(X, y, tasks)
    expected = solution_by_cvxpy(model, X, y, tasks, 0.5, log_loss=True)
    slopes = model.coef_[:, 0] * model.feature_scale_
    level = model.intercept_[:, 0] + model.coef_[:, 0] @ model.feature_mean_
    np.testing.assert_allclose(np.column_stack([slopes, level]), expected, atol=1e-4)
    assert model.kkt_residual_ <= 1e-8
