"""The evidence with a free centre is restricted maximum likelihood: statsmodels agrees."""

import warnings

import numpy as np
import pytest
from statsmodels.regression.mixed_linear_model import MixedLM, MixedLMParams

from crosslearning.convex.evidence.gaussian import GaussianData, evidence_fit
from crosslearning.convex.evidence.search import Structured, maximise
from crosslearning.datasets import load_hsb82
from tests.support.evidence_oracles import Rows


def slopes_and_levels(n_tasks, n, mixing):
    rng = np.random.default_rng(3)
    tasks = np.concatenate([np.arange(n_tasks), rng.integers(n_tasks, size=n - n_tasks)])
    X = np.column_stack([rng.normal(size=n), np.ones(n)])
    thetas = np.array([1.0, -1.0]) + rng.normal(size=(n_tasks, 2)) @ np.transpose(mixing)
    return Rows(X, np.sum(X * thetas[tasks], axis=1) + rng.normal(size=n), tasks, np.ones(n))


def mixed(rows, random, free=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about its own convergence, which is asserted
        fitted = MixedLM(rows.y, rows.X, rows.tasks, exog_re=random).fit(free=free, reml=True)
    assert fitted.converged
    return fitted


def assert_same_fit(fit, fitted, random, rtol=0.01):
    np.testing.assert_allclose(
        fit.task_covariance[np.ix_(random, random)], fitted.cov_re, rtol=rtol, atol=rtol
    )
    assert fit.noise_variance == pytest.approx(fitted.scale, rel=rtol)
    np.testing.assert_allclose(fit.center, fitted.fe_params, rtol=rtol)


def test_random_intercepts_of_schools():
    table = load_hsb82()
    tasks = np.unique(table.tasks, return_inverse=True)[1]
    some = tasks < 40  # of 160: statsmodels takes long
    X, tasks = table.X.to_numpy(dtype=float)[some], tasks[some]
    columns = np.column_stack([(X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X))])
    rows = Rows(columns, table.y.to_numpy(dtype=float)[some], tasks, np.ones(len(X)))
    fitted = mixed(rows, np.ones((len(X), 1)))
    data = GaussianData.of(rows.moments, flat_center=True)
    only_level = np.arange(columns.shape[1]) == columns.shape[1] - 1

    def at(variances):
        return Structured(
            variances, np.append(~only_level, True), np.array([np.arange(4), [4] * 4]), data.at
        )

    start = np.append(0.1 * only_level, 1.0)
    best, _, _ = maximise(at, at(start), np.zeros(5), tol=1e-10, max_iter=50)
    assert best.value == pytest.approx(fitted.llf, abs=1e-3)
    assert best.point.noise == pytest.approx(fitted.scale, rel=1e-3)
    assert best.variances[3] * best.point.noise == pytest.approx(fitted.cov_re.item(), rel=0.01)
    np.testing.assert_allclose(best.point.center.beta, fitted.fe_params, rtol=1e-3)
    assert evidence_fit(rows.moments, "diagonal", flat_center=True).log_evidence >= fitted.llf


def test_variances_that_cannot_be_computed_with_are_worth_nothing():
    """A step there is shortened, though it seemed to gain."""
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(8), 5)
    y = rng.normal(size=8)[tasks] + rng.normal(size=40)
    data = GaussianData.of(Rows(np.ones((40, 1)), y, tasks, np.ones(40)).moments, flat_center=True)

    def upto(largest):
        def at(root, ratio):
            if root[0] ** 2 > largest:
                raise np.linalg.LinAlgError
            return data.at(root, ratio)

        return lambda variances: Structured(
            variances, np.array([False, True]), np.array([[0], [1]]), at
        )

    start, floor = np.array([1e-3, 1.0]), np.zeros(2)
    best = maximise(upto(np.inf), upto(np.inf)(start), floor, tol=1e-10, max_iter=200)[0]
    largest = 0.9 * best.variances[0]
    bounded = maximise(upto(largest), upto(largest)(start), floor, tol=1e-10, max_iter=200)[0]
    assert 0.99 * largest < bounded.variances[0] <= largest
    assert upto(largest)(best.variances).value == -np.inf


def test_random_intercepts_alone():
    rng = np.random.default_rng(0)
    tasks = rng.integers(60, size=500)
    y = 2.0 + 1.5 * rng.normal(size=60)[tasks] + rng.normal(size=500)
    rows = Rows(np.ones((500, 1)), y, np.unique(tasks, return_inverse=True)[1], np.ones(500))
    fitted = mixed(rows, np.ones((500, 1)))
    fit = evidence_fit(rows.moments, "diagonal", flat_center=True)
    assert_same_fit(fit, fitted, [0], rtol=1e-3)
    assert fit.log_evidence == pytest.approx(fitted.llf, abs=1e-3)


def test_independent_random_slopes():
    rows = slopes_and_levels(80, 800, np.diag([0.5, 2.0]))
    free = MixedLMParams.from_components(np.ones(2), np.eye(2))
    fitted = mixed(rows, rows.X, free)
    fit = evidence_fit(rows.moments, "diagonal", flat_center=True)
    assert_same_fit(fit, fitted, [0, 1])
    assert fit.log_evidence == pytest.approx(fitted.llf, abs=1e-2)


def test_correlated_random_slopes():
    rows = slopes_and_levels(400, 2400, [[0.8, 0.0], [1.0, 1.5]])
    fitted = mixed(rows, rows.X)
    fit = evidence_fit(rows.moments, "full", flat_center=True)
    assert_same_fit(fit, fitted, [0, 1])  # the pull to the diagonal is worth 3 tasks of 400
    assert fit.log_evidence == pytest.approx(fitted.llf, abs=0.1)
    assert evidence_fit(rows.moments, "auto", flat_center=True).structure == "full"
