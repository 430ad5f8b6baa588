"""The fit that maximises the evidence: posterior, EM, exact limits, invariances, awkward data."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslearning.convex.evidence.gaussian import evidence_fit
from crosslearning.convex.evidence.posterior import EvidenceStatus
from crosslearning.convex.families import Gaussian
from crosslearning.convex.sums.rows import quadratic_forms, score_covariances
from crosslearning.convex.sums.statistics import Statistics
from tests.support.evidence_oracles import (
    Rows,
    em_step,
    flat_columns,
    glm_rows,
    log_evidence,
    new_tasks_of,
    posterior,
    weighted_rows,
)

SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("structure", ["block", "full"])
def test_the_units_of_a_block_do_not_matter(structure):
    rows, factors = Rows.random(1, n_tasks=12, p=5, n=150), np.array([1.0, 1.0, 30.0, 30.0, 1.0])
    other = replace(rows, X=rows.X * factors)
    blocks = np.array([1, 1, 0, 0, 0])
    fit, scaled = (
        evidence_fit(r.moments, structure, blocks=blocks, tol=1e-9) for r in (rows, other)
    )
    assert fit.log_evidence == pytest.approx(scaled.log_evidence, abs=1e-4)
    np.testing.assert_allclose(fit.thetas, scaled.thetas * factors, rtol=1e-2, atol=1e-3)
    assert fit.center_variances[0] == fit.center_variances[1] != fit.center_variances[2]
    if structure == "block":
        shared = evidence_fit(rows.moments, structure, tol=1e-9)
        assert fit.log_evidence >= shared.log_evidence


@given(SEEDS)
@settings(max_examples=20)
def test_the_posterior_is_that_of_the_joint_gaussian(seed):
    rows = weighted_rows(seed)
    fit = evidence_fit(rows.moments, "diagonal")
    Sigma = fit.task_covariance + 1e-9 * fit.noise_variance * np.eye(3)  # the oracle inverts it
    means, covariance = posterior(
        rows, Sigma, fit.noise_variance, fit.center_variances[0], flat_columns(3)
    )
    blocks = covariance.reshape(7, 3, 7, 3)
    np.testing.assert_allclose(fit.center, means[0], atol=1e-6)
    np.testing.assert_allclose(fit.posterior.center_covariance, blocks[0, :, 0], atol=1e-6)
    np.testing.assert_allclose(fit.thetas, means[1:], atol=1e-6)
    own = fit.posterior.covariances[0]
    for i in range(6):
        np.testing.assert_allclose(own[i], blocks[i + 1, :, i + 1], atol=1e-6)
    x, unseen = rows.X[:5], fit.posterior.center_covariance + fit.task_covariance
    variances = score_covariances(x, np.array([0, 1, 5, -1, -1]), own, unseen)[:, 0, 0]
    spread = [own[0], own[1], own[5], unseen, unseen]
    np.testing.assert_allclose(variances, [v @ K @ v for v, K in zip(x, spread, strict=True)])


def test_a_new_task_has_the_posterior_of_a_known_prior():
    rows, new = Rows.random(0), Rows.random(9, n_tasks=2)
    fit = evidence_fit(rows.moments, "full")
    glm = glm_rows(new.X, new.y, new.tasks, 2, Gaussian(), weights=new.weights)
    thetas, covariances = new_tasks_of(glm, fit)
    prior = np.linalg.inv(fit.task_covariance + fit.posterior.center_covariance)
    for i in range(2):
        X, y = new.X[new.tasks == i], new.y[new.tasks == i]
        K = np.linalg.inv(X.T @ X / fit.noise_variance + prior)
        np.testing.assert_allclose(covariances[i], K, rtol=1e-8, atol=1e-12)
        mean = K @ (X.T @ y / fit.noise_variance + prior @ fit.center)
        np.testing.assert_allclose(thetas[i], mean, rtol=1e-8)


@pytest.mark.parametrize("all_flat", [False, True])
def test_em_climbs_to_the_same_maximum_and_never_falls(all_flat):
    rows, flat = weighted_rows(5, n_tasks=8, n=80), flat_columns(3, all_flat=all_flat)
    fit = evidence_fit(rows.moments, "diagonal", flat_center=all_flat, tol=1e-12)
    state = (np.eye(3), 1.0, 1.0)
    values = [log_evidence(rows, *state, flat)]
    for _ in range(60):
        state = em_step(rows, *state, flat)
        values.append(log_evidence(rows, *state, flat))
    assert np.all(np.diff(values) >= -1e-9)
    assert fit.log_evidence >= values[-1] - 1e-9
    best = (fit.task_covariance, fit.noise_variance, fit.center_variances[0])
    assert fit.log_evidence == pytest.approx(log_evidence(rows, *best, flat), abs=1e-7)
    if np.all(np.diagonal(fit.task_covariance) > 0):
        again = em_step(rows, *best, flat)
        np.testing.assert_allclose(again[0], best[0], rtol=1e-3)
        assert again[1] == pytest.approx(best[1], rel=1e-4)


@pytest.mark.parametrize("structure", ["block", "diagonal", "full"])
def test_known_variances_are_recovered(structure):
    rng = np.random.default_rng(0)
    n_tasks, n = 1500, 15000
    tasks = rng.integers(n_tasks, size=n)
    X = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])
    deviations = {"block": [0.7, 0.7, 2.0]}.get(structure, [0.0, 0.7, 2.0])
    mixing = np.diag(deviations)
    if structure == "full":
        mixing[2, 1] = 1.5
    thetas = np.array([1.0, -1.0, 3.0]) + rng.normal(size=(n_tasks, 3)) @ mixing.T
    y = np.sum(X * thetas[tasks], axis=1) + 0.5 * rng.normal(size=n)
    moments = glm_rows(X, y, tasks, n_tasks, Gaussian()).moments()
    fit = evidence_fit(moments, structure)
    np.testing.assert_allclose(fit.task_covariance, mixing @ mixing.T, atol=0.25, rtol=0.07)
    assert fit.noise_variance == pytest.approx(0.25, rel=0.05)
    np.testing.assert_allclose(fit.center, [1.0, -1.0, 3.0], atol=0.2)
    assert evidence_fit(moments, "auto").structure == structure


def test_tasks_that_do_not_differ_are_pooled_exactly():
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.normal(size=(600, 2)), np.ones(600)])
    tasks = np.arange(600) % 20
    noise = rng.normal(size=600)
    for i in range(20):  # residuals that no task could fit better than the others
        own = tasks == i
        noise[own] -= X[own] @ np.linalg.lstsq(X[own], noise[own], rcond=None)[0]
    y = X @ [1.0, 2.0, 3.0] + noise
    for structure in ("block", "diagonal", "full", "auto"):
        fit = evidence_fit(glm_rows(X, y, tasks, 20, Gaussian()).moments(), structure)
        assert not fit.task_covariance.any()
        assert np.all(fit.thetas == fit.center)
        ratio = fit.noise_variance / fit.center_variances[0]
        ridge = np.linalg.solve(X.T @ X + np.diag([ratio, ratio, 0.0]), X.T @ y)
        np.testing.assert_allclose(fit.center, ridge, rtol=1e-10)
        covariances = fit.posterior.covariances[0]
        np.testing.assert_array_equal(covariances[3], fit.posterior.center_covariance)


def test_tasks_that_differ_without_bounds_are_separate():
    rows = Rows.random(1, n_tasks=6, n=120, spread=1e6)
    fit = evidence_fit(rows.moments, "diagonal")
    for i in range(6):
        own = rows.tasks == i
        alone = np.linalg.lstsq(rows.X[own], rows.y[own], rcond=None)[0]
        np.testing.assert_allclose(fit.thetas[i], alone, rtol=1e-6)


def fitted(X, y, tasks, structure="diagonal", **options):
    statistics = Statistics.of(X, y, tasks)
    scaling = statistics.scaling()
    moments = statistics.moments(scaling)
    fit = evidence_fit(moments, structure, **options)
    columns = scaling.columns(X, intercept=True)
    codes = np.searchsorted(statistics.labels, tasks)
    mean = np.sum(columns * fit.thetas[codes], axis=1) + moments.target_mean
    variance = quadratic_forms(columns, codes, fit.posterior.covariances[0]) + fit.noise_variance
    return fit, mean, variance


@pytest.mark.parametrize("structure", ["block", "diagonal", "full"])
def test_units_and_order_do_not_matter(structure):
    rows = Rows.random(4, n_tasks=9, n=90)
    X, tasks = rows.X[:, :2], rows.tasks
    fit, mean, variance = fitted(X, rows.y, tasks, structure)
    other = fitted(X * [1e-6, 1e5] + [1.0, -1e5], rows.y * 1e4 - 7e4, 8 - tasks, structure)
    np.testing.assert_allclose((other[1] + 7e4) / 1e4, mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(other[2] / 1e8, variance, rtol=1e-4)
    np.testing.assert_allclose(
        other[0].task_covariance / 1e8, fit.task_covariance, rtol=1e-3, atol=1e-4
    )
    n_flat = 1
    change = (len(rows.y) - n_flat) * np.log(1e4)
    assert other[0].log_evidence + change == pytest.approx(fit.log_evidence, abs=1e-4)


def test_weights_are_precisions():
    rows = weighted_rows(7, n_tasks=10, n=100)
    fit = evidence_fit(rows.moments)
    doubled = evidence_fit(Rows(rows.X, rows.y, rows.tasks, 2 * rows.weights).moments)
    assert doubled.noise_variance == pytest.approx(2 * fit.noise_variance, rel=1e-4)
    assert doubled.log_evidence == pytest.approx(fit.log_evidence, abs=1e-6)


def test_many_tasks_begin_with_a_sample(monkeypatch):
    rng = np.random.default_rng(0)
    n_tasks, n = 10_000, 40_000
    tasks = rng.integers(n_tasks, size=n)
    X = rng.normal(size=(n, 1))
    y = X[:, 0] + rng.normal(size=n_tasks)[tasks] + rng.normal(size=n)
    whole = fitted(X, y, tasks)[0]
    monkeypatch.setattr("crosslearning.convex.evidence.gaussian._SAMPLE", 500)
    begun = fitted(X, y, tasks, "auto")[0]
    assert begun.n_iter <= whole.n_iter
    assert begun.log_evidence >= fitted(X, y, tasks, "block")[0].log_evidence - 1e-6
    assert whole.task_covariance[1, 1] == pytest.approx(1.0, abs=0.06)


def test_intervals_cover_what_they_say():
    rng = np.random.default_rng(1)
    hits = []
    for _ in range(20):
        n_tasks, n = 30, 400
        tasks = rng.integers(n_tasks, size=n)
        X = rng.normal(size=(n, 2))
        thetas = rng.normal(size=(n_tasks, 3)) * [0.3, 0.6, 1.0]
        mean = np.sum(X * thetas[tasks, :2], axis=1) + thetas[tasks, 2]
        y = mean + rng.normal(size=n)
        _, predicted, variance = fitted(X, y, tasks)
        fresh = mean + rng.normal(size=n)
        hits.append(np.abs(fresh - predicted) < 1.645 * np.sqrt(variance))
    assert np.mean(hits) == pytest.approx(0.9, abs=0.02)


@st.composite
def awkward(draw):
    rng = np.random.default_rng(draw(SEEDS))
    n_tasks = draw(st.sampled_from([1, 2, 3, 12]))
    p = draw(st.sampled_from([0, 1, 3, 15]))
    size = draw(st.sampled_from([1, 2, 6, 30]))
    tasks = np.repeat(np.arange(n_tasks), rng.integers(1, size + 1, size=n_tasks))
    n = len(tasks)
    X = rng.normal(size=(n, p))
    for change in draw(st.lists(st.sampled_from(["constant", "copy", "own", "far", "huge"]))):
        if p:
            j = rng.integers(p)
            X[:, j] = {
                "constant": np.full(n, 1 / 3),
                "copy": X[:, 0],
                "own": rng.normal(size=n_tasks)[tasks],
                "far": 1e8 + X[:, j],
                "huge": 1e12 * X[:, j],
            }[change]
    kind = draw(st.sampled_from(["noise", "perfect", "constant", "zero", "levels", "wild"]))
    y = {
        "noise": rng.normal(size=n),
        "perfect": X.sum(axis=1) + 1.0,
        "constant": np.full(n, 1e3),
        "zero": np.zeros(n),
        "levels": rng.normal(size=n_tasks)[tasks],
        "wild": rng.standard_cauchy(size=n) * 1e6,
    }[kind]
    return X, y, tasks


@given(awkward(), st.sampled_from(["auto", "block", "diagonal", "full"]), st.booleans())
def test_never_a_nan(table, structure, flat_center):
    X, y, tasks = table
    fit, mean, variance = fitted(X, y, tasks, structure, flat_center=flat_center)
    for array in (
        fit.thetas,
        fit.center,
        fit.task_covariance,
        fit.posterior.center_covariance,
        mean,
    ):
        assert np.isfinite(array).all()
    assert np.isfinite([fit.log_evidence, fit.noise_variance]).all()
    assert fit.noise_variance > 0
    assert np.all(np.diagonal(fit.task_covariance) >= 0)
    assert np.all(variance >= fit.noise_variance * (1 - 1e-6))
    assert isinstance(fit.status, EvidenceStatus)
    if tasks.max() == 0:
        assert not fit.task_covariance.any()


def test_a_perfect_fit_is_reported():
    rows = Rows.random(0, noise=0.0, spread=0.0, n_tasks=5, n=100)
    fit = evidence_fit(rows.moments)
    assert fit.status is EvidenceStatus.NOISELESS
    assert fit.noise_variance <= 1e-12 * np.var(rows.y)
    np.testing.assert_allclose(np.sum(rows.X * fit.thetas[rows.tasks], axis=1), rows.y, atol=1e-5)


def test_stopping_early_is_reported():
    fit = evidence_fit(Rows.random(0).moments, "diagonal", max_iter=2)
    assert fit.status is EvidenceStatus.MAX_ITER


def test_bad_input_is_named():
    moments = Rows.random(0).moments
    with pytest.raises(ValueError, match="'spherical'"):
        evidence_fit(moments, "spherical")


@pytest.mark.parametrize("covariance", ["pooled", "levels", "block", "full", "separate"])
def test_variances_of_a_sample_give_the_posterior_of_all_tasks(covariance):
    rng = np.random.default_rng(4)
    tasks, X = np.repeat(np.arange(60), 8), rng.normal(size=(480, 2))
    y = np.einsum("rj,rj->r", X, rng.normal(size=(60, 2))[tasks]) + rng.normal(size=480)
    statistics = Statistics.of(X, y, tasks)
    moments = statistics.moments(statistics.scaling())
    sample = evidence_fit(moments.take(slice(None, None, 3)), covariance)
    fit = evidence_fit(moments, covariance, learn_from=20)
    relative = fit.task_covariance / fit.noise_variance
    np.testing.assert_allclose(relative, sample.task_covariance / sample.noise_variance, atol=1e-10)
    whole = evidence_fit(moments, covariance, learn_from=60)
    np.testing.assert_allclose(whole.thetas, evidence_fit(moments, covariance).thetas)
    # The posterior mean of every task by its own normal equations.
    A, b = moments.products[:, :-1, :-1], moments.products[:, :-1, -1]
    for theta, own, right in zip(fit.thetas, A, b, strict=True):
        gap = right - own @ fit.center
        expected = fit.center + relative @ np.linalg.solve(np.eye(3) + own @ relative, gap)
        np.testing.assert_allclose(theta, expected, atol=1e-8)
