"""Structures to compare with: levels alone, one model for all, separate models."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from crosslearning.linear import (
    CrossBayesianGLM,
    CrossBayesianLogisticRegression,
    CrossBayesianRidge,
)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(30), 12)
    X = rng.normal(size=(360, 3)) * [1.0, 10.0, 0.1] + 2.0
    slopes = np.array([1.0, 0.1, -5.0]) + rng.normal(size=(30, 3)) * [0.5, 0.05, 5.0]
    y = np.einsum("ij,ij->i", X, slopes[tasks]) + rng.normal(size=30)[tasks]
    return X, y + rng.normal(size=360), tasks


def test_pooled_is_a_single_task(rows):
    X, y, tasks = rows
    pooled = CrossBayesianRidge(covariance="pooled").fit(X, y, tasks=tasks)
    single = CrossBayesianRidge().fit(X, y, tasks=[0] * len(y))
    np.testing.assert_allclose(pooled.coef_, np.tile(single.center_coef_, (30, 1)), rtol=1e-6)
    assert pooled.log_evidence_ == pytest.approx(single.log_evidence_)
    assert not pooled.task_sd_.any()
    assert pooled.task_intercept_sd_ == 0.0
    np.testing.assert_allclose(
        pooled.predict(X, tasks, return_std=True)[1], single.predict(X, return_std=True)[1]
    )


@pytest.mark.parametrize("model", [CrossBayesianRidge, CrossBayesianLogisticRegression])
def test_levels_share_the_coefficients(rows, model):
    X, y, tasks = rows
    target = y if model is CrossBayesianRidge else y > np.median(y)
    fitted = model(covariance="levels").fit(X, target, tasks=tasks)
    assert np.ptp(fitted.coef_, axis=0).max() < 1e-11  # rounding
    assert np.ptp(fitted.intercept_) > 0.1
    assert fitted.structure_ == "levels"


def test_separate_models_are_ridges_of_their_own(rows):
    X, y, tasks = rows
    fitted = CrossBayesianRidge(covariance="separate").fit(X, y, tasks=tasks)
    strength = (fitted.noise_sd_ / fitted.task_sd_[0] / fitted.feature_scale_[0]) ** 2
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    for task in (0, 7):
        own = tasks == task
        alone = Ridge(alpha=strength).fit(Z[own], y[own])
        expected = alone.predict(Z[own])
        np.testing.assert_allclose(fitted.predict(X[own], tasks[own]), expected, atol=0.02)
    assert np.abs(fitted.center_coef_ * fitted.feature_scale_).max() < 1e-3


def test_ends_of_a_family(rows):
    X, y, tasks = rows
    counts = np.random.default_rng(1).poisson(np.exp(np.clip(0.1 * y, -3, 3)))
    models = [
        CrossBayesianGLM("poisson", covariance=end).fit(X, counts, tasks=tasks)
        for end in ("pooled", "levels", "separate")
    ]
    assert [model.structure_ for model in models] == ["pooled", "levels", "separate"]
    assert np.ptp(models[0].predict(np.tile(X[:1], (30, 1)), np.arange(30))) < 1e-11
