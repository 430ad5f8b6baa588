"""Tethers in a metric: a change of variables, learned or given."""

import cvxpy as cp
import numpy as np
import pytest

from crosslearning.linear import (
    CrossBayesianRidge,
    CrossLogisticRegression,
    CrossLogisticRegressionCV,
    CrossRidge,
    CrossRidgeCV,
    cross_ridge_path,
)
from tests.support.linear_laws import random_data

SDS = np.array([0.3, 2.0, 0.7, 1.5])
COVARIANCE = np.diag(SDS**2) + 0.1
pairs = pytest.mark.parametrize(
    ("estimator", "classes"), [(CrossRidge, 0), (CrossLogisticRegression, 2)]
)


def scaled(model):
    """Parameters of tasks and centre for standardised features."""
    coef = np.vstack(
        [model.coef_.reshape(len(model.tasks_), -1), model.center_coef_.reshape(1, -1)]
    )
    level = (
        np.append(model.intercept_.ravel(), model.center_intercept_) + coef @ model.feature_mean_
    )
    return np.column_stack([coef * model.feature_scale_, level])


@pytest.mark.parametrize("metric", [SDS, COVARIANCE], ids=["deviations", "covariance"])
def test_against_cvxpy(metric):
    data = random_data(0, (12, 9, 10), 3)
    model = data.fitted(CrossRidge(0.4, alpha=0.5, metric=metric))
    Z = np.column_stack([(data.X - model.feature_mean_) / model.feature_scale_, np.ones(31)])
    onto = np.linalg.inv(np.linalg.cholesky(metric if metric.ndim == 2 else np.diag(metric**2)))
    thetas, center = cp.Variable((3, 4)), cp.Variable(4)
    objective, constraints = 0, []
    for i in range(3):
        rows = data.tasks == i
        objective += 0.5 * cp.sum_squares(data.y[rows] - Z[rows] @ thetas[i])
        objective += 0.25 * rows.mean() * cp.sum_squares(thetas[i, :3])
        constraints.append(cp.norm(onto @ (thetas[i] - center)) <= 0.4)
    cp.Problem(cp.Minimize(objective), constraints).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(scaled(model)[:-1], thetas.value, atol=1e-4)
    assert model.kkt_residual_ <= 1e-8


@pairs
@pytest.mark.parametrize("metric", [SDS, COVARIANCE, "learned"], ids=["sds", "matrix", "learned"])
def test_distances_are_in_the_metric(estimator, classes, metric):
    data = random_data(1, (30, 25, 28, 22), 3, classes)
    model = data.fitted(estimator(0.3, metric=metric))
    offsets = scaled(model)[:-1] - scaled(model)[-1]
    lengths = np.linalg.norm(np.linalg.solve(model.metric_, offsets.T), axis=0)
    np.testing.assert_allclose(model.distances_, lengths, atol=1e-9)
    assert model.distances_.max() == pytest.approx(0.3)
    assert model.kkt_residual_ <= 1e-8
    assert model.epsilon_max_ > 0.3


@pairs
def test_the_unit_metric_is_the_standard_one(estimator, classes):
    data = random_data(2, (30, 25, 28), 3, classes)
    standard = data.fitted(estimator(0.3))
    unit = data.fitted(estimator(0.3, metric=np.ones(4)))
    np.testing.assert_allclose(unit.coef_, standard.coef_, atol=1e-6)
    half = data.fitted(estimator(0.6, metric=np.full(4, 0.5)))
    np.testing.assert_allclose(half.coef_, standard.coef_, atol=1e-6)
    np.testing.assert_allclose(half.distances_, 2 * standard.distances_, atol=1e-6)


@pairs
def test_the_ends_do_not_depend_on_the_metric(estimator, classes):
    data = random_data(3, (40, 35, 38), 3, classes)
    for epsilon in (0.0, np.inf):
        models = [data.fitted(estimator(epsilon, metric=m)) for m in ("standard", "learned", SDS)]
        for model in models[1:]:
            np.testing.assert_allclose(model.coef_, models[0].coef_, atol=1e-5)


def test_the_learned_spring_is_the_posterior_mean():
    data = random_data(4, (20,) * 12, 3)
    bayes = data.fitted(CrossBayesianRidge(tol=1e-9))
    assert np.all(bayes.task_sd_ > 0)
    spring = CrossRidge(np.inf, alpha=0.0, stiffness=bayes.noise_sd_**2, metric=bayes.covariance_)
    np.testing.assert_allclose(data.fitted(spring).coef_, bayes.coef_, rtol=0.02, atol=0.01)
    learned = data.fitted(CrossRidge(metric="learned")).metric_
    np.testing.assert_allclose(learned @ learned.T, bayes.covariance_, rtol=0.05, atol=0.01)


def test_tasks_that_do_not_differ_have_a_metric():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(80, 2)), np.repeat(np.arange(4), 20)
    y = X.sum(axis=1) + 1e-3 * np.tile(rng.normal(size=20), 4)
    for model in (CrossRidge(metric="learned"), CrossRidgeCV(n_epsilons=4, cv=2)):
        model.fit(X, y, tasks)
        assert np.all(np.diagonal(model.metric_) > 0)


def test_fit_task_and_path_keep_the_metric():
    data = random_data(5, (20, 15, 18), 3)
    model = data.fitted(CrossRidge(0.4, metric="learned"))
    own = data.tasks == 1
    new = model.fit_task(data.X[own], data.y[own])
    assert new.distances_[0] <= 0.4 * (1 + 1e-9)
    np.testing.assert_allclose(new.coef_[0], model.coef_[1], atol=1e-6)
    path = cross_ridge_path(data.X, data.y, data.tasks, epsilons=[0.1, 0.4], metric="learned")
    np.testing.assert_allclose(path.coef[1], model.coef_, atol=1e-7)
    np.testing.assert_allclose(path.distances.max(axis=1), [0.1, 0.4])


@pytest.mark.parametrize(
    ("estimator", "classes"), [(CrossRidgeCV, 0), (CrossLogisticRegressionCV, 2)]
)
def test_searches_learn_the_metric(estimator, classes):
    data = random_data(6, (20, 15, 18), 2, classes)
    model = data.fitted(estimator(n_epsilons=2, cv=2))
    plain = {CrossRidgeCV: CrossRidge, CrossLogisticRegressionCV: CrossLogisticRegression}
    direct = data.fitted(plain[estimator](model.epsilon_, alpha=model.alpha_, metric="learned"))
    np.testing.assert_allclose(model.coef_, direct.coef_, atol=1e-8)
    assert len(model.alphas_) == 4  # one from the evidence
    assert data.fitted(estimator([1.0], cv=2, alphas=[1.0], metric="standard")).metric_ is None


def test_a_search_does_not_see_the_rows_it_is_judged_by():
    """The metric of a fold is that of its training rows."""
    data = random_data(7, (16, 12, 14), 2)
    folds = [(np.arange(0, 42, 2), np.arange(1, 42, 2))]
    model = data.fitted(CrossRidgeCV(epsilons=[0.5], alphas=[1.0], cv=folds))
    train, test = (data.take(rows) for rows in folds[0])
    alone = train.fitted(CrossRidge(0.5, alpha=1.0, metric="learned"))
    errors = (test.y - alone.predict(test.X, test.tasks)) ** 2
    by_task = [errors[test.tasks == t].mean() for t in range(3)]
    assert model.best_score_ == pytest.approx(-np.mean(by_task), rel=1e-4)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ([1.0, 2.0], "standard deviation for each of the 4"),
        ([1.0, 2.0, 0.0, 1.0], "must be positive"),
        (-np.eye(4), "must be positive"),
        (np.tri(4), "must be positive"),
    ],
)
def test_bad_metrics(metric, message):
    data = random_data(8, (9, 8), 3)
    with pytest.raises(ValueError, match=message):
        data.fitted(CrossRidge(metric=metric))


def test_blocks_need_the_standard_metric():
    data = random_data(8, (9, 8), 3)
    with pytest.raises(ValueError, match="metric='standard'"):
        data.fitted(CrossRidge({"coef": 0.1}, metric="learned"))
