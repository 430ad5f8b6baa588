import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from crosslearning import Tether

strengths = st.just(0.0) | st.floats(1e-3, 1e3)
tethers = st.builds(
    Tether, st.just(math.inf) | st.just(0.0) | st.floats(1e-3, 1e3), strengths, strengths
)
distances = st.just(0.0) | st.floats(1e-3, 1e4)


@given(tethers, distances)
def test_final_distance_minimises_and_envelope_is_the_minimum(tether, d):
    def cost(x):
        return 0.5 * (d - x) ** 2 + tether.tension * x + 0.5 * tether.stiffness * x**2

    upper = min(tether.epsilon, d)
    best = minimize_scalar(cost, bounds=(0.0, upper), method="bounded") if upper > 0 else None
    least = min([cost(0.0), cost(upper)] + ([best.fun] if best else []))
    final = float(tether.final_distance(d))
    assert 0.0 <= final <= tether.epsilon
    assert cost(final) <= least * (1 + 1e-9) + 1e-12
    assert float(tether.envelope(d)) == pytest.approx(cost(final), rel=1e-9, abs=1e-12)


@given(tethers, distances)
def test_pull_and_final_distance_agree(tether, d):
    assert (1.0 - tether.pull(d)) * d == pytest.approx(tether.final_distance(d), rel=1e-9, abs=1e-9)
    assert 0.0 <= tether.pull(d) <= 1.0


@given(tethers, st.floats(1e-2, 1e4))
def test_slopes_are_derivatives(tether, d):
    h = 1e-5 * d
    around = tether.envelope([d - h, d + h])
    assert (around[1] - around[0]) / (2 * h) == pytest.approx(tether.pull(d) * d, rel=1e-4, abs=h)
    kinks = np.array([tether.tension, tether.epsilon * (1 + tether.stiffness) + tether.tension])
    if np.all(np.abs(kinks - d) > 2 * h):
        force = tether.pull([d - h, d + h]) * [d - h, d + h]
        assert (force[1] - force[0]) / (2 * h) == pytest.approx(tether.slope(d), rel=1e-4, abs=1e-6)


def test_limits_are_exact():
    d = np.array([0.0, 1e-300, 1.0, 1e300])
    assert np.array_equal(Tether().final_distance(d), d)
    assert np.array_equal(Tether().pull(d), np.zeros(4))
    assert np.array_equal(Tether(epsilon=0).pull(d), np.ones(4))
    assert np.array_equal(Tether(epsilon=0).slope(d), np.ones(4))
    assert np.array_equal(Tether(epsilon=0, stiffness=2, tension=3).final_distance(d), np.zeros(4))
    assert np.array_equal(Tether(tension=5).pull([0.0, 2.0, 5.0]), np.ones(3))
    assert np.array_equal(Tether(stiffness=1).pull(d), np.full(4, 0.5))
    assert Tether(epsilon=1).envelope(0.0) == 0.0


def test_kinks_belong_to_both_sides():
    tether = Tether(epsilon=2.0, stiffness=0.5, tension=1.0)
    inner, outer = 1.0, 2.0 * 1.5 + 1.0
    for kink in (inner, outer):
        around = np.array([np.nextafter(kink, 0), kink, np.nextafter(kink, 9)])
        np.testing.assert_allclose(np.diff(tether.pull(around)), 0, atol=1e-14)
        np.testing.assert_allclose(np.diff(tether.envelope(around)), 0, atol=1e-14)
    assert not tether.is_taut(outer)
    assert tether.is_taut(np.nextafter(outer, 9))
    assert tether.final_distance(outer) == 2.0


def test_pull_keeps_its_digits_near_the_bound():
    step = 2.0**-40
    assert Tether(epsilon=1.0).pull(1.0 + step) == step / (1.0 + step)


def test_one_value_per_task():
    tether = Tether(epsilon=[0.0, 1.0, np.inf])
    assert tether.n_tasks == 3
    assert np.array_equal(tether.final_distance([2.0, 2.0, 2.0]), [0.0, 1.0, 2.0])
    assert np.array_equal(tether.final_distance(2.0), [0.0, 1.0, 2.0])


def test_scaled():
    tether = Tether(2.0, 3.0, 4.0)
    assert tether.scaled(step_size=0.5) == Tether(2.0, 1.5, 2.0)
    assert tether.scaled(length=2.0) == Tether(1.0, 3.0, 2.0)


def test_immutable_and_hashable():
    tether = Tether(epsilon=[1.0, 2.0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        tether.epsilon = 3.0
    with pytest.raises(ValueError, match="read-only"):
        tether.epsilon[0] = 3.0
    source = np.array([1.0, 2.0])
    same = Tether(epsilon=source)
    source[0] = 5.0
    assert same == tether
    assert hash(same) == hash(tether)
    assert Tether(-0.0) == Tether(0)
    assert hash(Tether(-0.0)) == hash(Tether(0))
    assert Tether(1.0) != Tether(2.0)
    assert Tether(1.0) != 1.0


@pytest.mark.parametrize("name", ["epsilon", "stiffness", "tension"])
@pytest.mark.parametrize("value", [-1, math.nan, "1", None, [[1.0]], [], True, [1.0, -2.0], 1j])
def test_bad_values_are_refused_with_a_way_out(name, value):
    with pytest.raises(ValueError, match=f"`{name}`.*got .*Use 0"):
        Tether(**{name: value})


@pytest.mark.parametrize("name", ["stiffness", "tension"])
def test_infinite_strength_is_refused(name):
    with pytest.raises(ValueError, match="epsilon=0"):
        Tether(**{name: math.inf})


def test_lengths_must_agree():
    with pytest.raises(ValueError, match=r"lengths \[2, 3\]"):
        Tether(epsilon=[1.0, 2.0], tension=[1.0, 2.0, 3.0])
