"""Exact limits and closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosslearning import ConvergenceWarning, Status, Tether, project, prox, smallest_enclosing_ball
from crosslearning.exceptions import ResolutionWarning
from tests.support import laws
from tests.support.strategies import Case, cases, vectors


@given(cases())
def test_zero_radius_is_the_weighted_mean(case):
    pooled = Case(case.thetas, Tether(0.0), case.center, case.center_weight)
    laws.assert_weighted_mean(pooled, pooled.solve())


@given(cases())
def test_largest_distance_changes_nothing(case):
    radius = float(np.linalg.norm(case.thetas - case.base, axis=1).max())
    for epsilon in (radius, 2 * radius, math.inf) if radius > 0 else (1.0, math.inf):
        result = case.solve(tether=Tether(epsilon))
        assert np.array_equal(result.thetas, case.thetas)
        assert np.array_equal(result.pull, np.zeros(len(case.thetas)))
        if case.center is not None:
            assert np.array_equal(result.center, case.center)
        else:
            laws.assert_same(case, result.center, case.base)


@given(vectors(max_tasks=60), st.floats(1e-6, 2.0))
def test_enclosing_radius_frees_a_free_centre(thetas, excess):
    _, radius = smallest_enclosing_ball(thetas)
    result = project(thetas, radius * (1 + excess))
    assert not result.active.any()
    np.testing.assert_array_equal(result.thetas, thetas)
    inside = np.linalg.norm(thetas - result.center, axis=1)
    assert np.all(inside <= radius * (1 + excess) + 1e-10 * radius + 1e-14 * np.abs(thetas).max())


def test_free_centre_is_the_admissible_one_nearest_the_mean():
    points = np.array([[4.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    result = project(points, 2.5)  # mean (1, 0) is 3 away from the first
    np.testing.assert_allclose(result.center, [1.5, 0.0], atol=1e-9)
    np.testing.assert_array_equal(result.thetas, points)


def test_free_centre_just_below_the_enclosing_radius_is_its_centre():
    rng = np.random.default_rng(3)
    points = rng.normal(size=(30, 4))
    center, radius = smallest_enclosing_ball(points)
    for share in (1e-3, 1e-6, 1e-9):
        result = project(points, radius * (1 - share))
        assert result.active.any()
        np.testing.assert_allclose(result.center, center, atol=200 * share + 1e-5)


@pytest.mark.parametrize("weight", [0.1, 1.0, 10.0])
def test_one_task_moves_along_the_line_to_its_centre(weight):
    result = project([[5.0, 0.0]], 1.0, center=[0.0, 0.0], center_weight=weight)
    excess = 4.0
    np.testing.assert_allclose(result.center, [excess / (1 + weight), 0.0], rtol=1e-14)
    np.testing.assert_allclose(
        result.thetas[0], [5 - excess * weight / (1 + weight), 0], rtol=1e-14
    )


@given(vectors(max_tasks=2), st.floats(0.0, 1.0))
def test_two_tasks_and_a_free_centre_in_closed_form(thetas, share):
    if len(thetas) < 2:
        return
    middle, half = thetas.mean(axis=0), 0.5 * (thetas[0] - thetas[1])
    gap = np.linalg.norm(half)
    result = project(thetas, share * gap)
    expected = np.stack([middle + share * half, middle - share * half])
    np.testing.assert_allclose(result.thetas, expected, rtol=0, atol=1e-12 * np.abs(thetas).max())


def test_spring_in_closed_form():
    z = np.random.default_rng(0).normal(size=(5, 7))
    result = prox(z, Tether(stiffness=3.0))
    mean = z.mean(axis=0)
    np.testing.assert_allclose(result.thetas, mean + (z - mean) / 4.0, atol=1e-14)
    np.testing.assert_allclose(result.pull, 0.75, rtol=1e-14)
    np.testing.assert_allclose(result.multipliers, 3.0, rtol=1e-13)
    assert not result.active.any()


def test_step_size_scales_spring_and_tension_but_not_the_radius():
    z = np.random.default_rng(1).normal(size=(5, 7))
    small = prox(z, Tether(1.0, 2.0, 0.3), step_size=0.1)
    same = prox(z, Tether(1.0, 0.2, 0.03))
    np.testing.assert_array_equal(small.thetas, same.thetas)


def test_multipliers():
    z = np.random.default_rng(2).normal(size=(4, 6))
    result = project(z, 0.5, center=np.zeros(6))
    np.testing.assert_allclose(
        z - result.thetas,
        result.multipliers[:, None] * (result.thetas - result.center),
        atol=1e-12,
    )
    assert np.all(np.isinf(project(z, 0.0).multipliers))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(5, 300), (300, 5)])
def test_dtype_is_kept(dtype, shape):
    z = np.random.default_rng(4).normal(size=shape).astype(dtype)
    center = np.zeros(shape[1], dtype=dtype)
    epsilon = 0.5 * float(np.median(np.linalg.norm(z, axis=1)))
    result = project(z, epsilon, center=center)
    assert result.thetas.dtype == result.center.dtype == dtype
    laws.assert_optimal(Case(z, Tether(epsilon), center, None), result)
    exact = project(z.astype(np.float64), epsilon, center=center)
    np.testing.assert_allclose(result.thetas, exact.thetas, atol=4 * np.finfo(dtype).eps)


def test_float32_below_its_resolution_is_reported_not_hidden():
    z = (100 + np.random.default_rng(5).normal(size=(4, 1000))).astype(np.float32)
    with pytest.warns(ResolutionWarning, match="float32 resolves.*Use float64 or a larger") as all_:
        result = project(z, 1e-6)
    assert all_[0].filename == __file__
    assert issubclass(ResolutionWarning, ConvergenceWarning)
    assert result.status is Status.UNRESOLVED
    measured = np.linalg.norm(result.thetas.astype(float) - result.center, axis=1)
    np.testing.assert_allclose(result.distances, measured, rtol=1e-12)
    assert np.abs(measured / 1e-6 - 1.0).max() > 0.1
    assert project(z.astype(np.float64), 1e-6).status is Status.CONVERGED
    assert result.kkt_residual * np.linalg.norm(z - z.mean(axis=0), axis=1).max() > 1e-7


def test_integers_become_float64():
    result = project([[4, 0], [0, 0]], 1)
    assert result.thetas.dtype == np.float64
    np.testing.assert_allclose(result.thetas, [[3, 0], [1, 0]])


def test_input_is_not_touched():
    z = np.random.default_rng(6).normal(size=(5, 7))
    copy = z.copy()
    z.flags.writeable = False
    project(z, 0.1, center=z[0])
    np.testing.assert_array_equal(z, copy)


def test_layout_does_not_matter():
    z = np.random.default_rng(7).normal(size=(7, 50))
    expected = project(z, 1.0).thetas
    np.testing.assert_allclose(project(np.asfortranarray(z), 1.0).thetas, expected, atol=1e-14)
    np.testing.assert_allclose(project(z[:, ::-1], 1.0).thetas[:, ::-1], expected, atol=1e-14)
