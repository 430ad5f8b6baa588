"""Every law of the projection, on generated problems."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslearning import Tether, project
from crosslearning.coupling import certificate
from tests.support import laws
from tests.support.strategies import Case, cases
from tests.support.tolerances import KKT

seeds = st.integers(0, 2**32 - 1)
free_or_given = st.booleans()


many = settings(max_examples=4 * settings().max_examples)


def assert_laws_of_projection(case):
    result = case.solve()
    laws.assert_optimal(case, result)
    laws.assert_feasible(case, result)
    laws.assert_complementary(case, result)
    laws.assert_total_preserved(case, result)


def assert_laws_of_prox(case):
    result = case.solve()
    laws.assert_optimal(case, result)
    laws.assert_total_preserved(case, result)


@given(cases())
def test_optimal_feasible_complementary_balanced(case):
    assert_laws_of_projection(case)


@pytest.mark.slow
@many
@given(cases())
def test_optimal_feasible_complementary_balanced_in_many_cases(case):
    assert_laws_of_projection(case)


@given(cases(ball=False))
def test_prox_is_optimal(case):
    assert_laws_of_prox(case)


@pytest.mark.slow
@many
@given(cases(ball=False))
def test_prox_is_optimal_in_many_cases(case):
    assert_laws_of_prox(case)


@given(cases())
def test_residual_and_certificate_agree(case):
    result = case.solve()
    proof = certificate(
        result.thetas,
        result.center,
        case.thetas,
        case.tether,
        center=case.center,
        center_weight=case.center_weight,
    )
    # Known from a Gram matrix where that has the digits, and measured where it has not.
    np.testing.assert_allclose(
        result.kkt_residual, proof.kkt_residual, rtol=0, atol=1e-12 + proof.rounding
    )
    assert max(result.kkt_residual, proof.kkt_residual) <= KKT[case.thetas.dtype] + proof.rounding


@given(cases())
def test_twice_is_once(case):
    once = case.solve()
    center = None if case.center is None else once.center
    twice = case.solve(thetas=once.thetas, center=center)
    laws.assert_same(case, twice.thetas, once.thetas, 10)


@given(cases(max_tasks=50), seeds)
def test_non_expansive(case, seed):
    rng = np.random.default_rng(seed)
    z = case.thetas
    other = z + rng.normal(size=z.shape) * np.abs(z).max() * rng.choice([1e-6, 1e-2, 1.0])
    center = None if case.center is None else case.center + rng.normal(size=z.shape[1]) * case.scale
    moved = Case(other, case.tether, center, case.center_weight)
    before = laws.weighted_distance(case, (z, case.base), (other, moved.base))
    left, right = case.solve(), moved.solve()
    after = laws.weighted_distance(case, (left.thetas, left.center), (right.thetas, right.center))
    slack = 1e-9 * max(case.scale, moved.scale) * np.sqrt(case.weight + len(z))
    assert after <= before + slack


@given(cases(max_tasks=50), seeds)
def test_permutation(case, seed):
    order = np.random.default_rng(seed).permutation(len(case.thetas))
    epsilon = np.broadcast_to(case.tether.epsilon, len(order))[order]
    permuted = case.solve(thetas=case.thetas[order], tether=Tether(epsilon))
    laws.assert_same(case, permuted.thetas, case.solve().thetas[order], 10)


@given(cases(max_tasks=50), seeds)
def test_rotation(case, seed):
    s = case.thetas.shape[1]
    rotation, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(s, s)))
    center = None if case.center is None else case.center @ rotation
    turned = case.solve(thetas=case.thetas @ rotation, center=center)
    laws.assert_same(case, turned.thetas, case.solve().thetas @ rotation, 10)


@given(cases(max_tasks=50), st.sampled_from([1e-8, 0.5, 1e6]))
def test_scaling(case, factor):
    center = None if case.center is None else case.center * factor
    scaled = case.solve(
        thetas=case.thetas * factor, tether=case.tether.scaled(length=1 / factor), center=center
    )
    laws.assert_same(case, scaled.thetas / factor, case.solve().thetas, 10)


@given(cases(max_tasks=50), seeds)
def test_translation(case, seed):
    shift = np.random.default_rng(seed).normal(size=case.thetas.shape[1]) * case.scale
    center = None if case.center is None else case.center + shift
    moved = case.solve(thetas=case.thetas + shift, center=center)
    laws.assert_same(case, moved.thetas - shift, case.solve().thetas, 10)


@pytest.mark.parametrize("given_center", [True, False])
def test_translation_by_a_million_costs_only_its_rounding(given_center):
    rng = np.random.default_rng(0)
    z = np.round(rng.normal(size=(6, 40)), 3)
    center = np.round(rng.normal(size=40), 3) if given_center else None
    far = project(z + 1e6, 2.0, center=None if center is None else center + 1e6)
    near = project((z + 1e6) - 1e6, 2.0, center=None if center is None else (center + 1e6) - 1e6)
    ulp = np.spacing(1e6)
    np.testing.assert_allclose(far.thetas - 1e6, near.thetas, rtol=0, atol=4 * ulp)
    np.testing.assert_allclose(far.pull, near.pull, rtol=1e-10)
    assert far.kkt_residual <= KKT[far.thetas.dtype]
