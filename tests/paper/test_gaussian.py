"""The Gaussian example against quadrature, finite differences, simulation and the projection."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import erf
from scipy.stats import norm

from crosslearning.coupling import project
from crosslearning.paper.gaussian import (
    beneficial_from,
    best_max_gap,
    cross_means,
    james_stein,
    monte_carlo,
    mse,
    mse_derivative,
    two_means,
)

gaps = st.floats(0.0, 20.0)
max_gaps = st.floats(0.0, 40.0)
sigmas = st.floats(0.05, 5.0)
grid = pytest.mark.parametrize(
    ("gap", "sigma_m"), [(g, s) for g in (0.01, 0.3, 1.0, 2.0, 7.0, 50.0) for s in (0.1, 1.0, 3.0)]
)


def quadrature(max_gap, gap, sigma_m):
    """Mean squared error by integration over the half difference of the sample means."""
    half = norm(gap / 2, sigma_m / math.sqrt(2))
    kinks = [-max_gap / 2, max_gap / 2]
    ends = gap / 2 + np.array([-12, 12]) * sigma_m
    breaks = [ends[0], *(k for k in kinks if ends[0] < k < ends[1]), ends[1]]
    pieces = [
        quad(
            lambda w: (np.clip(w, *kinks) - gap / 2) ** 2 * half.pdf(w),
            a,
            b,
            points=[gap / 2] if a < gap / 2 < b else None,
        )[0]
        for a, b in pairwise(breaks)
    ]
    return sigma_m**2 / 2 + sum(pieces)


# The error in closed form


@pytest.mark.parametrize(("max_gap", "value"), [(0, 1.5), (2, 0.74785), (6, 0.99785)])
def test_mse_known_values(max_gap, value):
    assert mse(max_gap, gap=2, sigma_m=1) == pytest.approx(value, abs=5e-6)


@grid
@pytest.mark.parametrize("factor", [0.0, 0.3, 1.0, 2.5])
def test_mse_is_the_integral(gap, sigma_m, factor):
    assert mse(factor * gap, gap, sigma_m) == pytest.approx(
        quadrature(factor * gap, gap, sigma_m), rel=1e-9
    )


@given(gaps, sigmas)
def test_mse_is_exact_at_both_ends(gap, sigma_m):
    consensus, agnostic = mse([0.0, math.inf], gap, sigma_m)
    assert consensus == pytest.approx(sigma_m**2 / 2 + gap**2 / 4, rel=1e-15)
    assert agnostic == sigma_m * sigma_m  # erratum: not sigma_m


def test_mse_does_not_lose_the_tails():
    assert mse([0, 1, 1e300], 1.0, 1e-200).tolist() == [0.25, 0.0, 0.0]
    assert mse(1e300, 0.0, 1.0) == 1.0
    assert mse_derivative([1e300, math.inf], 2.0, 1.0).tolist() == [0.0, 0.0]
    assert mse_derivative(10.0, 2.0, 1.0) > 0
    assert mse_derivative(1.0, 2.0, 1e-300) == -0.5


@given(max_gaps, gaps, sigmas, st.floats(1e-6, 1e6))
def test_mse_scales_like_a_square(max_gap, gap, sigma_m, unit):
    scaled = mse(unit * max_gap, unit * gap, unit * sigma_m)
    assert scaled == pytest.approx(unit**2 * mse(max_gap, gap, sigma_m), rel=1e-9)


@given(st.floats(0.1, 40.0), gaps, st.floats(0.3, 5.0))
def test_derivative_by_differences(max_gap, gap, sigma_m):
    h = 1e-4 * sigma_m
    low, high = mse([max_gap - h, max_gap + h], gap, sigma_m)
    slope = mse_derivative(max_gap, gap, sigma_m)
    assert slope == pytest.approx((high - low) / (2 * h), rel=1e-5, abs=1e-6 * (sigma_m + gap))


@grid
def test_derivative_printed_in_the_paper_is_twice_the_true_one(gap, sigma_m):
    e = gap / 2
    alpha, beta = -(e + gap) / (2 * sigma_m), (e - gap) / (2 * sigma_m)
    printed = sigma_m * (beta * (1 - erf(beta)) - alpha * (1 + erf(alpha)))
    assert printed == pytest.approx(2 * mse_derivative(e, gap, sigma_m))
    at_zero = mse_derivative(0.0, gap, sigma_m)
    assert at_zero == pytest.approx(gap / 2 * erf(-gap / (2 * sigma_m)))
    printed_at_zero = gap / sigma_m * erf(-gap / (2 * sigma_m))
    assert at_zero < 0
    assert printed_at_zero < 0  # the sign argument survives


# The claims


@grid
def test_claim_1(gap, sigma_m):
    assert sigma_m**2 / 2 < mse(gap, gap, sigma_m) <= 0.75 * sigma_m**2 * (1 + 1e-15)


@grid
def test_claim_2(gap, sigma_m):
    best = best_max_gap(gap, sigma_m)
    assert 0 < best <= gap
    assert mse(best, gap, sigma_m) < mse(0.0, gap, sigma_m)
    assert mse_derivative(0.0, gap, sigma_m) < 0


def test_claim_2_is_not_strict_for_equal_means():
    assert best_max_gap(0.0, 1.0) == 0
    assert mse_derivative(0.0, 0.0, 1.0) == 0
    assert (mse(np.linspace(0.01, 6, 50), 0.0, 1.0) > mse(0.0, 0.0, 1.0)).all()


@given(gaps, sigmas)
def test_best_max_gap_is_the_minimum(gap, sigma_m):
    best = best_max_gap(gap, sigma_m)
    others = mse(np.linspace(0, gap + 6 * sigma_m, 200), gap, sigma_m)
    assert mse(best, gap, sigma_m) <= others.min() * (1 + 1e-12)


def test_best_max_gap_keeps_its_digits_at_any_scale():
    assert best_max_gap(1e-9, 1.0) == pytest.approx(1e-18 / math.sqrt(math.pi), rel=1e-12, abs=0)
    assert best_max_gap(1e-200, 1.0) == 0
    below, above = best_max_gap(0.9999e-8, 1.0), best_max_gap(1.0001e-8, 1.0)
    assert above / below == pytest.approx((1.0001 / 0.9999) ** 2, rel=1e-12)
    assert best_max_gap(100.0, 1.0) == 100.0
    assert best_max_gap(1e200, 1e-200) == beneficial_from(1e200, 1e-200) == 1e200


@pytest.mark.parametrize("gap", np.geomspace(1e-300, 1e300, 61))
def test_roots_are_found_at_any_scale(gap):
    best, start = best_max_gap(gap, 1.0), beneficial_from(gap, 1.0)
    assert 0 <= start <= gap
    assert 0 <= best <= gap


@grid
def test_every_max_gap_from_beneficial_from_on_beats_agnostic(gap, sigma_m):
    start = beneficial_from(gap, sigma_m)
    step = 1e-6 * sigma_m
    above = mse(start + np.geomspace(step, 7 * sigma_m, 100), gap, sigma_m)
    assert (above < sigma_m**2).all()  # one-sided: also far above the gap
    if start > 0:
        assert (mse(np.linspace(0, start - step, 100), gap, sigma_m) > sigma_m**2).all()


def test_beneficial_range():
    assert beneficial_from(2.0, 1.0) == pytest.approx(0.767, abs=5e-4)
    assert beneficial_from(1.41, 1.0) == 0
    assert mse(0.0, 1.41, 1.0) < 1  # consensus included
    assert beneficial_from(1.42, 1.0) > 0


# Simulation


def test_monte_carlo_agrees_with_the_closed_form():
    max_gap = np.array([[0.0, 0.5, 1.0], [2.0, 4.0, math.inf]])
    simulated = monte_carlo(max_gap, 2.0, 1.0, realizations=50_000, seed=1)
    assert simulated.mse.shape == max_gap.shape
    assert (np.abs(simulated.mse - mse(max_gap, 2.0, 1.0)) < 4 * simulated.standard_error).all()
    assert simulated.standard_error == pytest.approx(np.sqrt(2 / 50_000), rel=0.8)


def test_monte_carlo_is_the_estimator_simulated():
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((2, 300))
    errors = [(two_means([a + 1], [b - 1], 1.5).x - 1) ** 2 for a, b in zip(x, y, strict=True)]
    simulated = monte_carlo(1.5, 2.0, 1.0, realizations=300, seed=5)
    assert simulated.mse == pytest.approx(np.mean(errors))
    assert simulated.standard_error == pytest.approx(np.std(errors, ddof=1) / math.sqrt(300))


def test_monte_carlo_does_not_depend_on_company_or_batches():
    together = monte_carlo([0.0, 1.0, 3.0], 2.0, 1.0, realizations=40_000)
    assert monte_carlo(1.0, 2.0, 1.0, realizations=40_000).mse == together.mse[1]
    assert monte_carlo(1.0, 2.0, 1.0, realizations=40_000, seed=1).mse != together.mse[1]


# Estimators

values = st.floats(-1e3, 1e3)


@pytest.mark.filterwarnings("ignore::crosslearning.exceptions.ResolutionWarning")  # tiny radii
@given(values, values, st.floats(0, 1e3))
@example(0.0, 878.0, 1.0011070126088729e-11)
def test_two_means_is_the_projection_with_half_the_radius(x, y, max_gap):
    expected = project(np.array([[x], [y]]), max_gap / 2).thetas[:, 0]
    assert two_means([x], [y], max_gap) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_two_means_cases_of_the_paper():
    assert two_means([0.0, 2.0], [5.0, 7.0], 10) == (1.0, 6.0)
    assert two_means([0.0, 2.0], [5.0, 7.0], 1) == (3.0, 4.0)
    assert two_means([5.0, 7.0], [0.0, 2.0], 1) == (4.0, 3.0)
    assert two_means([0.0], [6.0] * 100, 0) == (3.0, 3.0)  # groups count the same


def test_cross_means_limits():
    rng = np.random.default_rng(0)
    samples = [rng.normal(i, 1.0, size=(3 + i, 4)) for i in range(5)]
    means = np.array([group.mean(axis=0) for group in samples])
    pooled = np.broadcast_to(means.mean(axis=0), means.shape)
    np.testing.assert_allclose(cross_means(samples, 0.0).thetas, pooled, atol=1e-12)
    np.testing.assert_array_equal(cross_means(samples, math.inf).thetas, means)
    between = cross_means(samples, 1.0)
    assert (np.linalg.norm(between.thetas - between.center, axis=1) <= 1 + 1e-9).all()
    np.testing.assert_allclose(between.thetas.mean(axis=0), means.mean(axis=0))


# A gap below rounding is met as well as float64 can, and warned of.
@pytest.mark.filterwarnings("ignore::crosslearning.exceptions.ResolutionWarning")
@given(values, values, st.floats(0, 1e3))
def test_two_groups_of_cross_means_are_two_means(x, y, max_gap):
    crossed = cross_means([[x, x], [y]], max_gap / 2).thetas[:, 0]
    assert crossed == pytest.approx(two_means([x, x], [y], max_gap), rel=1e-9, abs=1e-9)


def test_james_stein_and_cross_means_beat_separate_means():
    rng = np.random.default_rng(3)
    truth = rng.uniform(-0.5, 0.5, size=(6, 2))
    realizations = truth + rng.standard_normal((400, 6, 2))

    def risk(estimator):
        return np.mean([np.sum((estimator(x) - truth) ** 2) for x in realizations])

    separate = risk(lambda x: x)
    shrunk = {t: risk(lambda x, t=t: james_stein(x, 1.0, target=t)) for t in (0.0, "mean")}
    crossed = risk(lambda x: cross_means(x[:, None], epsilon=0.5).thetas)
    assert separate == pytest.approx(12.0, rel=0.1)
    assert max(shrunk.values()) < 0.7 * separate
    assert crossed < 0.7 * separate
    # A radius that fits does what James-Stein does to the mean, without knowing sigma_m.
    assert crossed == pytest.approx(shrunk["mean"], rel=0.25)


def test_james_stein_helps_even_where_the_target_is_wrong():
    rng = np.random.default_rng(4)
    errors = rng.standard_normal((20_000, 5))
    shrunk = np.array([james_stein(5 + e, 1.0) - 5 for e in errors])
    gain = (errors**2).sum(axis=1) - (shrunk**2).sum(axis=1)
    assert gain.mean() > 2 * gain.std() / math.sqrt(len(gain))


def test_james_stein_positive_part_and_shapes():
    means = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]])
    assert james_stein(means, 1e-6, target=[1.0, 2.0]) == pytest.approx(means)
    assert james_stein(means, 1e6, target=[1.0, 2.0]).tolist() == [[1.0, 2.0]] * 3
    assert james_stein(means, 1e6, target="mean").tolist() == [[3.0, 5.0]] * 3
    assert james_stein(np.zeros(3), 1.0).tolist() == [0.0] * 3
    shift = james_stein(means + 7, 1.0, target="mean") - james_stein(means, 1.0, target="mean")
    assert shift == pytest.approx(7)


# Errors

bad = [
    (lambda: mse(-1.0, 2.0, 1.0), "`max_gap` must be at least 0; got -1.0. Use"),
    (lambda: mse([1.0, math.nan], 2.0, 1.0), "`max_gap`.*got nan"),
    (lambda: mse("wide", 2.0, 1.0), "wide"),
    (lambda: mse(1.0, math.inf, 1.0), "`gap`.*finite.*got inf. Use"),
    (lambda: mse_derivative(1.0, math.nan, 1.0), "`gap`.*got nan"),
    (lambda: best_max_gap(1.0, 0.0), "`sigma_m`.*positive; got 0.0. Use"),
    (lambda: beneficial_from(1.0, math.nan), "`sigma_m`.*got nan"),
    (lambda: monte_carlo(1.0, 1.0, 1.0, realizations=1), "`realizations`.*got 1. The"),
    (lambda: two_means([1.0], [2.0], math.nan), "`max_gap`.*got nan"),
    (lambda: two_means([], [2.0], 1.0), r"`x` must be an array of finite samples.*got \[\]"),
    (lambda: two_means([1.0], [[2.0, 3.0]], 1.0), "size 1"),
    (lambda: two_means([1.0], [2.0, math.nan], 1.0), "`y` must be .*nan"),
    (lambda: cross_means([[1.0], [[1.0, 2.0]]], 1.0), "same shape"),
    (lambda: cross_means([[1.0], [math.inf]], 1.0), r"`samples\[1\]` must be .*inf"),
    (lambda: cross_means([[1.0], []], 1.0), r"`samples\[1\]` must be .*at least one"),
    (lambda: cross_means([[1.0], [2.0]], -1.0), "`epsilon`.*got -1"),
    (lambda: james_stein([1.0, 2.0], 1.0), "3 degrees of freedom; got 2"),
    (lambda: james_stein([1.0, 2.0, 3.0], 1.0, "mean"), "got 2 from means"),
    (lambda: james_stein([], 1.0, "mean"), "got 0"),
    (lambda: james_stein([1.0, 2.0, 3.0], -1.0), "`sigma_m`.*got -1"),
]


@pytest.mark.parametrize(("call", "message"), bad)
def test_bad_input_is_refused_with_the_rule_the_value_and_the_next_step(call, message):
    with pytest.raises(ValueError, match=message):
        call()
