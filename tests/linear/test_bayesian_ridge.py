"""The Bayesian ridge model: exact limits, invariances, known spreads, little data."""

import numpy as np
import pytest

from crosslearning.convex.evidence.posterior import EvidenceStatus
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.datasets import load_hsb82
from crosslearning.linear import (
    CrossBayesianGLM,
    CrossBayesianRidge,
    CrossRidge,
)
from tests.support.hierarchical import scaled_columns, scaled_parameters, simulated
from tests.support.linear_laws import random_data


@pytest.mark.parametrize("covariance", ["block", "diagonal", "full"])
def test_a_loose_bound_is_the_posterior_mean(covariance):
    data = random_data(0, (20, 15, 12, 14, 9), 3)
    free = data.fitted(CrossBayesianRidge(covariance=covariance))
    bounded = data.fitted(CrossBayesianRidge(covariance=covariance, epsilon=2 * free.epsilon_max_))
    np.testing.assert_allclose(bounded.coef_, free.coef_, rtol=0, atol=1e-8)
    tight = data.fitted(
        CrossBayesianRidge(covariance=covariance, epsilon=0.999 * free.epsilon_max_)
    )
    assert not np.allclose(tight.coef_, free.coef_, rtol=0, atol=1e-8)


def test_zero_pools():
    X, _, y, tasks = simulated()
    model = CrossBayesianRidge(epsilon=0.0).fit(X, y, tasks)
    alpha = (model.noise_sd_ / model.center_sd_[0]) ** 2
    pooled = CrossRidge(0.0, alpha=alpha).fit(X, y, tasks)
    np.testing.assert_allclose(model.coef_, pooled.coef_, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, pooled.intercept_, atol=1e-8)
    assert not model.distances_.any()


def test_posterior_mean_is_the_spring_in_the_learned_metric():
    X, _, y, tasks = simulated(3)
    model = CrossBayesianRidge(covariance="diagonal").fit(X, y, tasks)
    Z, S = scaled_columns(model, X), model.covariance_
    center = np.append(
        model.center_coef_ * model.feature_scale_,
        model.center_intercept_ + model.center_coef_ @ model.feature_mean_,
    )
    for i in (0, 7):
        rows = Z[tasks == i]
        gain = S @ rows.T @ np.linalg.inv(rows @ S @ rows.T + model.noise_sd_**2 * np.eye(12))
        own = center + gain @ (y[tasks == i] - rows @ center)
        np.testing.assert_allclose(scaled_parameters(model)[i], own, atol=1e-9)


def test_recovers_how_much_tasks_differ():
    X, _, y, tasks = simulated(4, n_tasks=2000)
    model = CrossBayesianRidge(covariance="diagonal").fit(X, y, tasks)
    np.testing.assert_allclose(model.task_sd_ * [1.0, 3.0], [0.0, 0.5], atol=0.03)
    assert model.task_intercept_sd_ == pytest.approx(1.0, abs=0.04)
    assert model.noise_sd_ == pytest.approx(1.0, abs=0.02)


def test_statistics_stand_for_the_rows():
    X, _, y, tasks = simulated(5)
    names = np.array([f"task {t:02}" for t in tasks])
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    model = CrossBayesianRidge().fit(X, y, names, sample_weight=weights)
    halves = [slice(0, 401), slice(401, None)]
    sums = [Statistics.of(X[h], y[h], names[h], sample_weight=weights[h]) for h in halves]
    for other in (
        CrossBayesianRidge().fit_statistics(sums[0] + sums[1]),
        CrossBayesianGLM().fit_statistics(sums[1] + sums[0]),
        CrossBayesianGLM().fit(X, y, names, sample_weight=weights),
    ):
        assert other.tasks_.tolist() == model.tasks_.tolist()
        for name in ("coef_", "intercept_", "coef_sd_", "task_sd_", "noise_sd_", "distances_"):
            np.testing.assert_allclose(
                getattr(other, name), getattr(model, name), rtol=1e-8, atol=1e-8
            )
    only_sums = CrossBayesianRidge().fit_statistics(sums[0] + sums[1])
    np.testing.assert_allclose(
        only_sums.predict_interval(X, names), model.predict_interval(X, names), rtol=1e-8
    )
    with pytest.raises(ValueError, match="fitted from sums"):
        only_sums.predict_interval(X, names, method="conformal")
    with pytest.raises(ValueError, match="family='gaussian'"):
        CrossBayesianGLM("poisson").fit_statistics(sums[0])


@pytest.mark.parametrize("epsilon", [0.8, np.inf])
def test_units_and_order_do_not_matter(epsilon):
    X, _, y, tasks = simulated(6)
    model = CrossBayesianRidge(epsilon=epsilon).fit(X, y, tasks)
    order = np.random.default_rng(0).permutation(len(y))
    other = CrossBayesianRidge(epsilon=epsilon).fit(
        (X * [1e3, 1e-2] + 4.0)[order], (1e4 * y - 7.0)[order], tasks[order]
    )
    np.testing.assert_allclose(other.coef_ * [1e3, 1e-2] / 1e4, model.coef_, atol=1e-6)
    np.testing.assert_allclose(other.distances_, model.distances_, atol=1e-5)
    np.testing.assert_allclose(
        other.task_sd_ * [1e3, 1e-2] / 1e4, model.task_sd_, rtol=1e-5, atol=1e-8
    )
    assert other.noise_sd_ / 1e4 == pytest.approx(model.noise_sd_, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, np.inf])
def test_fit_task_is_near_a_fit_with_the_task(epsilon):
    X, _, y, tasks = simulated(11, n_tasks=200)
    rest = tasks > 0
    model = CrossBayesianRidge(epsilon=epsilon).fit(X[rest], y[rest], tasks[rest])
    new = model.fit_task(X[~rest], y[~rest], "new")
    full = CrossBayesianRidge(epsilon=epsilon).fit(X, y, tasks)
    np.testing.assert_allclose(new.coef_[0], full.coef_[0], atol=0.02)
    np.testing.assert_allclose(new.coef_sd_[0], full.coef_sd_[0], rtol=0.05, atol=0.005)
    assert new.distances_[0] <= epsilon * (1 + 1e-12)
    assert new.predict(X[:1], ["new"]) == pytest.approx(full.predict(X[:1], [0]), abs=0.1)
    assert model.tasks_.tolist() == list(range(1, 200))


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(slice(0, 1), id="one row"),
        pytest.param(slice(0, 12), id="one task"),
        pytest.param(slice(0, 24), id="two tasks"),
        pytest.param(slice(0, None, 12), id="a row each"),
        pytest.param(slice(0, None, 6), id="fewer rows than parameters"),
    ],
)
def test_little_data(rows):
    X, _, y, tasks = simulated(16)
    X = np.column_stack([X, np.ones(len(X))])  # and a constant column
    model = CrossBayesianRidge().fit(X[rows], y[rows], tasks[rows])
    for label in (tasks[:5] * 0 + tasks[0], [99] * 5):
        mean, sd = model.predict(X[:5], label, return_std=True)
        assert np.isfinite(mean).all()
        assert np.isfinite(sd).all()
    assert np.isfinite(model.coef_sd_).all()


def test_hsb82_is_close_to_what_is_known():
    pupils = load_hsb82()
    model = CrossBayesianRidge().fit(pupils.X, pupils.y, tasks=pupils.tasks)
    assert model.noise_sd_ == pytest.approx(5.95, abs=0.05)
    assert model.task_intercept_sd_ == pytest.approx(1.87, abs=0.1)


@pytest.mark.parametrize("unit", [1e-30, 1e-16])
def test_a_column_of_tiny_numbers_is_of_no_account(unit):
    rng = np.random.default_rng(0)
    tasks, X = np.repeat(np.arange(30), 5), rng.normal(size=(150, 4))
    y = X[:, 0] + rng.normal(size=30)[tasks] + rng.normal(size=150)
    X[:, 2] *= unit
    model = CrossBayesianRidge(standardize=False).fit(X, y, tasks=tasks)
    assert model.status_ == EvidenceStatus.CONVERGED.value
    assert model.center_coef_[0] == pytest.approx(1.0, abs=0.3)
