"""Groups within groups, against the multivariate normal of all rows and against mixed models."""

import warnings

import numpy as np
import pandas as pd
import pytest
from statsmodels.regression.mixed_linear_model import MixedLM

from crosslearning.convex.evidence.gaussian import GaussianData, evidence_fit
from crosslearning.convex.evidence.marginal import Hierarchy, Marginal
from crosslearning.convex.evidence.search import Structured
from tests.support.evidence_oracles import level_variances
from tests.support.nested import NestedRows

VARIANCES, PRECISION = np.array([[0.5, 0.2], [0.0, 0.7]]), np.array([0.8, 0.3])


@pytest.fixture(scope="module")
def rows():
    return NestedRows()


@pytest.fixture(scope="module")
def marginal(rows):
    return Marginal(
        products=rows.moments.products,
        hierarchy=rows.hierarchy,
        roots=np.sqrt(VARIANCES),
        precision=PRECISION,
    )


def test_the_evidence_is_that_of_a_multivariate_normal(rows, marginal):
    V = rows.covariance(VARIANCES, PRECISION)
    v = np.append(-marginal.center.beta, 1.0)
    squares = v @ marginal.total @ v + PRECISION @ marginal.center.beta**2
    assert squares == pytest.approx(rows.y @ np.linalg.solve(V, rows.y), rel=1e-12)
    log_det = marginal.log_det + marginal.center.log_det - np.log(PRECISION).sum()
    assert log_det == pytest.approx(np.linalg.slogdet(V)[1], rel=1e-12)


@pytest.mark.parametrize("task", [0, 17])
def test_posteriors_are_those_of_the_joint_normal(rows, marginal, task):
    V = rows.covariance(VARIANCES, PRECISION)
    group = rows.parent[task]
    of_center = rows.X / PRECISION
    of_group = of_center + (rows.groups == group)[:, None] * rows.X * VARIANCES[1]
    of_task = of_group + (rows.tasks == task)[:, None] * rows.X * VARIANCES[0]
    prior = np.diag(1.0 / PRECISION)
    levels = ((0, task, of_task, 2), (1, group, of_group, 1), (2, 0, of_center, 0))
    covariances = [marginal.task_posteriors[0], *(each for each, _ in marginal.group_posteriors)]
    for level, unit, shared, n in levels:
        mean = shared.T @ np.linalg.solve(V, rows.y)
        np.testing.assert_allclose(marginal.means[level][unit], mean, rtol=1e-9, atol=1e-12)
        own = prior + np.diag(VARIANCES[2 - n :].sum(axis=0)) if n else prior
        expected = own - shared.T @ np.linalg.solve(V, shared)
        np.testing.assert_allclose(covariances[level][unit], expected, atol=1e-12)


def test_average_information_is_a_quadratic_form(rows, marginal):
    vectors = np.random.default_rng(1).normal(size=(len(rows.parent), 2, 3))
    f = np.einsum("np,npk->nk", rows.X, vectors[rows.tasks])
    information = marginal.average_information(lambda part: vectors[part], 3)
    expected = f.T @ np.linalg.solve(rows.covariance(VARIANCES, PRECISION), f)
    np.testing.assert_allclose(information, expected, rtol=1e-10)


def test_slopes_are_derivatives(rows):
    data = GaussianData.of(rows.moments, rows.hierarchy)
    group = np.array([[0, 1], [2, 3], [4, 4]])

    def at(variances):
        return Structured(variances, np.zeros(5, dtype=bool), group, data.at)

    here, step = np.array([0.3, 0.6, 0.2, 0.9, 1.5]), 1e-5 * np.eye(5)
    numeric = [(at(here + h).value - at(here - h).value) / 2e-5 for h in step]
    np.testing.assert_allclose(at(here).slope, numeric, rtol=1e-6, atol=1e-6)


def test_one_group_of_all_tasks_is_one_level(rows):
    n = len(rows.parent)
    everyone = Hierarchy((np.zeros(n, dtype=np.intp), np.zeros(1, dtype=np.intp)))
    nested = evidence_fit(rows.moments, "diagonal", groups=everyone, tol=1e-10)
    single = evidence_fit(rows.moments, "diagonal", tol=1e-10)
    assert nested.log_evidence == pytest.approx(single.log_evidence, abs=1e-7)
    np.testing.assert_allclose(level_variances(nested)[1], 0.0)
    np.testing.assert_allclose(
        level_variances(nested)[0], np.diagonal(single.task_covariance), rtol=1e-4
    )
    np.testing.assert_allclose(nested.means[0], single.thetas, rtol=1e-4, atol=1e-5)


def test_random_intercepts_agree_with_a_mixed_model(rows):
    rows = NestedRows(1, group_sd=(0.0, 1.0), task_sd=(0.0, 0.7))
    fit = evidence_fit(rows.moments, "levels", groups=rows.hierarchy, tol=1e-10)
    table = pd.DataFrame({"y": rows.y, "x": rows.X[:, 0], "g": rows.groups, "t": rows.tasks})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about its own convergence
        mixed = MixedLM.from_formula(
            "y ~ x", table, groups="g", re_formula="1", vc_formula={"t": "0 + C(t)"}
        ).fit(reml=True)
    assert level_variances(fit)[0, 1] == pytest.approx(mixed.vcomp[0], rel=0.01)
    assert level_variances(fit)[1, 1] == pytest.approx(mixed.cov_re.iloc[0, 0], rel=0.01)
    assert fit.noise_variance == pytest.approx(mixed.scale, rel=0.01)
    np.testing.assert_allclose(fit.center, mixed.fe_params[["x", "Intercept"]], rtol=0.01)


def test_random_slopes_agree_with_a_mixed_model():
    rows = NestedRows(2, n_groups=15)
    fit = evidence_fit(rows.moments, "diagonal", groups=rows.hierarchy, tol=1e-10)
    table = pd.DataFrame({"y": rows.y, "x": rows.X[:, 0], "g": rows.groups, "t": rows.tasks})
    parts = {"gx": "0 + x", "t": "0 + C(t)", "tx": "0 + C(t):x"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mixed = MixedLM.from_formula(
            "y ~ x", table, groups="g", re_formula="1", vc_formula=parts
        ).fit(reml=True)
    components = dict(zip(mixed.model.exog_vc.names, mixed.vcomp, strict=True))
    assert level_variances(fit)[0, 0] == pytest.approx(components["tx"], rel=0.01)
    assert level_variances(fit)[0, 1] == pytest.approx(components["t"], rel=0.01)
    assert level_variances(fit)[1, 0] == pytest.approx(components["gx"], rel=0.01)
    assert level_variances(fit)[1, 1] == pytest.approx(mixed.cov_re.iloc[0, 0], rel=0.01)


def test_variances_are_recovered():
    rows = NestedRows(3, n_groups=120, n_tasks=6)
    fit = evidence_fit(rows.moments, groups=rows.hierarchy)
    sds = np.sqrt(level_variances(fit))
    np.testing.assert_allclose(sds, [[0.3, 0.7], [0.5, 1.0]], rtol=0.15)
    lower, upper = fit.variance_law.interval(0.99)
    truth = np.array([0.3, 0.7, 0.5, 1.0]) ** 2
    assert np.all((lower < truth) & (truth < upper))


def test_a_level_without_effect_has_no_variance():
    shares = []
    for seed in range(8):
        rows = NestedRows(seed, group_sd=(0.0, 0.0))
        shares.append(
            evidence_fit(rows.moments, "levels", groups=rows.hierarchy).level_covariances[1, 1, 1]
        )
    assert 2 <= np.count_nonzero(np.array(shares) == 0.0) <= 7  # exactly; half of them on average
    assert max(shares) < 0.2


def test_levels_that_cannot_be_told_apart_share_one_variance():
    rows = NestedRows(0, n_groups=30, n_tasks=1)
    fit = evidence_fit(rows.moments, "levels", groups=rows.hierarchy)
    assert level_variances(fit)[1, 1] == 0.0 < level_variances(fit)[0, 1]


def test_three_levels(rows):
    regions = np.arange(12) // 3
    hierarchy = Hierarchy((rows.parent, regions, np.zeros(4, dtype=np.intp)))
    three = evidence_fit(rows.moments, "diagonal", groups=hierarchy, tol=1e-9)
    two = evidence_fit(rows.moments, "diagonal", groups=rows.hierarchy, tol=1e-9)
    assert level_variances(three).shape == (3, 2)
    assert three.log_evidence >= two.log_evidence - 1e-6


def test_structures_that_levels_do_not_have_are_refused(rows):
    with pytest.raises(ValueError, match="got 'full'"):
        evidence_fit(rows.moments, "full", groups=rows.hierarchy)
