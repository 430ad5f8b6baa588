"""Agreement with a general conic solver, which shares no code with the library."""

import cvxpy as cp
import numpy as np
import pytest

from crosslearning import Tether
from tests.support import laws
from tests.support.strategies import Case
from tests.support.tolerances import ORACLE_POINT, ORACLE_VALUE

TETHERS = {
    "ball": Tether(1.5),
    "small ball": Tether(1e-2),
    "radii": Tether([0.0, 0.5, 1.0, 2.0, np.inf, 0.7]),
    "spring": Tether(stiffness=0.7),
    "tension": Tether(tension=0.6),
    "strong tension": Tether(tension=5.0),
    "ball and spring": Tether(1.0, stiffness=0.5),
    "ball and tension": Tether(1.0, tension=0.4),
    "spring and tension": Tether(stiffness=0.5, tension=0.4),
    "all": Tether(0.8, stiffness=0.5, tension=0.4),
    "per task": Tether(1.0, np.linspace(0, 1, 6), np.linspace(1, 0, 6)),
}


def solve_with_clarabel(case: Case) -> tuple[np.ndarray, np.ndarray]:
    n, s = case.thetas.shape
    thetas, center = cp.Variable((n, s)), cp.Variable(s)
    ones = np.ones((n, 1))
    distance = cp.norm(thetas - ones @ cp.reshape(center, (1, s), order="C"), 2, axis=1)
    epsilon, stiffness, tension = (
        np.broadcast_to(v, n)
        for v in (case.tether.epsilon, case.tether.stiffness, case.tether.tension)
    )
    cost = 0.5 * cp.sum_squares(thetas - case.thetas) + tension @ distance
    cost += 0.5 * stiffness @ cp.square(distance)
    if case.weight:
        cost += 0.5 * case.weight * cp.sum_squares(center - case.base)
    bounded = np.flatnonzero(np.isfinite(epsilon))
    constraints = [distance[bounded] <= epsilon[bounded]] if bounded.size else []
    cp.Problem(cp.Minimize(cost), constraints).solve(solver=cp.CLARABEL)
    return thetas.value, center.value


def made_feasible(case: Case, thetas: np.ndarray, center: np.ndarray) -> np.ndarray:
    d = np.linalg.norm(thetas - center, axis=1)
    shrink = np.minimum(1.0, np.asarray(case.tether.epsilon) / np.where(d > 0, d, 1.0))
    return center + np.where(np.isfinite(shrink), shrink, 1.0)[:, None] * (thetas - center)


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate:UserWarning")
@pytest.mark.parametrize("tether", TETHERS.values(), ids=TETHERS.keys())
@pytest.mark.parametrize("weight", [0.0, 1.0, 0.2], ids=lambda w: f"weight {w}")
@pytest.mark.parametrize("n_parameters", [3, 12])
def test_agrees_with_clarabel(tether, weight, n_parameters):
    rng = np.random.default_rng(0)
    thetas = rng.normal(size=(6, n_parameters))
    center = rng.normal(size=n_parameters) if weight else None
    case = Case(thetas, tether, center, weight or None)
    result = case.solve()
    oracle_thetas, oracle_center = solve_with_clarabel(case)
    feasible = made_feasible(case, oracle_thetas, oracle_center)
    value = laws.objective(case, result.thetas, result.center)
    oracle_value = laws.objective(case, feasible, oracle_center)
    assert value <= oracle_value + 1e-12
    assert value == pytest.approx(oracle_value, rel=ORACLE_VALUE, abs=ORACLE_VALUE)
    np.testing.assert_allclose(result.thetas, oracle_thetas, atol=ORACLE_POINT)


def test_free_centre_nearest_the_mean_agrees_with_clarabel():
    rng = np.random.default_rng(1)
    thetas = rng.normal(size=(8, 3))
    thetas[0] += 6.0
    mean = thetas.mean(axis=0)
    epsilon = 0.9 * np.linalg.norm(thetas - mean, axis=1).max()
    center = cp.Variable(3)
    distance = cp.norm(thetas - np.ones((8, 1)) @ cp.reshape(center, (1, 3), order="C"), 2, axis=1)
    cp.Problem(cp.Minimize(cp.sum_squares(center - mean)), [distance <= epsilon]).solve(
        solver=cp.CLARABEL
    )
    result = Case(thetas, Tether(epsilon), None, None).solve()
    assert not result.active.any()
    np.testing.assert_allclose(result.center, center.value, atol=ORACLE_POINT)
