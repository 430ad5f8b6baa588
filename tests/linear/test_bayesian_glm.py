"""Bayesian models of classes, counts and other targets that are not Gaussian."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from crosslearning.linear import (
    CrossBayesianGLM,
    CrossBayesianLogisticRegression,
)
from tests.support.hierarchical import covered, simulated
from tests.support.linear_laws import random_data


def test_students_noise_ignores_wild_targets():
    X, score, y, tasks = simulated(12)
    wild = np.random.default_rng(0).random(len(y)) < 0.05
    spoiled = np.where(wild, y + 100.0, y)
    robust = CrossBayesianGLM("student").fit(X, spoiled, tasks).predict(X, tasks)
    plain = CrossBayesianGLM("gaussian").fit(X, spoiled, tasks).predict(X, tasks)
    clean = CrossBayesianGLM("gaussian").fit(X, y, tasks).predict(X, tasks)
    assert np.mean((robust - score) ** 2) < 1.3 * np.mean((clean - score) ** 2)
    assert np.mean((plain - score) ** 2) > 10 * np.mean((robust - score) ** 2)


def test_a_constant_column_is_no_column_whatever_the_weights():
    """The weighted mean of a constant is that constant only to rounding."""
    X, _, y, tasks = simulated(12, n_tasks=6, n=25)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    constant = np.column_stack([X, np.full(len(y), 2024.0)])
    for family in ("student", "gaussian"):
        with_it, without = (
            CrossBayesianGLM(family).fit(features, y, tasks, sample_weight=weights)
            for features in (constant, X)
        )
        np.testing.assert_allclose(with_it.coef_[:, :-1], without.coef_, rtol=1e-5, atol=1e-7)


TARGETS = {
    "poisson": lambda mean, rng: rng.poisson(mean),
    "gamma": lambda mean, rng: rng.gamma(2.0, mean / 2.0),
    "tweedie": lambda mean, rng: np.array(
        [rng.gamma(1.0, 1.0, k).sum() for k in rng.poisson(mean)]
    ),
}


@pytest.mark.parametrize("family", TARGETS)
def test_log_link_families(family):
    X, score, _, tasks = simulated(13, n_tasks=120, n=16, sds=(0.0, 0.2, 0.6))
    rng = np.random.default_rng(1)
    exposure = rng.uniform(-1.0, 1.0, len(score))
    mean = np.exp(0.5 * score + exposure)
    y = TARGETS[family](mean, rng).astype(float)
    known = np.arange(len(y)) % 16 < 8
    model = CrossBayesianGLM(family, covariance="block").fit(
        X[known], y[known], tasks[known], sample_offset=exposure[known]
    )
    np.testing.assert_allclose(model.center_coef_, [0.5, -0.25], atol=0.08)
    assert model.task_intercept_sd_ == pytest.approx(0.3, abs=0.08)
    where = {"X": X[~known], "tasks": tasks[~known], "sample_offset": exposure[~known]}
    predicted, sd = model.predict(**where, return_std=True)
    assert np.corrcoef(np.log(predicted), np.log(mean[~known]))[0, 1] > 0.95
    assert np.mean((y[~known] - predicted) ** 2 / sd**2) == pytest.approx(1.0, abs=0.25)
    interval = model.predict_interval(**where, method="conformal")
    assert covered(interval, y[~known]) == pytest.approx(0.9, abs=0.03)
    assert covered(model.predict_interval(**where), y[~known]) > 0.86
    bounded = CrossBayesianGLM(family, covariance="block", epsilon=0.5)
    bounded.fit(X[known], y[known], tasks[known], sample_offset=exposure[known])
    assert bounded.distances_.max() == pytest.approx(0.5)
    assert bounded.kkt_residual_ <= 1e-8


def test_an_offset_is_a_constant():
    X, _, y, tasks = simulated(14)
    offset = np.random.default_rng(0).normal(size=len(y))
    direct = CrossBayesianGLM().fit(X, y - offset, tasks)
    shifted = CrossBayesianGLM().fit(X, y, tasks, sample_offset=offset)
    np.testing.assert_allclose(shifted.coef_, direct.coef_, atol=1e-9)
    np.testing.assert_allclose(
        shifted.predict(X, tasks, sample_offset=offset), direct.predict(X, tasks) + offset
    )
    np.testing.assert_allclose(shifted.calibration_, direct.calibration_)
    new = shifted.fit_task(X[:12], y[:12], sample_offset=offset[:12])
    np.testing.assert_allclose(
        new.coef_, direct.fit_task(X[:12], (y - offset)[:12]).coef_, atol=1e-8
    )


def test_probabilities_are_moderate_and_calibrated():
    X, score, _, tasks = simulated(15, n_tasks=150, n=20, sds=(0.0, 0.5, 1.5))
    y = np.random.default_rng(0).random(len(score)) < expit(score - 2)
    known = np.arange(len(y)) % 20 < 8
    model = CrossBayesianLogisticRegression().fit(X[known], y[known], tasks[known])
    predicted = model.predict_proba(X[~known], tasks[~known])[:, 1]
    pooled = LogisticRegression().fit(X[known], y[known]).predict_proba(X[~known])[:, 1]
    own = y[~known]
    losses = [-np.mean(np.log(np.where(own, p, 1 - p))) for p in (predicted, pooled)]
    assert losses[0] < losses[1]
    for low, high in ((0.0, 0.3), (0.3, 0.7), (0.7, 1.0)):
        bin_ = (predicted >= low) & (predicted < high)
        assert own[bin_].mean() == pytest.approx(predicted[bin_].mean(), abs=0.05)
    codes = tasks[~known]
    linear = np.sum(X[~known] * model.coef_[codes, 0], axis=1) + model.intercept_[codes, 0]
    plug_in = expit(linear)
    assert np.all(np.abs(predicted - 0.5) <= np.abs(plug_in - 0.5) + 1e-12)


def test_three_classes_do_not_depend_on_their_order():
    data = random_data(3, (40, 30, 35, 25), 2, 3)
    model = data.fitted(CrossBayesianLogisticRegression(epsilon=1.0))
    turned = CrossBayesianLogisticRegression(epsilon=1.0).fit(data.X, 2 - data.y, data.tasks)
    predicted = model.predict_proba(data.X, data.tasks)
    np.testing.assert_allclose(
        predicted, turned.predict_proba(data.X, data.tasks)[:, ::-1], atol=1e-5
    )
    np.testing.assert_allclose(predicted.sum(axis=1), 1.0)
    np.testing.assert_allclose(model.coef_sd_, turned.coef_sd_[:, ::-1], rtol=1e-4)
    np.testing.assert_allclose(model.coef_.sum(axis=1), 0.0, atol=1e-9)


def test_counts_that_vary_more_than_poisson_do_not_make_tasks_differ():
    rng = np.random.default_rng(3)
    tasks = np.repeat(np.arange(40), 40)
    X = rng.normal(size=(1600, 2))
    mean = np.exp(3.0 + 0.3 * X[:, 0])
    dispersion = 20.0
    y = rng.negative_binomial(mean / (dispersion - 1.0), 1.0 / dispersion)
    model = CrossBayesianGLM("poisson").fit(X, y, tasks=tasks)
    assert model.noise_sd_**2 == pytest.approx(dispersion, rel=0.3)
    assert np.max(np.append(model.task_sd_, model.task_intercept_sd_)) < 0.15
    predicted = model.predict(X, tasks=tasks)
    assert np.mean((np.log(predicted) - np.log(mean)) ** 2) < 0.02
    # Poisson's variance alone would find every task to be different.
    lower, upper = model.predict_interval(X, tasks=tasks, method="conformal")
    assert np.all((lower % 1 == 0) & (upper % 1 == 0) & (lower >= 0))
    assert covered((lower, upper), y) == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize("family", TARGETS)
def test_an_exponential_does_not_extrapolate_wildly(family):
    X, score, _, tasks = simulated(13, n_tasks=10, n=16, sds=(0.0, 0.2, 0.6))
    rng = np.random.default_rng(1)
    exposure = rng.uniform(-1.0, 1.0, len(score))
    y = TARGETS[family](np.exp(0.5 * score + exposure), rng).astype(float) + (family == "gamma")
    model = CrossBayesianGLM(family, covariance="levels")
    model.fit(X, y, tasks, sample_offset=exposure)
    far = np.array([[50.0, -50.0]])
    mean, sd = model.predict(far, tasks[:1], sample_offset=[0.7], return_std=True)
    most = 1.25 * np.max(y * np.exp(-exposure)) * np.exp(0.7)
    assert mean[0] == pytest.approx(most)
    assert 0 < sd[0] < np.inf
    near = model.predict(X, tasks, sample_offset=exposure)
    assert np.mean(near < model.largest_mean_ * np.exp(exposure)) > 0.99


@pytest.mark.parametrize("family", ["classes", "counts"])
def test_expected_targets_add_up_to_the_observed_ones(family):
    """Averages over the posterior at its mode would be too near to 1/2, and too large."""
    X, score, _, tasks = simulated(n_tasks=40, n=8, sds=(0.0, 0.3, 1.0))
    rng, score = np.random.default_rng(1), 0.5 * score
    if family == "counts":
        y, model = rng.poisson(np.exp(score)), CrossBayesianGLM("poisson")
    else:
        y = rng.uniform(size=len(score)) < expit(score + 1.0)
        model = CrossBayesianLogisticRegression()

    def ratio(model):
        model.fit(X, y, tasks=tasks)
        predicted = (
            model.predict(X, tasks=tasks)
            if family == "counts"
            else model.predict_proba(X, tasks=tasks)[:, 1]
        )
        return predicted.sum() / y.sum()

    assert ratio(model) == pytest.approx(1.0, abs=2e-3)
    bounded = model.set_params(epsilon=1e3)  # holds without a force, and so keeps the mode
    assert abs(ratio(bounded) - 1.0) > 5e-3
    assert bounded.kkt_residual_ < 1e-6


def test_a_new_task_is_predicted_as_one_of_the_fit():
    X, score, _, tasks = simulated(n_tasks=60, n=8, sds=(0.0, 0.3, 1.0))
    y = np.random.default_rng(1).poisson(np.exp(0.5 * score))
    model = CrossBayesianGLM("poisson").fit(X, y, tasks=tasks)
    rest, own = tasks > 0, tasks == 0
    other = CrossBayesianGLM("poisson").fit(X[rest], y[rest], tasks=tasks[rest])
    new = other.fit_task(X[own], y[own])
    expected = model.predict(X[own], tasks=tasks[own])
    np.testing.assert_allclose(new.predict(X[own]), expected, rtol=0.01)  # the mode is 2 % away
