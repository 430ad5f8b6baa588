"""The three regimes give one answer, in memory proportional to the input."""

import tracemalloc

import numpy as np
import pytest

from crosslearning import ConvergenceWarning, Status, Tether, project
from crosslearning.coupling import _newton as newton
from tests.support import laws
from tests.support.strategies import Case


@pytest.mark.parametrize("shape", [(20, 30), (30, 20)])
@pytest.mark.parametrize("given_center", [True, False])
@pytest.mark.parametrize("tether", [Tether(2.0), Tether(3.0, 0.2, 0.5)], ids=["ball", "mixed"])
def test_conjugate_gradients_agree_with_factorisation(monkeypatch, shape, given_center, tether):
    rng = np.random.default_rng(0)
    thetas = rng.normal(size=shape)
    center = rng.normal(size=shape[1]) if given_center else None
    case = Case(thetas, tether, center, None)
    dense = case.solve()
    monkeypatch.setattr(newton, "_DENSE", 0)
    iterative = case.solve()
    laws.assert_optimal(case, iterative)
    np.testing.assert_allclose(iterative.thetas, dense.thetas, atol=1e-9)


def test_conjugate_gradients_without_curvature(monkeypatch):
    """Tension along a line: the function of the centre has flat pieces."""
    monkeypatch.setattr(newton, "_DENSE", 0)
    case = Case(np.array([[100.0], [-1.0], [0.0], [1.0]]), Tether(tension=5.0), None, None)
    laws.assert_optimal(case, case.solve())


@pytest.mark.parametrize("shape", [(1500, 700), (600, 3000)])
def test_large_problems_in_memory_proportional_to_the_input(shape):
    rng = np.random.default_rng(1)
    thetas = rng.normal(size=shape)
    epsilon = 0.97 * np.sqrt(shape[1])
    tracemalloc.start()
    result = project(thetas, epsilon)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= 4 * thetas.nbytes
    assert result.active.sum() > 0
    laws.assert_optimal(Case(thetas, Tether(epsilon), None, None), result)


def test_distances_that_a_gram_matrix_cannot_see():
    """A tight cluster between two distant tasks: solved to full accuracy all the same."""
    rng = np.random.default_rng(2)
    cluster = 1e-9 * rng.normal(size=(10, 40))
    far = rng.normal(size=(1, 40))
    thetas = np.vstack([cluster, far, -far])
    case = Case(thetas, Tether([3e-9] * 10 + [np.inf] * 2), None, None)
    result = case.solve()
    assert result.active.any()
    assert result.kkt_residual <= 1e-12
    laws.assert_optimal(case, result)


def test_iteration_limit_is_reported():
    thetas = np.random.default_rng(3).normal(size=(20, 5)) ** 3
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        result = project(thetas, 1.0, max_iter=1, tol=1e-14)
    assert result.status is Status.MAX_ITER
