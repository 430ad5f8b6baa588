"""What the Bayesian estimators compute: oracles, exact limits, invariances, coverage."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from crosslearning.convex.posterior import EvidenceStatus
from crosslearning.convex.statistics import Statistics
from crosslearning.datasets import load_hsb82
from crosslearning.linear import (
    CrossBayesianGLM,
    CrossBayesianLogisticRegression,
    CrossBayesianRidge,
    CrossRidge,
)
from tests.support.linear_laws import random_data


def simulated(seed=0, n_tasks=60, n=12, sds=(0.0, 0.5, 1.0), noise=1.0):
    """Rows of tasks with known spreads of two slopes and the intercept."""
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(n_tasks), n)
    X = rng.normal(size=(len(tasks), 2)) * [1.0, 3.0] + [0.0, 5.0]
    slopes = np.array([1.0, -0.5]) + rng.normal(size=(n_tasks, 2)) * sds[:2] / np.array([1.0, 3.0])
    level = 2.0 + sds[2] * rng.normal(size=n_tasks)
    score = np.sum((X - [0.0, 5.0]) * slopes[tasks], axis=1) + level[tasks]
    return X, score, score + noise * rng.normal(size=len(tasks)), tasks


def scaled_columns(model, X):
    return np.column_stack([(X - model.feature_mean_) / model.feature_scale_, np.ones(len(X))])


def scaled_parameters(model):
    slopes = model.coef_ * model.feature_scale_
    return np.column_stack([slopes, model.intercept_ + model.coef_ @ model.feature_mean_])


def held_by_cvxpy(model, X, y, tasks, epsilon, log_loss=False):
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
    expected = held_by_cvxpy(model, X, y, tasks, 1e6 if epsilon == np.inf else epsilon)
    np.testing.assert_allclose(scaled_parameters(model), expected, atol=2e-5)
    assert model.kkt_residual_ <= 1e-8
    assert epsilon == np.inf or model.distances_.max() == pytest.approx(epsilon, abs=1e-9)


def test_bounded_logistic_against_cvxpy():
    X, score, _, tasks = simulated(2, n_tasks=5, n=30)
    y = (np.random.default_rng(0).random(len(score)) < expit(score - 2)).astype(float)
    model = CrossBayesianLogisticRegression(epsilon=0.5, covariance="block").fit(X, y, tasks)
    expected = held_by_cvxpy(model, X, y, tasks, 0.5, log_loss=True)
    slopes = model.coef_[:, 0] * model.feature_scale_
    level = model.intercept_[:, 0] + model.coef_[:, 0] @ model.feature_mean_
    np.testing.assert_allclose(np.column_stack([slopes, level]), expected, atol=1e-4)
    assert model.kkt_residual_ <= 1e-8


@pytest.mark.parametrize("covariance", ["block", "diagonal", "full"])
def test_a_loose_bound_is_the_posterior_mean(covariance):
    data = random_data(0, (20, 15, 12, 14, 9), 3)
    free = data.fitted(CrossBayesianRidge(covariance=covariance))
    held = data.fitted(CrossBayesianRidge(covariance=covariance, epsilon=2 * free.epsilon_max_))
    np.testing.assert_allclose(held.coef_, free.coef_, rtol=0, atol=1e-8)
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


def covered(interval, y):
    return np.mean((interval[0] <= y) & (y <= interval[1]))


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
    errors, by_task = np.empty(len(y)), np.empty(len(y))
    for r in range(len(y)):
        for keep, result in ((np.arange(len(y)) != r, errors), (tasks != tasks[r], by_task)):
            gain = np.linalg.solve(V[np.ix_(keep, keep)], V[keep, r])
            mean = y.mean() + gain @ (y[keep] - y.mean())
            result[r] = abs(y[r] - mean) / np.sqrt(V[r, r] - gain @ V[keep, r])
    np.testing.assert_allclose(model.calibration_["seen"], np.sort(errors), rtol=1e-4)
    np.testing.assert_allclose(model.calibration_["unseen"], np.sort(by_task), rtol=1e-3)


def test_standard_deviations_of_unseen_tasks_hold_the_spread():
    X, _, y, tasks = simulated(10)
    model = CrossBayesianRidge().fit(X, y, tasks)
    mean, sd = model.predict(X[:5], [99] * 5, return_std=True)
    np.testing.assert_allclose(mean, X[:5] @ model.center_coef_ + model.center_intercept_)
    Z = scaled_columns(model, X[:5])
    spread = np.einsum("rp,pq,rq->r", Z, model.covariance_ + model.center_covariance_, Z)
    np.testing.assert_allclose(sd, np.sqrt(spread + model.noise_sd_**2))
    assert np.all(sd > model.predict(X[:5], tasks[:5], return_std=True)[1])


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


def test_students_noise_ignores_wild_targets():
    X, score, y, tasks = simulated(12)
    wild = np.random.default_rng(0).random(len(y)) < 0.05
    spoiled = np.where(wild, y + 100.0, y)
    robust = CrossBayesianGLM("student").fit(X, spoiled, tasks).predict(X, tasks)
    plain = CrossBayesianGLM("gaussian").fit(X, spoiled, tasks).predict(X, tasks)
    clean = CrossBayesianGLM("gaussian").fit(X, y, tasks).predict(X, tasks)
    assert np.mean((robust - score) ** 2) < 1.3 * np.mean((clean - score) ** 2)
    assert np.mean((plain - score) ** 2) > 10 * np.mean((robust - score) ** 2)


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
    np.testing.assert_allclose(shifted.calibration_["seen"], direct.calibration_["seen"])
    new = shifted.fit_task(X[:12], y[:12], sample_offset=offset[:12])
    np.testing.assert_allclose(
        new.coef_, direct.fit_task(X[:12], (y - offset)[:12]).coef_, atol=1e-8
    )


def test_probabilities_are_moderate_and_calibrated():
    X, score, _, tasks = simulated(15, n_tasks=150, n=20, sds=(0.0, 0.5, 1.5))
    y = np.random.default_rng(0).random(len(score)) < expit(score - 2)
    known = np.arange(len(y)) % 20 < 8
    model = CrossBayesianLogisticRegression().fit(X[known], y[known], tasks[known])
    said = model.predict_proba(X[~known], tasks[~known])[:, 1]
    pooled = LogisticRegression().fit(X[known], y[known]).predict_proba(X[~known])[:, 1]
    own = y[~known]
    losses = [-np.mean(np.log(np.where(own, p, 1 - p))) for p in (said, pooled)]
    assert losses[0] < losses[1]
    for low, high in ((0.0, 0.3), (0.3, 0.7), (0.7, 1.0)):
        bin_ = (said >= low) & (said < high)
        assert own[bin_].mean() == pytest.approx(said[bin_].mean(), abs=0.05)
    codes = tasks[~known]
    linear = np.sum(X[~known] * model.coef_[codes, 0], axis=1) + model.intercept_[codes, 0]
    plug_in = expit(linear)
    assert np.all(np.abs(said - 0.5) <= np.abs(plug_in - 0.5) + 1e-12)


def test_three_classes_do_not_depend_on_their_order():
    data = random_data(3, (40, 30, 35, 25), 2, 3)
    model = data.fitted(CrossBayesianLogisticRegression(epsilon=1.0))
    turned = CrossBayesianLogisticRegression(epsilon=1.0).fit(data.X, 2 - data.y, data.tasks)
    said = model.predict_proba(data.X, data.tasks)
    np.testing.assert_allclose(said, turned.predict_proba(data.X, data.tasks)[:, ::-1], atol=1e-5)
    np.testing.assert_allclose(said.sum(axis=1), 1.0)
    np.testing.assert_allclose(model.coef_sd_, turned.coef_sd_[:, ::-1], rtol=1e-4)
    np.testing.assert_allclose(model.coef_.sum(axis=1), 0.0, atol=1e-9)


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


def test_task_weights_count_tasks():
    X, _, y, tasks = simulated(17, n_tasks=8)
    twice = np.concatenate([np.arange(len(y)), np.flatnonzero(tasks == 3)])
    labels = np.where(np.arange(len(twice)) >= len(y), 99, tasks[twice])
    copied = CrossBayesianRidge(covariance="block", tol=1e-9).fit(X[twice], y[twice], labels)
    weighted = CrossBayesianRidge(
        covariance="block", tol=1e-9, standardize=False, task_weights={3: 2.0}
    )
    Z = (X - copied.feature_mean_) / copied.feature_scale_
    weighted.fit(Z, y, tasks)
    np.testing.assert_allclose(
        weighted.center_coef_ / copied.feature_scale_, copied.center_coef_, rtol=1e-4
    )
    assert weighted.noise_sd_ == pytest.approx(copied.noise_sd_, rel=1e-4)


def test_hsb82_is_quick_and_close_to_what_is_known():
    pupils = load_hsb82()
    model = CrossBayesianRidge().fit(pupils.X, pupils.y, tasks=pupils.tasks)
    assert model.noise_sd_ == pytest.approx(5.95, abs=0.05)
    assert model.task_intercept_sd_ == pytest.approx(1.87, abs=0.1)


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
        said = (
            model.predict(X, tasks=tasks)
            if family == "counts"
            else model.predict_proba(X, tasks=tasks)[:, 1]
        )
        return said.sum() / y.sum()

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


@pytest.mark.parametrize("unit", [1e-30, 1e-16])
def test_a_column_of_tiny_numbers_is_of_no_account(unit):
    rng = np.random.default_rng(0)
    tasks, X = np.repeat(np.arange(30), 5), rng.normal(size=(150, 4))
    y = X[:, 0] + rng.normal(size=30)[tasks] + rng.normal(size=150)
    X[:, 2] *= unit
    model = CrossBayesianRidge(standardize=False).fit(X, y, tasks=tasks)
    assert model.status_ == EvidenceStatus.CONVERGED.value
    assert model.center_coef_[0] == pytest.approx(1.0, abs=0.3)
