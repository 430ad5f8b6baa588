"""Families of targets: derivatives, predictive moments, refusals."""

import numpy as np
import pytest
from scipy.linalg import helmert
from scipy.stats import t

from crosslearning.convex.families import (
    Bernoulli,
    Gamma,
    Gaussian,
    Multinomial,
    Poisson,
    Student,
    Tweedie,
    contrasts,
)
from tests.support.families import FAMILIES, named, targets


@pytest.mark.parametrize("family", FAMILIES, ids=named)
def test_derivatives_are_those_of_differences(family):
    rng = np.random.default_rng(0)
    y, q, h = targets(family, 50, rng), family.n_scores, 1e-5
    scores, spread = rng.normal(size=(50, q)), rng.normal(size=(50, q, q))
    spread += spread.swapaxes(1, 2)
    for k, step in enumerate(h * np.eye(q)):
        up, down = scores + step, scores - step
        slope = family.log_density(y, up, 1.0) - family.log_density(y, down, 1.0)
        np.testing.assert_allclose(family.slope(y, scores)[:, k], slope / (2 * h), atol=1e-6)
        bend = family.slope(y, down) - family.slope(y, up)
        np.testing.assert_allclose(family.curvature(y, scores)[:, k], bend / (2 * h), atol=1e-6)
        third = np.sum((family.curvature(y, up) - family.curvature(y, down)) * spread, axis=(1, 2))
        own = family.curvature_slope(y, scores, spread)[:, k]
        np.testing.assert_allclose(own, third / (2 * h), atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES, ids=named)
def test_log_concave(family):
    rng = np.random.default_rng(1)
    y, scores = targets(family, 50, rng), 5.0 * rng.normal(size=(50, family.n_scores))
    assert np.linalg.eigvalsh(family.curvature(y, scores)).min() >= -1e-12


@pytest.mark.parametrize("family", FAMILIES[:5], ids=named)
def test_the_score_has_mean_zero_and_the_variance_is_that_of_the_family(family):
    score = np.array([0.3])
    mean = family.mean(score)
    first, second, _ = family.derivatives(mean, score)  # at the mean of y, by which it is linear
    np.testing.assert_allclose(first, 0.0, atol=1e-12)
    link_slope = (family.mean(score + 1e-6) - family.mean(score - 1e-6)) / 2e-6
    np.testing.assert_allclose(second, link_slope**2 / family.variance(mean), rtol=1e-6)


@pytest.mark.parametrize("family", [Bernoulli(), Poisson(), Gamma(), Gaussian()], ids=named)
def test_predictive_moments_are_those_of_draws(family):
    rng = np.random.default_rng(2)
    draws = family.mean(0.4 + 0.7 * rng.normal(size=400_000))
    mean, variance = family.predictive(np.array([0.4]), np.array([0.49]), dispersion=0.5)
    assert mean == pytest.approx(draws.mean(), rel=0.01)
    expected = draws.var() + 0.5 * family.variance(draws).mean()
    assert variance == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(("size", "tolerance"), [(0.1, 5e-4), (0.5, 5e-4), (3.0, 2e-3)])
def test_averages_over_classes_are_those_of_quadrature(size, tolerance):
    family, scores = Multinomial(3), np.array([[1.0, -0.5], [-2.0, 0.3]])
    covariance = size * np.array([[[0.5, 0.2], [0.2, 0.8]], [[1.0, -0.8], [-0.8, 0.9]]])
    nodes, masses = np.polynomial.hermite_e.hermegauss(60)
    pairs = np.array(np.meshgrid(nodes, nodes)).reshape(2, -1)
    weights = np.outer(masses, masses).ravel() / masses.sum() ** 2
    y = np.array([2.0, 0.0])
    slopes, bends = family.averaged(y, scores, covariance)
    for i in range(2):
        at = scores[i] + (np.linalg.cholesky(covariance[i]) @ pairs).T
        own = np.full(len(at), y[i])
        expected = weights @ family.probabilities(at)
        np.testing.assert_allclose(
            family.predictive(scores, covariance)[i], expected, atol=tolerance
        )
        np.testing.assert_allclose(slopes[i], weights @ family.slope(own, at), atol=tolerance)
        expected = np.tensordot(weights, family.curvature(own, at), 1)
        np.testing.assert_allclose(bends[i], expected, atol=tolerance)


@pytest.mark.parametrize("n_classes", [3, 5, 10])
def test_averages_over_classes_are_those_of_draws_in_any_order(n_classes):
    rng = np.random.default_rng(3)
    family, q = Multinomial(n_classes), n_classes - 1
    scores, root = rng.normal(size=(1, q)), 0.8 * rng.normal(size=(q, q)) / np.sqrt(q)
    covariance = (root @ root.T)[None]
    draws = scores + rng.normal(size=(400_000, q)) @ root.T
    means = family.predictive(scores, covariance)
    np.testing.assert_allclose(means[0], family.probabilities(draws).mean(axis=0), atol=2e-3)
    other = family.basis.T @ family.basis[rng.permutation(n_classes)]
    turned = family.predictive(scores @ other.T, other @ covariance @ other.T)
    np.testing.assert_allclose(np.sort(turned), np.sort(means), rtol=1e-9)
    certain = family.predictive(scores, np.zeros((1, q, q)))
    np.testing.assert_allclose(certain, family.probabilities(scores))


@pytest.mark.parametrize("n_classes", [3, 4, 9])
def test_contrasts_are_the_same_on_every_machine(n_classes):
    np.testing.assert_allclose(contrasts(n_classes), helmert(n_classes).T, atol=1e-15)


def test_extreme_scores_are_finite():
    for family in FAMILIES:
        y = targets(family, 4, np.random.default_rng(4))
        for size in (-1e3, 1e3):
            scores = np.full((4, family.n_scores), size)
            assert np.isfinite(family.log_density(y, scores, 1.0)).all()
            assert np.isfinite(family.slope(y, scores)).all()
            assert np.isfinite(family.curvature(y, scores)).all()


@pytest.mark.parametrize(
    ("family", "y", "match"),
    [
        (Bernoulli(), [0.0, 2.0], r"0 or 1; row 1 is 2\.0"),
        (Poisson(), [-1.0], "at least 0"),
        (Gamma(), [1.0, 0.0], "above 0; row 1"),
        (Tweedie(), [-0.5], "at least 0"),
        (Multinomial(3), [0.0, 3.0], "numbers of classes; row 1"),
    ],
)
def test_impossible_targets_are_named(family, y, match):
    with pytest.raises(ValueError, match=match):
        family.check(np.array(y))


def test_impossible_parameters_are_named():
    with pytest.raises(ValueError, match=r"between 1 and 2; got 2\.5"):
        Tweedie(2.5)
    with pytest.raises(ValueError, match="must be positive; got 0"):
        Student(0.0)


@pytest.mark.parametrize(("df", "variance"), [(4.0, 2.0), (1.0, np.inf)])
def test_students_density_variance_and_information(df, variance):
    family, errors = Student(df), t.ppf((np.arange(100_000) + 0.5) / 100_000, df)
    squares = errors**2
    np.testing.assert_allclose(family.log_density_of(squares), t.logpdf(errors, df))
    assert family.variance(np.zeros(1))[0] == variance
    precisions = family.precisions(squares)
    assert np.mean(precisions**2 * squares) == pytest.approx(family.information, rel=1e-3)
    shown = family.variance_of_slopes(precisions, squares)
    assert shown == pytest.approx(family.information, rel=1e-3)
    assert family.variance_of_slopes(np.ones(3), np.zeros(3)) == family.information
