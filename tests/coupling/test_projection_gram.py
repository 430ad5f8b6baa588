"""The Gram-level entry: two numbers per task are all that a caller needs."""

import numpy as np
import pytest
from hypothesis import given

from crosslearning import ConvergenceWarning, Status, Tether
from crosslearning.coupling import prox_gram
from tests.support.strategies import cases


@given(cases(max_tasks=60, ball=False))
def test_gives_what_prox_gives(case):
    difference = case.thetas - case.base
    step = prox_gram(difference @ difference.T, case.tether, center_weight=case.weight)
    result = case.solve()
    center = case.base + step.weights @ difference
    thetas = case.thetas - step.pull[:, None] * (case.thetas - center)
    # Squares hide what is smaller than 1e-8 of the largest distance.
    tolerance = 1e-7 * max(np.linalg.norm(difference, axis=1).max(), 1e-9 * case.scale)
    np.testing.assert_allclose(thetas, result.thetas, rtol=0, atol=tolerance)
    np.testing.assert_allclose(step.distances, result.distances, rtol=0, atol=tolerance)
    assert step.status is Status.CONVERGED
    assert step.kkt_residual <= 1e-10


def test_weights_survive_where_pulls_vanish():
    """A free centre that hardly anything pulls cannot be rebuilt from the pulls."""
    points = np.array([[3.0, 0.0], [-1.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]])
    difference = points - points.mean(axis=0)
    gram = difference @ difference.T
    radius = 2.125  # of the smallest enclosing ball, around (7/8, 0)
    for epsilon in (1.1 * radius, 1.001 * radius, radius * (1 + 1e-7), radius * (1 - 1e-7)):
        step = prox_gram(gram, Tether(epsilon), center_weight=0.0)
        center = points.mean(axis=0) + step.weights @ difference
        assert np.linalg.norm(points - center, axis=1).max() <= epsilon * (1 + 1e-6)


def test_any_base_in_the_hull_serves_a_free_centre():
    points = np.random.default_rng(0).normal(size=(5, 9))
    expected = None
    for base in (points.mean(axis=0), points[0], 0.3 * points[1] + 0.7 * points[2]):
        u = points - base
        step = prox_gram(u @ u.T, Tether(1.0), center_weight=0.0)
        center = base + step.weights @ u
        expected = center if expected is None else expected
        np.testing.assert_allclose(center, expected, atol=1e-10)


def test_warm_start_saves_steps_and_changes_nothing():
    u = np.random.default_rng(1).normal(size=(30, 100)) * np.linspace(0.2, 3.0, 30)[:, None]
    gram = u @ u.T
    cold = prox_gram(gram, Tether(6.0))
    warm = prox_gram(gram * 1.0001, Tether(6.0), start=cold.pull)
    again = prox_gram(gram, Tether(6.0), start=cold.pull)
    assert again.n_iter <= 1 < cold.n_iter
    assert warm.n_iter < cold.n_iter
    np.testing.assert_allclose(again.pull, cold.pull, atol=1e-12)


def test_a_gram_matrix_summed_in_single_precision_is_accepted():
    u = np.random.default_rng(2).normal(size=(8, 3)).astype(np.float32)
    step = prox_gram(u @ u.T, Tether(1.0))
    exact = prox_gram(u.astype(np.float64) @ u.T.astype(np.float64), Tether(1.0))
    np.testing.assert_allclose(step.pull, exact.pull, atol=1e-3)


def test_multipliers_and_active():
    u = np.array([[3.0, 0.0], [0.5, 0.0]])
    step = prox_gram(u @ u.T, Tether(1.0))
    assert step.active.tolist() == [True, False]
    np.testing.assert_allclose(step.multipliers, step.pull / (1 - step.pull))


@pytest.mark.parametrize(
    ("gram", "message"),
    [
        (np.ones((2, 3)), "square"),
        (np.ones(3), "square"),
        (np.zeros((0, 0)), "square"),
        ([["a"]], "square"),
        (np.diag([1.0, np.nan, np.inf]), "tasks 1, 2"),
        (np.diag([1.0, -1.0]), "negative entry.*task 1"),
        (np.array([[1.0, 0.5], [0.0, 1.0]]), "symmetric"),
        (np.array([[1.0, 5.0], [5.0, 1.0]]), "positive semidefinite"),
    ],
)
def test_bad_gram_matrices(gram, message):
    with pytest.raises(ValueError, match=message):
        prox_gram(gram, Tether(1.0))


def test_not_converging_is_said():
    u = np.random.default_rng(3).normal(size=(20, 30)) ** 3
    with pytest.warns(ConvergenceWarning, match="iteration limit") as caught:
        step = prox_gram(u @ u.T, Tether(1.0), max_iter=1, tol=1e-14)
    assert step.status is Status.MAX_ITER
    assert caught[0].filename == __file__


def test_bad_arguments():
    gram = np.eye(3)
    with pytest.raises(ValueError, match="center_weight"):
        prox_gram(gram, Tether(1.0), center_weight=-1.0)
    with pytest.raises(ValueError, match="needs 3 values"):
        prox_gram(gram, Tether([1.0, 2.0]))
    with pytest.raises(ValueError, match="start"):
        prox_gram(gram, Tether(1.0), start=[0.5, 0.5])
    with pytest.raises(ValueError, match="start"):
        prox_gram(gram, Tether(1.0), start=[0.5, 0.5, 2.0])
