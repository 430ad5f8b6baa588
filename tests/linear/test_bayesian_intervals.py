"""Predictive intervals and deviations: coverage, and rows left out one by one."""

import numpy as np
import pytest

from crosslearning.linear import (
    CrossBayesianRidge,
)
from tests.support.hierarchical import covered, scaled_columns, simulated


@pytest.mark.parametrize("method", ["evidence", "conformal"])
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_coverage_of_seen_and_unseen_tasks(method, coverage):
    X, _, y, tasks = simulated(7, n_tasks=300, n=14)
    known = (tasks < 200) & (np.arange(len(y)) % 14 < 7)
    model = CrossBayesianRidge().fit(X[known], y[known], tasks[known])
    for rows in ((tasks < 200) & ~known, tasks >= 200):
        interval = model.predict_interval(X[rows], tasks[rows], coverage=coverage, method=method)
        assert covered(interval, y[rows]) == pytest.approx(coverage, abs=0.035)


def test_conformal_intervals_hold_where_the_model_is_wrong():
    X, score, _, tasks = simulated(8, n_tasks=200, n=20)
    rng = np.random.default_rng(0)
    y = score + rng.standard_t(1.5, size=len(score))
    known = np.arange(len(y)) % 20 < 10
    model = CrossBayesianRidge().fit(X[known], y[known], tasks[known])
    by_method = {
        method: covered(model.predict_interval(X[~known], tasks[~known], method=method), y[~known])
        for method in ("evidence", "conformal")
    }
    assert by_method["conformal"] == pytest.approx(0.9, abs=0.02)
    assert abs(by_method["evidence"] - 0.9) > 0.04


def test_left_out_rows_without_fitting_again():
    X, _, y, tasks = simulated(9, n_tasks=8, n=6)
    model = CrossBayesianRidge(covariance="block").fit(X, y, tasks)
    Z, S = scaled_columns(model, X), model.covariance_
    prior = model.center_sd_[0] ** 2 * np.diag([1.0, 1.0, 0.0]) + 1e8 * np.diag([0.0, 0.0, 1.0])
    V = Z @ prior @ Z.T + (tasks[:, None] == tasks) * (Z @ S @ Z.T)
    V += model.noise_sd_**2 * np.eye(len(y))
    errors = np.empty(len(y))
    for r in range(len(y)):
        keep = np.arange(len(y)) != r
        gain = np.linalg.solve(V[np.ix_(keep, keep)], V[keep, r])
        mean = y.mean() + gain @ (y[keep] - y.mean())
        errors[r] = abs(y[r] - mean) / np.sqrt(V[r, r] - gain @ V[keep, r])
    np.testing.assert_allclose(model.calibration_, np.sort(errors), rtol=1e-4)


def test_standard_deviations_of_unseen_tasks_hold_the_spread():
    X, _, y, tasks = simulated(10)
    model = CrossBayesianRidge().fit(X, y, tasks)
    mean, sd = model.predict(X[:5], [99] * 5, return_std=True)
    np.testing.assert_allclose(mean, X[:5] @ model.center_coef_ + model.center_intercept_)
    Z = scaled_columns(model, X[:5])
    spread = np.einsum("rp,pq,rq->r", Z, model.covariance_ + model.center_covariance_, Z)
    np.testing.assert_allclose(sd, np.sqrt(spread + model.noise_sd_**2))
    assert np.all(sd > model.predict(X[:5], tasks[:5], return_std=True)[1])
