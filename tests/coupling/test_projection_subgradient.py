"""The paper's Algorithm 2."""

import warnings
from itertools import islice

import numpy as np
import pytest

from crosslearning import ConvergenceWarning, Status, project
from crosslearning.coupling import subgradient_iterates


@pytest.fixture
def tasks():
    rng = np.random.default_rng(0)
    return rng.normal(size=(4, 50)), rng.normal(size=50)


def test_first_iterates_are_those_of_the_paper(tasks):
    z, z_g = tasks
    epsilon, u = 6.0, z - z_g
    unit = np.max(np.sum(u**2, axis=1))
    mu = np.zeros(4)
    iterates = subgradient_iterates(u @ u.T, epsilon, step=2.0)
    for k, (pull, subgradient) in enumerate(islice(iterates, 5)):
        lam = mu / (1 + mu)
        a = 1 + lam.sum()
        center = (z_g + lam @ z) / a
        expected = (1 - lam) ** 2 * np.sum((z - center) ** 2, axis=1) - epsilon**2
        np.testing.assert_allclose(pull, lam, atol=1e-12)
        np.testing.assert_allclose(subgradient, expected / unit, atol=1e-12)
        mu = np.maximum(mu + 2.0 / (k + 1) * expected / unit, 0)


def test_approaches_the_exact_solution(tasks):
    z, z_g = tasks
    exact = project(z, 8.0, center=z_g)
    rough = project(z, 8.0, center=z_g, method="subgradient", tol=1e-4)
    assert rough.status is Status.CONVERGED
    assert rough.n_iter > 10 * exact.n_iter
    np.testing.assert_allclose(rough.thetas, exact.thetas, atol=1e-2)
    assert rough.kkt_residual > exact.kkt_residual


def test_says_when_it_did_not_converge(tasks):
    z, z_g = tasks
    with pytest.warns(ConvergenceWarning, match="iteration limit") as caught:
        result = project(z, 0.01, center=z_g, method="subgradient", max_iter=50)
    assert result.status is Status.MAX_ITER
    assert result.n_iter == 50
    assert result.kkt_residual > 1e-3
    assert caught[0].filename == __file__


def test_does_not_stop_at_zero_multipliers_while_infeasible(tasks):
    """The printed stopping rule is satisfied at once; feasibility has to be part of it."""
    z, z_g = tasks
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        result = project(z, 6.0, center=z_g, method="subgradient", max_iter=3)
    assert result.n_iter == 3


def test_initial_multipliers(tasks):
    z, z_g = tasks
    exact = project(z, 6.0, center=z_g)
    result = project(z, 6.0, center=z_g, method="subgradient", start=exact.pull)
    assert result.n_iter == 0
    assert result.status is Status.CONVERGED


def test_feasible_input_is_returned_at_once(tasks):
    z, z_g = tasks
    for epsilon in (1e3, np.inf):
        result = project(z, epsilon, center=z_g, method="subgradient")
        np.testing.assert_array_equal(result.thetas, z)
        assert result.n_iter == 0


def test_bad_arguments():
    with pytest.raises(ValueError, match="needs 2 values"):
        next(subgradient_iterates(np.eye(2), [1.0, 1.0, 1.0]))
    with pytest.raises(ValueError, match="`step` must be positive"):
        next(subgradient_iterates(np.eye(2), 1.0, step=-1.0))


def test_needs_a_centre(tasks):
    with pytest.raises(ValueError, match=r"given centre.*newton"):
        project(tasks[0], 1.0, method="subgradient")
