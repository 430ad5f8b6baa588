"""Tasks of several columns: schools in districts."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from crosslearning import (
    CrossBayesianGLM,
    CrossBayesianLogisticRegression,
    CrossBayesianRidge,
    CrossRidge,
    Statistics,
)
from tests.support.nested import NestedRows

UNITS = pd.DataFrame({"district": [0, 0, 99], "school": [1, 77, 1]})  # known, new, in a new one


@pytest.fixture(scope="module")
def rows():
    return NestedRows()


@pytest.fixture(scope="module")
def model(rows):
    return CrossBayesianRidge().fit(rows.features, rows.y, tasks=rows.labels)


def test_attributes_have_levels_outermost_first(model):
    assert model.task_sd_.shape == (2, 1)
    assert model.task_intercept_sd_.shape == (2,)
    assert model.tasks_[0] == (0, 0)
    assert model.level_names_ == ["district", "school"]
    assert model.groups_[0].tolist() == [(k,) for k in range(12)]
    assert model.group_coef_[0].shape == (12, 1)
    assert model.task_intercept_sd_[0] == pytest.approx(1.0, rel=0.4)
    assert model.task_intercept_sd_[1] == pytest.approx(0.7, rel=0.4)


def test_sums_of_tasks_are_enough(model, rows):
    tasks = rows.labels.drop_duplicates().iloc[::-1]  # in any order
    number = pd.MultiIndex.from_frame(tasks).get_indexer(pd.MultiIndex.from_frame(rows.labels))
    sums = Statistics.of(rows.features, rows.y, number)
    again = CrossBayesianRidge().fit_statistics(sums, tasks=tasks)
    np.testing.assert_allclose(again.covariance_, model.covariance_, rtol=1e-4)
    for one, other in zip(
        again.predict(np.ones((3, 1)), tasks=UNITS, return_std=True),
        model.predict(np.ones((3, 1)), tasks=UNITS, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    plain = CrossBayesianRidge().fit_statistics(sums)
    assert not len(plain.groups_)
    with pytest.raises(ValueError, match="`tasks` must have several columns"):
        plain.fit_statistics(sums, tasks=tasks["school"])


def test_each_kind_of_task_has_its_own_variance(model):
    X = np.full((3, 1), model.feature_mean_[0])
    mean, sd = model.predict(X, tasks=UNITS, return_std=True)
    assert sd[0] < sd[1] < sd[2]
    noise, between = model.noise_sd_**2, model.covariance_[:, -1, -1]
    assert sd[2] ** 2 == pytest.approx(noise + between.sum() + model.center_covariance_[-1, -1])
    new_school = noise + model.group_covariances_[0][0, -1, -1]
    assert sd[1] ** 2 == pytest.approx(new_school)
    assert sd[1] ** 2 > noise + between[1]
    group = model.group_coef_[0][0] @ X[1] + model.group_intercept_[0][0]
    assert mean[1] == pytest.approx(group)
    assert mean[2] == pytest.approx(model.predict(X[:1], tasks="center")[0])


def test_intervals_cover_new_schools_and_new_districts():
    train = NestedRows(0, n_groups=60)
    model = CrossBayesianRidge().fit(train.features, train.y, tasks=train.labels)
    test = NestedRows(1, n_groups=60)
    labels = test.labels.assign(district=test.labels["district"] + 1000)
    lower, upper = model.predict_interval(test.features, tasks=labels, coverage=0.9)
    assert 0.85 <= np.mean((lower <= test.y) & (test.y <= upper)) <= 0.95
    # The fifth school of each district is new.
    seen = train.labels["school"] < 4
    part = CrossBayesianRidge().fit(train.features[seen], train.y[seen], tasks=train.labels[seen])
    new = train.features[~seen], train.labels[~seen]
    lower, upper = part.predict_interval(new[0], tasks=new[1], coverage=0.9)
    assert 0.85 <= np.mean((lower <= train.y[~seen]) & (train.y[~seen] <= upper)) <= 0.95
    wider = part.predict_interval(new[0], tasks="center", coverage=0.9)
    assert np.mean(upper - lower) < 0.9 * np.mean(wider[1] - wider[0])


def test_columns_of_a_frame(rows, model):
    frame = rows.labels.assign(x=rows.features[:, 0])
    other = CrossBayesianRidge(task_column=["district", "school"]).fit(frame, rows.y)
    np.testing.assert_array_equal(other.coef_, model.coef_)
    expected = model.predict(rows.features, tasks=rows.labels)
    np.testing.assert_array_equal(other.predict(frame), expected)


def test_an_update_is_a_fit_to_all_rows(rows, model):
    early = (np.arange(len(rows.y)) % 2 == 0) & (rows.groups != 3)
    part = CrossBayesianRidge().fit(rows.features[early], rows.y[early], tasks=rows.labels[early])
    part.update(rows.features[~early], rows.y[~early], tasks=rows.labels[~early])
    assert part.tasks_.tolist() == model.tasks_.tolist()
    for name in ("coef_", "covariance_", "log_evidence_", "task_covariances_"):
        np.testing.assert_allclose(getattr(part, name), getattr(model, name), rtol=1e-8, atol=1e-8)


def test_columns_are_matched_by_name(rows, model):
    reverse = UNITS[["school", "district"]]
    expected = model.predict(rows.features[:3], tasks=UNITS)
    np.testing.assert_array_equal(model.predict(rows.features[:3], tasks=reverse), expected)
    for paths in (list(UNITS.itertuples(index=False, name=None)), UNITS.to_numpy()):
        np.testing.assert_array_equal(model.predict(rows.features[:3], tasks=paths), expected)
    other = UNITS.rename(columns={"school": "class"})
    for labels in (other, other[["class"]], UNITS.assign(extra=0), [(0, 1, 2)] * 3, ["a"] * 3):
        for method in (model.predict, lambda X, tasks: model.update(X, rows.y[:3], tasks)):
            with pytest.raises(ValueError, match="must have the 2 columns"):
                method(rows.features[:3], tasks=labels)
    with pytest.raises(ValueError, match="distinct names"):
        CrossBayesianRidge().fit(rows.features, rows.y, tasks=rows.labels.iloc[:, [0, 0]])


def test_labels_have_the_types_of_their_level(rows, model):
    mixed = pd.DataFrame({"district": [0, 0], "school": [1, "1"]})
    for method in (model.predict, lambda X, tasks: model.update(X, rows.y[:2], tasks)):
        with pytest.raises(ValueError, match=r"`school` .*\(int\); got '1' \(str\)"):
            method(rows.features[:2], tasks=mixed)


def test_a_summary_has_a_standard_deviation_for_each_level(model):
    summary = model.summary()
    assert summary.n_groups == {"district": 12, "school": len(model.tasks_)}
    assert "12 districts, " in repr(summary)
    frame = summary.frame
    np.testing.assert_allclose(frame["district_sd"]["x0"], model.task_sd_[0, 0])
    np.testing.assert_allclose(frame["school_sd"]["x0"], model.task_sd_[1, 0])
    assert (frame["district_sd_lower"] <= frame["district_sd"]).all()


def test_contrasts_know_which_schools_share_a_district(rows, model):
    single = model.contrast({(0, 0): 1.0})
    np.testing.assert_allclose(single["std_error"]["x0"], model.coef_sd_[0, 0])
    precision = np.append(1.0 / model.center_sd_**2, 1e-9) * model.noise_sd_**2
    scaled = (rows.features - model.feature_mean_) / model.feature_scale_
    X = np.column_stack([scaled, np.ones(len(scaled))])
    S = np.einsum("ljj->lj", model.covariance_) / model.noise_sd_**2
    V = np.eye(len(X)) + X / precision @ X.T
    shared = np.zeros((len(X), 2))
    prior = np.zeros((2, 2))
    for units, variances in ((rows.groups, S[0]), (rows.tasks, S[1])):
        V += (units[:, None] == units) * (X * variances @ X.T)
        sign = 1.0 * (units == units[0]) - 1.0 * (units == units[rows.tasks == 1][0])
        shared += sign[:, None] * X * variances
        prior += 2.0 * np.diag(variances) * (units[0] != units[rows.tasks == 1][0])
    covariance = prior - shared.T @ np.linalg.solve(V, shared)
    error = np.sqrt(covariance[0, 0]) * model.noise_sd_ / model.feature_scale_[0]
    contrast = model.contrast({(0, 0): 1.0, (0, 1): -1.0})
    assert contrast["std_error"]["x0"] == pytest.approx(error, rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.8, (0.3, 0.8), (0.0, np.inf), (np.inf, 0.5)])
def test_bounds_hold_at_each_level(rows, epsilon):
    model = CrossBayesianRidge(epsilon=epsilon).fit(rows.features, rows.y, tasks=rows.labels)
    outer, inner = np.broadcast_to(epsilon, 2)
    assert model.group_distances_[0].max() <= outer * (1 + 1e-8) + 1e-12
    assert model.distances_.max() <= inner * (1 + 1e-8)
    assert model.kkt_residual_ <= 1e-8


def test_the_bounded_model_is_the_optimum():
    rows = NestedRows(4, n_groups=3, n_tasks=2)
    model = CrossBayesianRidge(epsilon=(0.6, 0.4), covariance="levels", fit_intercept=True)
    model.fit(rows.features, rows.y, tasks=rows.labels)
    outer, inner = np.sqrt(model.covariance_[:, -1, -1])
    scaled = (rows.features[:, 0] - model.feature_mean_) / model.feature_scale_

    def loss(x):
        slope, center, groups, tasks = x[0], x[1], x[2:5], x[5:]
        levels = center + outer * groups[rows.groups] + inner * tasks[rows.tasks]
        errors = rows.y - slope * scaled - levels
        squares = np.sum(errors**2) / model.noise_sd_**2 + slope**2 / model.center_sd_[0] ** 2
        return 0.5 * (squares + np.sum(groups**2) + np.sum(tasks**2))

    bounds = [(None, None)] * 2 + [(-0.6, 0.6)] * 3 + [(-0.4, 0.4)] * 6
    best = minimize(loss, np.zeros(11), bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-10})
    slope, center, groups, tasks = best.x[0], best.x[1], best.x[2:5], best.x[5:]
    levels = center + outer * groups[rows.parent] + inner * tasks
    np.testing.assert_allclose(model.coef_[0], slope / model.feature_scale_, rtol=1e-5)
    at_mean = model.intercept_ + model.coef_[:, 0] * model.feature_mean_
    np.testing.assert_allclose(at_mean, levels, rtol=1e-4)


@pytest.mark.parametrize("epsilon", [np.inf, (0.4, 0.6)])
@pytest.mark.parametrize("kind", ["classes", "counts"])
def test_classes_and_counts(rows, kind, epsilon, tmp_path):
    rng = np.random.default_rng(0)
    model = CrossBayesianGLM("poisson", epsilon=epsilon)
    y = rng.poisson(np.exp(0.4 * rows.score))
    if kind == "classes":
        model = CrossBayesianLogisticRegression(epsilon=epsilon)
        y = rows.score + rng.logistic(size=len(rows.y)) > 2.0
    model.fit(rows.features, y, tasks=rows.labels)
    assert model.task_intercept_sd_.size == 2
    assert model.kkt_residual_ <= 1e-8
    assert model.distances_.max() <= np.broadcast_to(epsilon, 2)[1] * (1 + 1e-8)
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    predict = "predict_proba" if kind == "classes" else "predict"
    first = getattr(model, predict)(rows.features[:3], UNITS)
    np.testing.assert_array_equal(getattr(loaded, predict)(rows.features[:3], UNITS), first)


def test_a_later_fit_of_one_level_forgets_the_groups(rows):
    model = CrossBayesianRidge().fit(rows.features, rows.y, tasks=rows.labels)
    model.fit(rows.features, rows.y, tasks=rows.tasks)
    assert not len(model.groups_)
    assert model.task_sd_.shape == (1,)
    model.predict(rows.features[:2], tasks=[0, 999])


def test_outliers_and_mistakes(rows, model):
    for epsilon in ((1.0, 1.0, 1.0), {"district": 1.0}):
        with pytest.raises(ValueError, match="one for each of the 2 levels"):
            CrossBayesianRidge(epsilon=epsilon).fit(rows.features, rows.y, tasks=rows.labels)
    robust = CrossBayesianGLM("student").fit(rows.features, rows.y, tasks=rows.labels)
    np.testing.assert_allclose(robust.center_coef_, model.center_coef_, atol=0.1)
    with pytest.raises(ValueError, match="another family than 'student'"):
        robust.set_params(epsilon=1.0).fit(rows.features, rows.y, tasks=rows.labels)
    with pytest.raises(ValueError, match="must have the 2 columns"):
        model.predict(rows.features, tasks=rows.labels.assign(extra=0))
    with pytest.raises(ValueError, match="one level"):
        model.fit_task(rows.features, rows.y)
    with pytest.raises(ValueError, match="one label per row"):
        CrossRidge().fit(rows.features, rows.y, tasks=rows.labels)


def test_labels_of_sums_must_name_each_task_once():
    labels = pd.DataFrame({"district": np.arange(6) // 3, "school": np.arange(6)})
    rng, tasks = np.random.default_rng(0), np.repeat(np.arange(6), 5)
    sums = Statistics.of(rng.normal(size=(30, 1)), rng.normal(size=30), tasks)
    with pytest.raises(ValueError, match="each of the 6 tasks of the sums; got 5 different"):
        CrossBayesianRidge().fit_statistics(sums, tasks=labels.head(5))
    with pytest.raises(ValueError, match="each of the 6 tasks of the sums; got 2 different"):
        CrossBayesianRidge().fit_statistics(sums, tasks=labels.assign(school=0))
