"""Quantiles of related tasks: against linear programming, by coverage, and their symmetries."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import d2_pinball_score, mean_pinball_loss

from crosslearning import CrossBayesianGLM
from crosslearning.convex.families import Quantile
from crosslearning.datasets import load_hsb82


def schools(seed=0, n_tasks=20, n_rows=40, noise=np.random.Generator.normal):
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(n_tasks), n_rows)
    X = rng.normal(size=(len(tasks), 2))
    own = np.array([1.0, -0.5, 3.0]) + rng.normal(size=(n_tasks, 3)) * [0.5, 0.0, 1.0]
    y = (X * own[tasks, :2]).sum(axis=1) + own[tasks, 2] + noise(rng, size=len(tasks))
    return X, y, tasks


def skewed(rng, size):
    return rng.exponential(size=size)


@pytest.fixture(scope="module")
def fitted():
    X, y, tasks = schools(noise=skewed)
    held_out = np.arange(len(y)) % 2 == 1
    models = {
        level: CrossBayesianGLM("quantile", quantile=level).fit(
            X[~held_out], y[~held_out], tasks[~held_out]
        )
        for level in (0.1, 0.5, 0.9)
    }
    return models, X[held_out], y[held_out], tasks[held_out]


@pytest.mark.parametrize(("level", "width"), [(0.5, 0.1), (0.1, 0.1), (0.8, 2.0)])
def test_the_density_has_mass_one(level, width):
    family = Quantile(level, width)
    at = np.zeros((1, 1))

    def density(y):
        return np.exp(family.log_density(np.array([y]), at, 1.0))[0]

    mass = quad(density, -300, 300, points=[0.0], limit=500)
    assert mass[0] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("level", [0.05, 0.5, 0.8])
def test_the_information_is_the_variance_of_the_slope_under_normal_noise(level):
    family = Quantile(level, 1e-3)
    y, best = norm.ppf((np.arange(400_000) + 0.5) / 400_000), np.full(400_000, norm.ppf(level))
    slope, curvature, _ = family.derivatives(y, best)
    assert slope.mean() == pytest.approx(0.0, abs=1e-4)
    assert slope.var() == pytest.approx(curvature.mean(), rel=0.01)


@pytest.mark.parametrize("level", [pytest.param(0.05, marks=pytest.mark.slow), 0.95])
def test_tails_of_tasks_of_real_pupils(level):
    pupils = load_hsb82()
    X, y, tasks = pupils.X.to_numpy(), pupils.y.to_numpy(), np.asarray(pupils.tasks)
    test = np.random.default_rng(0).random(len(y)) < 0.5
    model = CrossBayesianGLM("quantile", quantile=level, covariance="block")
    predicted = model.fit(X[~test], y[~test], tasks[~test]).predict(X[test], tasks[test])
    assert np.mean(y[test] <= predicted) == pytest.approx(level, abs=0.011)  # 3 standard errors
    pooled = QuantileRegressor(quantile=level, alpha=0.0).fit(X[~test], y[~test])
    losses = [
        mean_pinball_loss(y[test], p, alpha=level) for p in (predicted, pooled.predict(X[test]))
    ]
    assert losses[0] < 1.001 * losses[1]


@pytest.mark.parametrize("level", [pytest.param(0.2, marks=pytest.mark.slow), 0.9])
def test_the_pooled_limit_is_that_of_linear_programming(level):
    # Spread that grows with a feature, so that the slopes of quantiles differ.
    rng = np.random.default_rng(1)
    X = rng.uniform(0.0, 2.0, size=(4000, 2))
    y = X[:, 0] + (0.5 + X[:, 1]) * rng.normal(size=4000)
    tasks = rng.integers(4, size=4000)
    model = CrossBayesianGLM("quantile", quantile=level, epsilon=0.0).fit(X, y, tasks)
    exact = QuantileRegressor(quantile=level, alpha=0.0, solver="highs").fit(X, y)
    # Half a standard error of such quantiles of 4,000 rows.
    np.testing.assert_allclose(model.coef_, np.tile(exact.coef_, (4, 1)), atol=0.06)
    below = np.mean(y <= model.predict(X, tasks))
    assert below == pytest.approx(level, abs=0.005)
    losses = [
        mean_pinball_loss(y, m, alpha=level) for m in (model.predict(X, tasks), exact.predict(X))
    ]
    assert losses[0] <= 1.001 * losses[1]


def test_the_asked_share_of_held_out_rows_is_below(fitted):
    models, X, y, tasks = fitted
    shares = [np.mean(y <= model.predict(X, tasks)) for model in models.values()]
    np.testing.assert_allclose(shares, list(models), atol=0.06)  # three standard errors


def test_sharing_beats_one_model_and_one_per_task(fitted):
    models, X, y, tasks = fitted
    rows, targets, labels = schools(noise=skewed)
    train = np.arange(len(targets)) % 2 == 0
    for level, model in models.items():

        def plain(own, level=level):
            return QuantileRegressor(quantile=level, alpha=0.0).fit(rows[own], targets[own])

        pooled = plain(train).predict(X)
        alone = np.empty_like(y)
        for task in np.unique(tasks):
            alone[tasks == task] = plain(train & (labels == task)).predict(X[tasks == task])
        own = mean_pinball_loss(y, model.predict(X, tasks), alpha=level)
        for rival in (pooled, alone):
            assert own < mean_pinball_loss(y, rival, alpha=level)


def test_predictions_follow_the_units_of_the_target():
    X, y, tasks = schools(n_tasks=6, n_rows=15)
    one = CrossBayesianGLM("quantile", quantile=0.3).fit(X, y, tasks)
    other = CrossBayesianGLM("quantile", quantile=0.3).fit(X, 1e6 * y - 5e7, tasks)
    expected = 1e6 * one.predict(X, tasks) - 5e7
    np.testing.assert_allclose(other.predict(X, tasks), expected, rtol=1e-3, atol=1e3)
    np.testing.assert_allclose(other.task_sd_, 1e6 * one.task_sd_, rtol=1e-2, atol=1e3)
    sds = [m.predict(X, tasks, return_std=True)[1] for m in (one, other)]
    np.testing.assert_allclose(sds[1], 1e6 * sds[0], rtol=1e-2)


def test_a_quantile_of_the_negative_is_the_opposite_one():
    X, y, tasks = schools(n_tasks=6, n_rows=25)
    low = CrossBayesianGLM("quantile", quantile=0.25).fit(X, y, tasks)
    high = CrossBayesianGLM("quantile", quantile=0.75).fit(X, -y, tasks)
    np.testing.assert_allclose(low.coef_, -high.coef_, atol=1e-3)
    np.testing.assert_allclose(low.intercept_, -high.intercept_, atol=0.1)  # between two targets


@pytest.mark.filterwarnings("ignore:The iteration limit")  # there is hardly any noise to model
@pytest.mark.parametrize("size", [1e3, 1e6])
def test_targets_far_from_zero_in_units_of_the_noise(size):
    rng = np.random.default_rng(2)
    X, tasks = rng.normal(size=(300, 1)), np.repeat(np.arange(10), 30)
    y = size * (X[:, 0] + 0.1 * rng.normal(size=10)[tasks]) + rng.normal(size=300)
    model = CrossBayesianGLM("quantile", quantile=0.9).fit(X, y, tasks)
    errors = y - model.predict(X, tasks)
    assert np.abs(errors).max() < 6.0 + 1e-3 * size
    assert np.mean(errors <= 0) == pytest.approx(0.9, abs=0.05)


def test_a_bound_is_kept_and_a_new_task_is_fitted_near_the_centre():
    X, y, tasks = schools(n_tasks=8, n_rows=20)
    model = CrossBayesianGLM("quantile", epsilon=1.0).fit(X, y, tasks)
    assert model.distances_.max() <= 1.0 + 1e-9
    assert model.kkt_residual_ <= 1e-8
    new = model.fit_task(X[:20], y[:20] + 2.0, task="new", sample_offset=np.full(20, 2.0))
    gap = new.predict(X[:20], ["new"] * 20) - model.predict(X[:20], tasks[:20])
    assert np.abs(gap).mean() < 0.3


def test_offsets_are_part_of_the_quantile():
    X, y, tasks = schools(n_tasks=5, n_rows=20)
    offset = 3.0 * X[:, 0] ** 2
    plain = CrossBayesianGLM("quantile", quantile=0.4).fit(X, y, tasks)
    moved = CrossBayesianGLM("quantile", quantile=0.4).fit(
        X, y + offset, tasks, sample_offset=offset
    )
    expected = plain.predict(X, tasks) + offset
    np.testing.assert_allclose(moved.predict(X, tasks, sample_offset=offset), expected, atol=1e-6)


def test_scores_files_other_families_and_refusals(fitted, tmp_path):
    models, X, y, tasks = fitted
    model = models[0.9]
    expected = d2_pinball_score(y, model.predict(X, tasks), alpha=0.9)
    assert model.score(X, y, tasks) == pytest.approx(expected)
    model.save(tmp_path / "model.zip")
    again = CrossBayesianGLM.load(tmp_path / "model.zip")
    np.testing.assert_array_equal(again.predict(X, tasks), model.predict(X, tasks))
    with pytest.raises(ValueError, match=r"two quantiles; got quantile=0\.9"):
        model.predict_interval(X, tasks)
    with pytest.raises(ValueError, match="'quantile' parameter"):
        CrossBayesianGLM("quantile", quantile=1.0).fit(X, y, tasks)
    again.set_params(family="gaussian").fit(X, y, tasks)
    plain = CrossBayesianGLM().fit(X, y, tasks)
    np.testing.assert_array_equal(again.predict(X, tasks), plain.predict(X, tasks))


def test_without_an_intercept():
    X, y, tasks = schools(n_tasks=4, n_rows=20)
    X = np.column_stack([X, np.ones(len(X))])
    model = CrossBayesianGLM("quantile", fit_intercept=False, standardize=False).fit(X, y, tasks)
    np.testing.assert_array_equal(model.intercept_, 0.0)
    assert np.mean(y <= model.predict(X, tasks)) == pytest.approx(0.5, abs=0.1)
