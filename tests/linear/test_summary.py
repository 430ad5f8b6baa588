"""Summaries of the centre, and contrasts of tasks."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.discrete.discrete_model import MNLogit
from statsmodels.regression.mixed_linear_model import MixedLM

from crosslearning import CrossBayesianGLM, CrossBayesianLogisticRegression, CrossBayesianRidge
from crosslearning.datasets import load_hsb82
from tests.support.hierarchical import simulated


@pytest.fixture(scope="module")
def schools():
    table = load_hsb82()
    model = CrossBayesianRidge(covariance="levels")
    return table, model.fit(table.X, table.y, tasks=table.tasks)


def test_random_intercepts_of_schools_agree_with_a_mixed_model(schools):
    table, model = schools
    columns = np.column_stack([table.X, np.ones(len(table.y))])
    mixed = MixedLM(np.asarray(table.y), columns, table.tasks).fit(reml=True)
    summary = model.summary()
    np.testing.assert_allclose(summary.frame["estimate"], mixed.fe_params, rtol=1e-3)
    np.testing.assert_allclose(summary.frame["std_error"], mixed.bse_fe, rtol=0.02)
    between = summary.frame.loc["intercept"]
    assert between["task_sd"] == pytest.approx(np.sqrt(mixed.cov_re.item()), rel=0.01)
    assert between["task_sd_lower"] < between["task_sd"] < between["task_sd_upper"]
    assert summary.noise_sd == pytest.approx(np.sqrt(mixed.scale), rel=0.01)
    assert (summary.n_rows, summary.n_tasks) == (7185, 160)


@pytest.mark.parametrize("effect", [0.0, 0.02, 0.5])
def test_weak_effects_have_the_errors_of_a_mixed_model(effect):
    rng = np.random.default_rng(5)
    X, tasks = rng.normal(size=(600, 1)), rng.integers(12, size=600)
    y = effect * X[:, 0] + 0.5 * rng.normal(size=12)[tasks] + rng.normal(size=600)
    mixed = MixedLM(y, np.column_stack([X, np.ones(600)]), tasks).fit(reml=True)
    frame = CrossBayesianRidge(covariance="levels").fit(X, y, tasks).summary().frame
    np.testing.assert_allclose(frame["estimate"], mixed.fe_params, rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(frame["std_error"], mixed.bse_fe, rtol=5e-3)


def test_a_pooled_summary_is_that_of_least_squares():
    X, _, y, tasks = simulated()
    model = CrossBayesianRidge(covariance="pooled").fit(X, y, tasks)
    frame, columns = model.summary().frame, np.column_stack([X, np.ones(len(y))])
    np.testing.assert_allclose(frame["estimate"], np.linalg.lstsq(columns, y)[0], rtol=1e-6)
    errors = model.noise_sd_ * np.sqrt(np.diagonal(np.linalg.inv(columns.T @ columns)))
    np.testing.assert_allclose(frame["std_error"], errors, rtol=1e-6)


def test_what_the_rows_do_not_determine_keeps_the_prior():
    X, _, y, tasks = simulated()
    twice = np.column_stack([X, X[:, 0], np.zeros(len(y))])
    model = CrossBayesianRidge(covariance="pooled").fit(twice, y, tasks)
    frame, alone = model.summary().frame, CrossBayesianRidge(covariance="pooled").fit(X, y, tasks)
    assert frame["estimate"]["x0"] == pytest.approx(frame["estimate"]["x2"], rel=1e-4)
    both = frame["estimate"]["x0"] + frame["estimate"]["x2"]
    assert both == pytest.approx(alone.summary().frame["estimate"]["x0"], rel=1e-4)
    assert frame["std_error"]["x0"] < 2.0 * model.center_sd_[0]


def test_a_summary_prints_as_a_table(schools):
    text = repr(schools[1].summary(coverage=0.9))
    assert text.startswith("CrossBayesianRidge, 7,185 rows, 160 tasks, covariance 'levels'\n")
    assert "90 % intervals" in text
    for word in ("minority", "intercept", "std_error", "task_sd_upper"):
        assert word in text


def test_units_are_those_of_the_features():
    X, _, y, tasks = simulated()
    frame = CrossBayesianRidge().fit(X, y, tasks).summary().frame
    scaled = CrossBayesianRidge().fit(X * [1.0, 0.01] + [3.0, 0.0], 10.0 * y, tasks).summary().frame
    for column in frame:
        np.testing.assert_allclose(scaled[column]["x0"], 10.0 * frame[column]["x0"], rtol=1e-5)
        np.testing.assert_allclose(scaled[column]["x1"], 1000.0 * frame[column]["x1"], rtol=1e-5)


def test_the_standard_error_of_the_intercept_is_that_of_a_prediction():
    X, _, y, tasks = simulated()
    model = CrossBayesianRidge(covariance="pooled").fit(X, y, tasks)
    _, sd = model.predict(np.zeros((1, 2)), tasks="center", return_std=True)
    error = np.sqrt(sd[0] ** 2 - model.noise_sd_**2)
    center = model.contrast({tasks[0]: 0.0, "center": 1.0})
    assert center["std_error"]["intercept"] == pytest.approx(error)


def test_classes_have_a_row_each():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(120, 2)), np.repeat(np.arange(6), 20)
    kinds = np.array(["a", "b", "c"])[rng.integers(3, size=120)]
    model = CrossBayesianLogisticRegression(covariance="block").fit(X, kinds, tasks)
    frame = model.summary().frame
    assert frame.index.tolist() == [(k, x) for k in "abc" for x in ("x0", "x1", "intercept")]
    # Without the prior, kinds that say nothing of x have larger effects, and larger errors.
    slopes = frame.drop("intercept", level=1)
    assert (slopes["std_error"] > model.center_coef_sd_.ravel()).all()
    fitted = MNLogit(kinds, np.column_stack([X, np.ones(120)])).fit(disp=0)
    against_a = (frame["estimate"] - frame["estimate"]["a"].reindex(frame.index, level=1))[3:]
    np.testing.assert_allclose(against_a, fitted.params.T.ravel(), atol=0.02)
    # Classes share one variance, and so its interval.
    upper = frame["task_sd_upper"].xs("x0", level=1)
    np.testing.assert_allclose(upper, upper["a"])


@pytest.mark.parametrize("family", ["gaussian", "student", "poisson"])
def test_a_contrast_is_a_linear_combination_of_the_joint_posterior(family):
    X, score, y, tasks = simulated(n_tasks=8)
    if family == "poisson":
        y = np.random.default_rng(0).poisson(np.exp(0.2 * score))
    model = CrossBayesianGLM(family, covariance="diagonal").fit(X, y, tasks)
    one, two = (model.contrast({task: 1.0}) for task in (2, 5))
    both = model.contrast({2: 1.0, 5: -1.0})
    np.testing.assert_allclose(both["estimate"], one["estimate"] - two["estimate"], atol=1e-12)
    np.testing.assert_allclose(one["std_error"][:2], model.coef_sd_[2], rtol=1e-6)
    nothing = model.contrast({2: 1.0, 5: 0.0})
    pd.testing.assert_frame_equal(nothing, one)


def test_a_contrast_may_have_the_centre():
    X, _, y, tasks = simulated(n_tasks=8)
    model = CrossBayesianRidge(covariance="diagonal").fit(X, y, tasks)
    frame = model.contrast({2: 1.0, "center": -1.0})
    np.testing.assert_allclose(frame["estimate"][:2], model.coef_[2] - model.center_coef_)
    alone = model.contrast({2: 0.0, "center": 1.0})
    np.testing.assert_allclose(alone["std_error"][:2], model.center_coef_sd_)
    series = model.contrast(pd.Series({2: 1.0, "center": -1.0}))
    pd.testing.assert_frame_equal(series, frame)
    for weights in ({2: np.nan}, {2: 1.0, "center": np.inf}):
        with pytest.raises(ValueError, match="finite"):
            model.contrast(weights)
    for weights in ({"center": 1.0}, [1.0], pd.Series([1.0, -1.0], index=[2, 2])):
        with pytest.raises(ValueError, match="at least one task"):
            model.contrast(weights)


def test_standard_errors_under_a_bound_are_named():
    X, _, y, tasks = simulated(n_tasks=8)
    model = CrossBayesianRidge(epsilon=0.5).fit(X, y, tasks)
    with pytest.warns(UserWarning, match=r"without the bound epsilon=0\.5"):
        model.contrast({2: 1.0, 3: -1.0})
    with pytest.warns(UserWarning, match="without the bound"):
        model.summary()


def test_one_row_per_task_has_no_intervals_of_intercepts():
    X, _, y, tasks = simulated(n_tasks=8)
    model = CrossBayesianRidge(covariance="levels").fit(X, y, np.arange(len(y)))
    with pytest.warns(UserWarning, match="told apart from noise"):
        frame = model.summary().frame
    assert frame[["task_sd_lower", "task_sd_upper"]].isna().all(axis=None)
    frame = CrossBayesianRidge(covariance="levels").fit(X, y, tasks).summary().frame
    assert frame.loc["intercept"].notna().all()


def test_a_fixed_standard_deviation_has_no_interval():
    X, _, y, tasks = simulated(n_tasks=8)
    frame = CrossBayesianRidge(covariance="separate").fit(X + 0.1, y, tasks).summary().frame
    assert frame["task_sd_lower"].notna().tolist() == [True, True, False]


def test_noise_evidence_and_shapes_are_those_of_the_family():
    X, score, y, tasks = simulated(n_tasks=8)
    counts = np.random.default_rng(0).poisson(np.exp(0.2 * score))
    poisson = CrossBayesianGLM("poisson", covariance="levels").fit(X, counts, tasks).summary()
    assert np.isnan(poisson.log_evidence)
    assert poisson.noise_sd >= 1.0
    assert "log evidence" not in repr(poisson)
    model = CrossBayesianGLM("negative-binomial", covariance="levels").fit(X, counts, tasks)
    summary = model.summary()
    assert np.isnan(summary.noise_sd)
    assert summary.log_evidence == model.log_evidence_
    assert summary.shapes == {"overdispersion": model.overdispersion_}
    assert "overdispersion" in repr(summary)
    assert not hasattr(model.set_params(family="gaussian").fit(X, y, tasks), "overdispersion_")


def test_tasks_that_are_alike_do_not_differ():
    X, _, y, tasks = simulated(n_tasks=8)
    model = CrossBayesianRidge(covariance="pooled").fit(X, y, tasks)
    difference = model.contrast({1: 1.0, 2: -1.0})
    np.testing.assert_allclose(difference.to_numpy(), 0.0, atol=1e-9)


@pytest.mark.slow
def test_intervals_of_differences_cover_them():
    inside, total = 0, 0
    for seed in range(20):
        X, score, y, tasks = simulated(seed, n_tasks=20, sds=(0.0, 0.0, 1.0))
        model = CrossBayesianRidge(covariance="levels").fit(X, y, tasks)
        rows = np.arange(0, 240, 12)
        level = score[rows] - X[rows] @ [1.0, -0.5]
        for a in range(0, 20, 2):
            frame = model.contrast({a: 1.0, a + 1: -1.0}, coverage=0.9)
            truth = level[a] - level[a + 1]
            inside += frame["lower"]["intercept"] <= truth <= frame["upper"]["intercept"]
            total += 1
    assert 0.84 <= inside / total <= 0.96


def test_unknown_tasks_and_levels_are_refused(schools):
    model = schools[1]
    with pytest.raises(ValueError, match="not a task of the fit"):
        model.contrast({"nowhere": 1.0})
    with pytest.raises(ValueError, match="between 0 and 1"):
        model.summary(coverage=95)
    table = schools[0]
    new = model.fit_task(table.X[:20], table.y[:20], "new")
    with pytest.raises(ValueError, match="joint posterior"):
        new.contrast({"new": 1.0})


@pytest.mark.parametrize("noise", ["t4", "normal"])
def test_standard_errors_of_robust_models_are_those_of_repeated_samples(noise):
    rng = np.random.default_rng(0)
    tasks, errors, contrasts = np.repeat(np.arange(12), 20), [], []
    for _ in range(50):
        X, own = rng.normal(size=(240, 2)), 0.5 * rng.normal(size=12)
        rest = rng.standard_t(4, size=240) if noise == "t4" else rng.normal(size=240)
        y = X @ [1.0, -0.5] + own[tasks] + rest
        model = CrossBayesianGLM("student", covariance="diagonal").fit(X, y, tasks)
        frame = model.summary().frame
        errors.append((frame["estimate"] - [1.0, -0.5, 0.0]) / frame["std_error"])
        frame = model.contrast({0: 1.0, 1: -1.0}).loc["intercept"]
        contrasts.append((frame["estimate"] - own[0] + own[1]) / frame["std_error"])
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(1.0, abs=0.12)
    assert np.sqrt(np.mean(np.square(contrasts))) == pytest.approx(1.0, abs=0.3)
