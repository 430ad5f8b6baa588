"""Generalised linear models from passes over rows: those that rows in memory give."""

import numpy as np
import pytest

from crosslearning import CrossBayesianGLM, CrossBayesianLogisticRegression, Statistics
from crosslearning.convex.evidence import mode, passes
from crosslearning.convex.sums.passes import PassSums
from crosslearning.exceptions import ConvergenceWarning


def table(kind, n_tasks=25, rows=25, n_features=2, spread=0.5, seed=0):
    """Features, targets, tasks and weights of tasks of uneven size."""
    rng = np.random.default_rng(seed)
    tasks = np.append(np.arange(n_tasks), rng.integers(n_tasks, size=n_tasks * (rows - 1)))
    X = rng.normal(3.0, 2.0, size=(len(tasks), n_features))
    columns = np.column_stack([(X - 3.0) / 2.0, np.ones(len(X))])
    thetas = rng.normal(size=n_features + 1) + spread * rng.normal(size=(n_tasks, n_features + 1))
    scores = np.einsum("rp,rp->r", columns, 0.5 * thetas[tasks])
    weights = rng.integers(0, 3, size=len(X)).astype(float)
    if kind == "poisson":
        return X, rng.poisson(np.exp(scores)), tasks, weights
    y = (scores + rng.logistic(size=len(X)) > 0).astype(int)
    return X, y + (kind == "classes") * (rng.random(len(X)) < 0.3), tasks, weights


def by_passes(estimator, X, y, tasks, weights=None, parts=1):
    """Fit from parts of the rows; and count the passes."""
    pieces = np.array_split(np.random.default_rng(1).permutation(len(y)), parts)
    counted = []

    def own(rows):
        return {} if weights is None else {"sample_weight": weights[rows]}

    def passed(at):
        counted.append(at)
        return sum(at.sums(X[rows], y[rows], tasks[rows], **own(rows)) for rows in pieces)

    statistics = sum(Statistics.of(X[rows], y[rows], tasks[rows], **own(rows)) for rows in pieces)
    known = y.max() if isinstance(estimator, CrossBayesianGLM) else np.unique(y)
    return estimator.fit_passes(statistics, passed, known), len(counted)


def assert_same(model, other, tolerance):
    assert model.structure_ == other.structure_
    for name in ("coef_", "intercept_", "center_coef_", "covariance_", "task_covariances_"):
        expected = getattr(other, name)
        np.testing.assert_allclose(getattr(model, name), expected, rtol=0, atol=tolerance)
    assert model.log_evidence_ == pytest.approx(other.log_evidence_, abs=1e3 * tolerance)


@pytest.mark.parametrize("parts", [1, 7])
@pytest.mark.parametrize("kind", ["two", "classes"])
def test_classes_are_fitted_as_from_rows(kind, parts):
    X, y, tasks, weights = table(kind)
    expected = CrossBayesianLogisticRegression(tol=1e-12).fit(X, y, tasks, sample_weight=weights)
    model, n_passes = by_passes(
        CrossBayesianLogisticRegression(tol=1e-12), X, y, tasks, weights, parts
    )
    assert_same(model, expected, 2e-6)
    np.testing.assert_allclose(
        model.predict_proba(X, tasks), expected.predict_proba(X, tasks), atol=1e-6
    )
    assert n_passes <= 22


def test_classes_must_be_sorted():
    X, y, tasks, _ = table("two")
    statistics = Statistics.of(X, y, tasks)
    with pytest.raises(ValueError, match="`classes` must be sorted and distinct"):
        CrossBayesianLogisticRegression().fit_passes(statistics, None, ["b", "a"])


@pytest.mark.parametrize(
    ("family", "given"),
    [("poisson", {}), ("tweedie", {"fit_intercept": False, "covariance": "diagonal"})],
)
def test_counts_are_fitted_as_from_rows(monkeypatch, family, given):
    monkeypatch.setattr(mode, "_SETTLED", 1e-10)  # of the dispersion; 1e-4 would do from rows
    X, y, tasks, weights = table("poisson")
    estimators = [CrossBayesianGLM(family, tol=1e-12, **given) for _ in range(2)]
    expected = estimators[0].fit(X, y, tasks, sample_weight=weights)
    model, n_passes = by_passes(estimators[1], X, y, tasks, weights, parts=3)
    assert_same(model, expected, 1e-6)
    assert model.largest_mean_ == expected.largest_mean_
    assert n_passes <= 22


@pytest.mark.parametrize(
    ("covariance", "tolerance"),
    # A full matrix is shrunk towards the best diagonal one, which has another mode.
    [("full", 3e-3), ("levels", 2e-6), ("pooled", 2e-6), ("separate", 2e-6)],
)
def test_every_structure_is_fitted_as_from_rows(covariance, tolerance):
    X, y, tasks, _ = table("two", n_tasks=20)
    estimator = CrossBayesianLogisticRegression(covariance=covariance, tol=1e-12)
    expected = CrossBayesianLogisticRegression(covariance=covariance, tol=1e-12).fit(X, y, tasks)
    assert_same(by_passes(estimator, X, y, tasks)[0], expected, tolerance)


@pytest.mark.parametrize("epsilon", [0.0, 0.7])
def test_a_bound_holds_as_from_rows(epsilon):
    X, y, tasks, _ = table("two", n_tasks=20)
    given = {"epsilon": epsilon, "covariance": "block", "tol": 1e-12}
    model = by_passes(CrossBayesianLogisticRegression(**given), X, y, tasks)[0]
    assert model.distances_.max() <= epsilon + 1e-7
    assert_same(model, CrossBayesianLogisticRegression(**given).fit(X, y, tasks), 2e-6)


def test_steps_that_go_too_far_are_shortened():
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(60), 15)
    x = rng.normal(size=(900, 1))
    y = rng.poisson(np.exp(np.minimum(2.0 * rng.normal(size=60)[tasks] * (1.0 + x[:, 0]), 9.0)))
    model, _ = by_passes(CrossBayesianGLM("poisson", covariance="block"), x, y, tasks)
    expected = CrossBayesianGLM("poisson", covariance="block").fit(x, y, tasks)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=2e-3)


def test_few_tasks_may_teach_the_variances():
    X, y, tasks, _ = table("two", n_tasks=150)
    half, given = tasks % 2 == 0, {"covariance": "block"}
    model = CrossBayesianLogisticRegression(**given).fit_passes(
        Statistics.of(X, y, tasks), lambda at: at.sums(X, y, tasks), [0, 1], learn_from=75
    )
    expected = CrossBayesianLogisticRegression(**given).fit(X[half], y[half], tasks[half])
    assert model.coef_.shape == (150, 1, 2)
    np.testing.assert_allclose(model.task_sd_, expected.task_sd_, rtol=0.05)


def test_what_does_not_converge_is_said(monkeypatch):
    X, y, tasks, _ = table("two", n_tasks=10)
    monkeypatch.setattr(passes, "_MAX_PASSES", 2)
    with pytest.warns(ConvergenceWarning, match="passes over the rows"):
        by_passes(CrossBayesianLogisticRegression(), X, y, tasks)


def test_sums_of_parts_add_up_and_families_are_told_apart():
    parts = [PassSums.empty(np.array(own), 1) for own in ([0, 2], [1, 2])]
    for part in parts:
        part.counts += 1
    assert sum(parts).counts.tolist() == [1, 1, 2]
    assert sum(parts).tasks.tolist() == [0, 1, 2]
    with pytest.raises(TypeError):
        sum(parts, "x")
    X, y, tasks, _ = table("poisson", n_tasks=5)
    for family in ("gaussian", "student", "gamma"):
        with pytest.raises(ValueError, match="by passes needs family='poisson'"):
            by_passes(CrossBayesianGLM(family), X, y, tasks)
