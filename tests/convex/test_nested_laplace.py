"""Groups within groups for classes and counts."""

import numpy as np
import pytest

from crosslearning.convex.evidence.laplace import laplace_fit
from crosslearning.convex.evidence.marginal import Hierarchy
from crosslearning.convex.families import (
    Bernoulli,
    Gamma,
    Multinomial,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Quantile,
    Student,
)
from tests.support.evidence_oracles import glm_rows, level_variances
from tests.support.families import named
from tests.support.nested import NestedRows

FAMILIES = [
    Bernoulli(), Multinomial(3), Ordinal((0.0, 1.0)), Poisson(), NegativeBinomial(), Gamma()
]  # fmt: skip


def drawn(family, score, seed=0):
    rng = np.random.default_rng(seed)
    if isinstance(family, Bernoulli):
        return 1.0 * (rng.random(len(score)) < 1.0 / (1.0 + np.exp(-score)))
    if isinstance(family, Multinomial | Ordinal):
        return 1.0 * np.digitize(score + rng.logistic(size=len(score)), [1.0, 3.0])
    mean = np.exp(0.5 * score)
    if isinstance(family, NegativeBinomial):
        mean = rng.gamma(2.0, 0.5 * mean)
    return 1.0 * rng.poisson(mean) if isinstance(family, Poisson) else rng.gamma(2.0, mean / 2.0)


@pytest.mark.parametrize("family", FAMILIES, ids=named)
def test_one_group_of_all_tasks_is_one_level(family):
    nested = NestedRows(n_groups=5)
    n = len(nested.parent)
    rows = glm_rows(nested.X, drawn(family, nested.score), nested.tasks, n, family)
    everyone = Hierarchy((np.zeros(n, dtype=np.intp), np.zeros(1, dtype=np.intp)))
    fit = laplace_fit(rows, groups=everyone, covariance="block", tol=1e-9)
    single = laplace_fit(rows, covariance="block", tol=1e-9)
    # A dispersion is settled to 1e-4, a shape to 1e-3.
    tolerance = 1e-3 if family.has_dispersion or len(family.shape) else 1e-6
    assert fit.log_evidence == pytest.approx(single.log_evidence, abs=tolerance)
    variances = np.diagonal(single.task_covariance)
    np.testing.assert_allclose(level_variances(fit)[0], variances, rtol=3e-3, atol=1e-7)
    np.testing.assert_allclose(fit.family.shape, single.family.shape, atol=3e-3)
    posterior, expected = fit.posterior, single.posterior
    np.testing.assert_allclose(posterior.means[0], expected.means[0], rtol=0.01, atol=2e-3)
    np.testing.assert_allclose(posterior.center, expected.center, rtol=0.01, atol=2e-3)


@pytest.mark.parametrize("family", [Bernoulli(), Poisson()], ids=str)
def test_variances_are_recovered(family):
    nested = NestedRows(5, n_groups=60, n=30)
    n = len(nested.parent)
    rows = glm_rows(nested.X, drawn(family, nested.score), nested.tasks, n, family)
    fit = laplace_fit(rows, groups=nested.hierarchy)
    truth = np.array([[0.3, 0.7], [0.5, 1.0]]) * (0.5 if isinstance(family, Poisson) else 1.0)
    np.testing.assert_allclose(np.sqrt(level_variances(fit)), truth, atol=0.25)
    lower, upper = fit.variance_law.interval(0.99)
    assert np.all((lower < truth.ravel() ** 2) & (truth.ravel() ** 2 < upper))


def test_two_levels_explain_more_than_one():
    nested, family = NestedRows(n_groups=10), Bernoulli()
    n = len(nested.parent)
    rows = glm_rows(nested.X, drawn(family, nested.score), nested.tasks, n, family)
    fit = laplace_fit(rows, groups=nested.hierarchy, covariance="block")
    assert fit.log_evidence >= laplace_fit(rows, covariance="block").log_evidence


def test_outliers_matter_little_to_student_targets():
    nested = NestedRows(6, n_groups=40, task_sd=(0.6, 0.7))
    outliers = np.arange(len(nested.y)) % 20 == 0
    y = nested.y + 30.0 * outliers * np.random.default_rng(0).choice([-1.0, 1.0], len(nested.y))
    rows = glm_rows(nested.X, y, nested.tasks, len(nested.parent), Student())
    fit = laplace_fit(rows, groups=nested.hierarchy)
    truth = [[0.6, 0.7], [0.5, 1.0]]
    np.testing.assert_allclose(np.sqrt(level_variances(fit)), truth, atol=0.25)
    np.testing.assert_allclose(fit.center, [1.0, 2.0], atol=0.4)


def test_quantiles_are_refused():
    nested = NestedRows(n_groups=3)
    rows = glm_rows(nested.X, nested.y, nested.tasks, len(nested.parent), Quantile())
    with pytest.raises(ValueError, match="another family than 'quantile'"):
        laplace_fit(rows, groups=nested.hierarchy)
