"""The evidence at given variances: against dense Gaussians, and its slopes and curvatures."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslearning.convex.evidence.gaussian import GaussianData
from crosslearning.convex.evidence.marginal import ThinLevel
from crosslearning.convex.evidence.search import Structured, groups
from tests.support.evidence_oracles import (
    Rows,
    flat_columns,
    log_evidence,
    weighted_rows,
)

SEEDS = st.integers(0, 2**32 - 1)


def random_root(seed, p):
    """A square root of a covariance: diagonal, diagonal with zeros, or full."""
    rng = np.random.default_rng(seed)
    diagonal = 10.0 ** rng.uniform(-2, 1, size=p)
    kind = seed % 3
    if kind == 1:
        diagonal[rng.integers(p)] = 0.0
    return rng.normal(size=(p, p)) if kind == 2 else diagonal


@given(SEEDS, st.booleans())
@settings(max_examples=30)
def test_log_evidence_is_that_of_the_marginal_gaussian(seed, all_flat):
    rows = weighted_rows(seed)
    flat = flat_columns(3, all_flat=all_flat)
    root, ratio = random_root(seed, 3), 10.0 ** np.random.default_rng(seed).uniform(-2, 2)
    point = GaussianData.of(rows.moments, flat_center=all_flat).at(root, ratio)
    S = np.diag(root**2) if root.ndim == 1 else root @ root.T
    noise = point.noise
    expected = log_evidence(rows, noise * S, noise, noise * ratio, flat)
    assert point.value == pytest.approx(expected, rel=1e-9, abs=1e-7)
    for other in (0.9, 1.1):  # the noise is the best for these ratios
        there = noise * other
        assert log_evidence(rows, there * S, there, there * ratio, flat) < expected


@given(SEEDS)
@settings(max_examples=30)
def test_slopes_are_those_of_differences(seed):
    rows = weighted_rows(seed)
    rng = np.random.default_rng(seed)
    data = GaussianData.of(rows.moments)
    root, ratio, h = rng.normal(size=(3, 3)), 1.5, 1e-5
    point = data.at(root, ratio)
    direction = rng.normal(size=(3, 3))
    up, down = (data.at(root + s * h * direction, ratio).value for s in (1, -1))
    along = 2.0 * np.sum(point.slopes[0] @ root * direction)
    assert along == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-5)
    up, down = (data.at(root, ratio + s * h).value for s in (1, -1))
    assert point.slope_of_ratio.sum() == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-5)


def test_the_slope_at_a_variance_of_zero_is_one_sided_and_finite():
    rows = Rows.random(3)
    data = GaussianData.of(rows.moments)
    for j in range(3):
        variances = np.array([0.3, 0.2, 0.1])
        variances[j] = 0.0
        point = data.at(np.sqrt(variances), 1.0)
        variances[j] = h = 1e-7
        slope = (data.at(np.sqrt(variances), 1.0).value - point.value) / h
        assert point.slopes[0][j, j] == pytest.approx(slope, rel=1e-3)


def test_a_narrow_centre_beside_tasks_that_differ_much_is_exact():
    rows = Rows.random(1, n_tasks=6, n=120)
    data, root = GaussianData.of(rows.moments), np.full(3, 1e4)
    narrow, zero = data.at(root, 1e-8), data.at(root, 1e-16)
    assert narrow.center.n_flat == zero.center.n_flat == 1  # the intercept
    assert narrow.value == pytest.approx(zero.value, abs=1e-6)
    assert narrow.slope_of_ratio[0] == pytest.approx(zero.slope_of_ratio[0], rel=1e-6)
    for ratio in (1e2, 1e6):
        point, h = data.at(root, ratio), 1e-2 * ratio
        up, down = (data.at(root, ratio + s * h).value for s in (1, -1))
        assert ratio * point.slope_of_ratio.sum() == pytest.approx((up - down) / 0.02, rel=1e-3)


def test_each_column_may_have_its_own_prior():
    rows, flat = weighted_rows(3), flat_columns(3)
    data, root = GaussianData.of(rows.moments), random_root(3, 3)
    ratio, h = np.array([0.3, 2.0, 1.0]), 1e-5
    point = data.at(root, ratio)
    S = root @ root.T if root.ndim == 2 else np.diag(root**2)
    expected = log_evidence(rows, point.noise * S, point.noise, point.noise * ratio, flat)
    assert point.value == pytest.approx(expected, abs=1e-8)
    steps = h * np.eye(3)
    rise = [data.at(root, ratio + d).value - data.at(root, ratio - d).value for d in steps]
    np.testing.assert_allclose(point.slope_of_ratio, np.array(rise) / (2 * h), atol=1e-6)


@pytest.mark.parametrize(
    ("structure", "blocks"), [("block", [0, 0, 0]), ("block", [1, 0, 0]), ("diagonal", [0, 0, 0])]
)
def test_the_observed_curvature_is_that_of_differences(structure, blocks):
    rows = weighted_rows(0)
    data = GaussianData.of(rows.moments)
    group = groups(structure, np.arange(3), np.array(blocks), intercept=True)
    group = np.array([group, group.max() + 1 + np.array(blocks)])
    n = group.max() + 1

    def at(variances):
        return Structured(variances, np.zeros(n, dtype=bool), group, data.at)

    x, h = np.array([1.5, 0.8, 1.2, 1.0, 2.0])[-n:], 1e-4
    differences = np.array([(at(x - s).slope - at(x + s).slope) / (2 * h) for s in h * np.eye(n)])
    np.testing.assert_allclose(at(x).observed, differences, rtol=1e-5, atol=1e-6)


def test_the_expected_curvature_is_the_mean_of_the_observed_one():
    rng = np.random.default_rng(0)
    rows = Rows.random(1, n_tasks=5, n=30)
    variances = np.array([0.5, 0.1, 1.0])
    observed, expected = [], []
    for _ in range(300):
        thetas = rng.normal(size=(5, 3)) * np.sqrt(variances)
        y = np.sum(rows.X * thetas[rows.tasks], axis=1) + rng.normal(size=30)
        data = GaussianData.of(Rows(rows.X, y, rows.tasks, rows.weights).moments, flat_center=True)
        point = Structured(
            np.append(variances, 1.0),
            np.arange(4) == 3,
            np.array([np.arange(3), [3, 3, 3]]),
            data.at,
        )
        observed.append(point.observed * point.point.noise)
        expected.append(point.expected * point.point.noise)
    unit = np.sqrt(np.diagonal(expected[0]))
    gap = (np.mean(observed, axis=0) - np.mean(expected, axis=0)) / np.outer(unit, unit)
    assert np.abs(gap).max() < 0.25


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_few_rows_and_many_columns_take_the_smaller_side(kind):
    rng = np.random.default_rng(kind)
    n_tasks, p = 7, 24
    tasks = np.repeat(np.arange(n_tasks), rng.integers(1, 11, size=n_tasks))
    X = np.column_stack([rng.normal(size=(len(tasks), p - 1)), np.ones(len(tasks))])
    X[:, 3] = 0.0
    rows = Rows(X, 1e3 * rng.normal(size=len(tasks)), tasks, rng.uniform(0.5, 2, len(tasks)))
    data = GaussianData.of(rows.moments)
    root = random_root(kind, p)
    group = groups("block", np.arange(p), np.zeros(p, dtype=int), intercept=True)
    point = data.at(root, 1.5)
    assert isinstance(point.marginal.levels[0], ThinLevel)
    vars(data)["_factors"] = None
    wide = data.at(root, 1.5)
    for name in ("value", "slopes", "slope_of_ratio"):
        expected = getattr(wide, name)
        unit = np.abs(expected).max()
        np.testing.assert_allclose(
            np.divide(getattr(point, name), unit), expected / unit, atol=1e-8
        )
    each = np.arange(2 * p).reshape(2, p)
    for thin, full in zip(point.expected_parts, wide.expected_parts, strict=True):
        np.testing.assert_allclose(thin, full, atol=1e-8 * np.abs(full).max())
    group = np.array([group, np.full(p, group.max() + 1)])
    pairs = [
        (point.expected(each), wide.expected(each)),
        (point.observed(each), wide.observed(each)),
        (point.between(group), wide.between(group)),
        (point.marginal.residuals[0], wide.marginal.residuals[0]),
        (point.marginal.information[0], wide.marginal.information[0]),
    ]
    for thin, full in pairs:
        np.testing.assert_allclose(thin, full, atol=1e-8 * np.abs(full).max())


def test_groups_of_parameters():
    columns, one = np.array([0, 0, 1, 1, 2, 2]), np.zeros(3, dtype=int)
    np.testing.assert_array_equal(groups("block", columns, one, intercept=True), [0, 0, 0, 0, 1, 1])
    np.testing.assert_array_equal(groups("block", columns, one, intercept=False), np.zeros(6))
    np.testing.assert_array_equal(groups("diagonal", columns, one, intercept=True), columns)
    np.testing.assert_array_equal(groups("block", one[:1], one, intercept=True), [0])
    two = groups("block", columns, np.array([1, 0, 1]), intercept=True)
    np.testing.assert_array_equal(two, [1, 1, 0, 0, 2, 2])
