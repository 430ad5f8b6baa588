"""Overdispersed counts."""

import numpy as np
import pytest
from scipy.stats import nbinom
from statsmodels.discrete.discrete_model import NegativeBinomial as Pooled

from crosslearning import CrossBayesianGLM
from crosslearning.convex.evidence.laplace import laplace_fit
from crosslearning.convex.families import NegativeBinomial, Poisson
from tests.support.evidence_oracles import glm_rows


def counts(seed, n_tasks=40, size=25, sd=0.6, overdispersion=0.8):
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(n_tasks), size)
    x = rng.normal(size=len(tasks))
    mean = np.exp(1.0 + 0.5 * x + sd * rng.normal(size=n_tasks)[tasks])
    rates = rng.gamma(1.0 / overdispersion, overdispersion * mean)
    return x[:, None], rng.poisson(rates).astype(float), tasks


def test_the_density_is_that_of_scipy():
    family, score = NegativeBinomial(0.7), np.array([0.2, 1.0, -0.5])
    y, mean = np.array([0.0, 3.0, 7.0]), np.exp(score)
    expected = nbinom.logpmf(y, 1.0 / 0.7, 1.0 / (1.0 + 0.7 * mean))
    np.testing.assert_allclose(family.log_density(y, score[:, None], 1.0), expected)
    np.testing.assert_allclose(family.variance(mean), nbinom.var(1 / 0.7, 1 / (1 + 0.7 * mean)))


def test_little_overdispersion_is_the_poisson_family():
    y, scores = np.arange(6.0), np.linspace(-1.0, 1.0, 6)[:, None]
    near, poisson = NegativeBinomial(1e-4), Poisson()
    np.testing.assert_allclose(
        near.log_density(y, scores, 1.0), poisson.log_density(y, scores, 1.0), atol=5e-3
    )


def test_the_deviance_compares_log_densities():
    family, y, mean = NegativeBinomial(0.5), np.array([1.0, 4.0]), np.array([2.0, 3.0])
    logs = [family.log_density(y, np.log(m)[:, None], 1.0) for m in (y, mean)]
    np.testing.assert_allclose(family.deviance(y, mean), 2.0 * (logs[0] - logs[1]))


def test_a_pooled_model_agrees_with_statsmodels():
    X, y, tasks = counts(0, sd=0.0)
    columns = np.column_stack([X, np.ones(len(y))])
    fit = laplace_fit(
        glm_rows(columns, y, tasks, 40, NegativeBinomial()), covariance="pooled", tol=1e-8
    )
    pooled = Pooled(y, columns).fit(disp=False)
    np.testing.assert_allclose(fit.center, pooled.params[:2], rtol=0.01)
    assert fit.family.overdispersion == pytest.approx(pooled.params[2], rel=0.01)


def test_variances_and_overdispersion_are_recovered():
    X, y, tasks = counts(1, n_tasks=80)
    model = CrossBayesianGLM("negative-binomial").fit(X, y, tasks)
    assert model.overdispersion_ == pytest.approx(0.8, rel=0.15)
    assert model.task_intercept_sd_ == pytest.approx(0.6, rel=0.25)
    assert model.center_coef_[0] == pytest.approx(0.5, abs=0.1)


def test_intervals_cover_overdispersed_counts():
    X, y, tasks = counts(2)
    train = np.arange(len(y)) % 2 == 0
    model = CrossBayesianGLM("negative-binomial").fit(X[train], y[train], tasks[train])
    lower, upper = model.predict_interval(X[~train], tasks=tasks[~train], coverage=0.9)
    assert 0.87 <= np.mean((lower <= y[~train]) & (y[~train] <= upper)) <= 0.98
    # A second fit does not depend on what the first has learned.
    first = model.overdispersion_
    model.fit(X, np.zeros(len(y)) + (np.arange(len(y)) % 3), tasks)
    assert model.fit(X[train], y[train], tasks[train]).overdispersion_ == first


def test_models_are_saved_and_new_tasks_fitted(tmp_path):
    X, y, tasks = counts(3, n_tasks=10)
    model = CrossBayesianGLM("negative-binomial").fit(X, y, tasks)
    model.save(tmp_path / "model")
    loaded = CrossBayesianGLM.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X, tasks), model.predict(X, tasks))
    new = model.fit_task(X[:25], y[:25], "new")
    assert new.overdispersion_ == model.overdispersion_
    assert new.coef_[0] == pytest.approx(model.coef_[0], abs=0.2)
