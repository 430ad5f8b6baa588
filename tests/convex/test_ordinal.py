"""Classes that have an order."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from statsmodels.miscmodels.ordinal_model import OrderedModel

from crosslearning import CrossBayesianLogisticRegression
from crosslearning.convex.families import Ordinal


def ratings(seed, n_tasks=40, size=20, sd=1.0, thresholds=(-1.0, 0.5, 2.0)):
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(n_tasks), size)
    X = rng.normal(size=(len(tasks), 2)) * [1.0, 5.0]
    score = X @ [1.0, -0.2] + sd * rng.normal(size=n_tasks)[tasks]
    return X, np.digitize(score + rng.logistic(size=len(score)), thresholds), tasks


def test_probabilities_add_up_and_are_those_of_the_definition():
    family, scores = Ordinal((-1.0, 0.3, 2.0)), np.linspace(-30.0, 30.0, 7)
    logs = np.array([family.log_density(np.full(7, k), scores[:, None], 1.0) for k in range(4)])
    np.testing.assert_allclose(np.exp(logs).sum(axis=0), 1.0)
    np.testing.assert_allclose(np.exp(logs[:2]).sum(axis=0), expit(0.3 - scores), rtol=1e-10)
    assert np.isfinite(logs).all()


@pytest.fixture(scope="module")
def pooled_models():
    """A pooled model, that of statsmodels, and their features."""
    X, y, tasks = ratings(0, sd=0.0)
    model = CrossBayesianLogisticRegression(ordered=True, covariance="pooled").fit(X, y, tasks)
    return model, OrderedModel(y, X, distr="logit").fit(disp=False, method="bfgs"), X


def test_a_pooled_model_agrees_with_statsmodels(pooled_models):
    model, pooled, X = pooled_models
    np.testing.assert_allclose(model.center_coef_[0], pooled.params[:2], rtol=0.01)
    expected = pooled.model.transform_threshold_params(pooled.params)[1:-1]
    np.testing.assert_allclose(model.thresholds_ - model.center_intercept_, expected, atol=0.02)
    np.testing.assert_allclose(model.predict_proba(X, tasks="center"), pooled.predict(X), atol=0.01)


def test_differences_between_tasks_are_recovered():
    X, y, tasks = ratings(1, n_tasks=80)
    model = CrossBayesianLogisticRegression(ordered=True, covariance="levels").fit(X, y, tasks)
    assert model.task_intercept_sd_[0] == pytest.approx(1.0, rel=0.2)
    np.testing.assert_allclose(model.center_coef_[0], [1.0, -0.2], rtol=0.15)
    np.testing.assert_allclose(np.diff(model.thresholds_), [1.5, 1.5], rtol=0.15)
    assert model.coef_.shape == (80, 1, 2)
    assert list(model.summary().frame.index) == ["x0", "x1", "intercept"]


def test_order_helps_where_classes_have_one():
    X, y, tasks = ratings(2)
    train = np.arange(len(y)) % 3 == 0
    losses = []
    for ordered in (True, False):
        model = CrossBayesianLogisticRegression(ordered=ordered, covariance="block")
        model.fit(X[train], y[train], tasks[train])
        shares = model.predict_proba(X[~train], tasks[~train])
        losses.append(-np.mean(np.log(shares[np.arange(len(shares)), y[~train]])))
    assert losses[0] < losses[1] - 0.01


def test_two_ordered_classes_are_two_classes():
    X, y, tasks = ratings(3, n_tasks=10)
    plain = CrossBayesianLogisticRegression().fit(X, y > 1, tasks)
    ordered = CrossBayesianLogisticRegression(ordered=True).fit(X, y > 1, tasks)
    np.testing.assert_array_equal(plain.coef_, ordered.coef_)


@pytest.mark.parametrize("epsilon", [np.inf, 0.5])
def test_models_are_saved_and_bounded(epsilon, tmp_path):
    X, y, tasks = ratings(4, n_tasks=10)
    names = ["poor", "fair", "good", "best"]
    grades = pd.Series(pd.Categorical.from_codes(y, names, ordered=True))
    model = CrossBayesianLogisticRegression(ordered=True, epsilon=epsilon).fit(X, grades, tasks)
    assert model.distances_.max() <= epsilon * (1 + 1e-8)
    model.save(tmp_path / "model")
    loaded = CrossBayesianLogisticRegression.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X, tasks), model.predict_proba(X, tasks))
    assert model.score(X, grades, tasks) > 0.4
    new = model.fit_task(X[:20], grades[:20], "new")
    assert new.predict_proba(X[:3], ["new"] * 3).shape == (3, 4)


def test_the_order_is_that_of_the_categories_or_of_numbers():
    X, y, tasks = ratings(7, n_tasks=6)
    model = CrossBayesianLogisticRegression(ordered=True, covariance="pooled")
    expected = model.fit(X, y, tasks).predict_proba(X, tasks)
    names = ["unused", "poor", "fair", "good", "best"]
    for grades in (y + 0.5, pd.Categorical.from_codes(y + 1, names, ordered=True)):
        model.fit(X, grades, tasks)
        np.testing.assert_array_equal(model.predict_proba(X, tasks), expected)
        right = np.asarray(grades) == model.classes_[expected.argmax(axis=1)]
        assert model.score(X, grades, tasks) == pytest.approx(right.mean())
    for text in (np.array(names)[y], pd.Categorical.from_codes(y, names)):
        with pytest.raises(ValueError, match="ordered pandas Categorical"):
            model.fit(X, text, tasks)
    with pytest.raises(ValueError, match="at least 2 classes"):
        model.fit(X, np.ones(len(y)), tasks)


def test_another_fit_may_have_other_classes():
    X, y, tasks = ratings(6, n_tasks=6)
    model = CrossBayesianLogisticRegression(ordered=True, covariance="pooled").fit(X, y, tasks)
    first = model.thresholds_
    assert len(model.fit(X, np.minimum(y, 2), tasks).thresholds_) == 2
    np.testing.assert_array_equal(model.fit(X, y, tasks).thresholds_, first)
    assert not hasattr(model.fit(X, y > 1, tasks), "thresholds_")


def test_mistakes_are_named():
    X, y, tasks = ratings(5, n_tasks=4)
    with pytest.raises(ValueError, match="fit_intercept=True"):
        CrossBayesianLogisticRegression(ordered=True, fit_intercept=False).fit(X, y, tasks)
    with pytest.raises(ValueError, match="ordered=False"):
        CrossBayesianLogisticRegression(ordered=True).fit_passes(None, None, [0, 1, 2])


def test_standard_errors_of_a_pooled_model_agree_with_statsmodels(pooled_models):
    model, pooled, _ = pooled_models
    table = model.summary().frame
    np.testing.assert_allclose(table["std_error"], pooled.bse[:3], rtol=0.02)
    np.testing.assert_allclose(model.center_coef_sd_[0], pooled.bse[:2], rtol=0.02)


def joint_covariance(model, X, y, groups, tasks):
    """Invert the curvature of the log posterior by centre, intercepts, and thresholds.

    Intercepts are those of groups, less the centre's, and of tasks, less their groups'.
    """
    columns, first = np.column_stack([X, np.ones(len(X))]), model.thresholds_[0]
    level, of_groups = model.center_intercept_[0], model.group_intercept_[0][:, 0]
    above = of_groups[[group for group, _ in model.tasks_]]
    variances = np.repeat(model.covariance_[:, 2, 2], [len(of_groups), len(above)])

    def cost(point):
        beta, offsets, rest = np.split(point, [3, 3 + len(variances)])
        score = columns @ beta + offsets[groups] + offsets[len(of_groups) + tasks]
        prior = np.sum((beta[:2] / model.center_sd_) ** 2) + np.sum(offsets**2 / variances)
        return 0.5 * prior - Ordinal((first, *rest)).log_density(y, score[:, None], 1.0).sum()

    center = [*model.center_coef_[0], level, *(of_groups - level)]
    mode = np.array([*center, *(model.intercept_[:, 0] - above), *model.thresholds_[1:]])
    steps = 1e-3 * np.eye(len(mode))
    signs = [(a, b) for a in (1, -1) for b in (1, -1)]
    curvature = np.zeros_like(steps)
    for j, k in zip(*np.tril_indices(len(mode)), strict=True):
        around = (a * b * cost(mode + a * steps[j] + b * steps[k]) for a, b in signs)
        curvature[j, k] = curvature[k, j] = sum(around) / 4e-6
    return np.linalg.inv(curvature)


def test_standard_errors_are_those_of_the_joint_posterior():
    rng, tasks = np.random.default_rng(0), np.repeat(np.arange(12), 30)
    X, groups = rng.normal(size=(len(tasks), 2)), tasks // 3
    score = X @ [1.0, -1.0] + rng.normal(size=4)[groups] + rng.normal(size=12)[tasks]
    y = np.digitize(score + rng.logistic(size=len(score)), (-2.0, 0.5, 3.0))
    model = CrossBayesianLogisticRegression(ordered=True, covariance="levels", standardize=False)
    model.fit(X, y, pd.DataFrame({"group": groups, "task": tasks}))
    assert (model.task_intercept_sd_ > 0.3).all()
    expected = joint_covariance(model, X, y, groups, tasks)
    table = model.summary().frame
    np.testing.assert_allclose(table["std_error"], np.sqrt(np.diag(expected)[:3]), rtol=0.03)
    weights = np.zeros(len(expected))
    weights[[2, 3 + 3, -3]] = 1.0  # the intercept of the last task is a sum of three
    last = model.contrast({model.tasks_[-1]: 1.0}).loc["intercept", "std_error"]
    assert last == pytest.approx(np.sqrt(weights @ expected @ weights), rel=0.03)
