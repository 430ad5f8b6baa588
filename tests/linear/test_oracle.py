"""Agreement of the linear models with a general conic solver, on random and on real data."""

import warnings
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from crosslearning.datasets import load_ames, load_hsb82
from crosslearning.linear import CrossLogisticRegression, CrossRidge
from tests.support.linear_laws import Data, Definition, assert_optimal, random_data

INF = np.inf
VALUE = 1e-7  # Clarabel stops at a duality gap of 1e-8

TETHERS: dict[str, dict[str, Any]] = {
    "ball": {"epsilon": 0.4},
    "small ball": {"epsilon": 0.01},
    "spring": {"epsilon": INF, "stiffness": 3.0},
    "tension": {"epsilon": INF, "tension": 2.0},
    "ball and spring": {"epsilon": 0.5, "stiffness": 2.0},
    "all": {"epsilon": 0.5, "stiffness": 1.0, "tension": 1.0},
    "two balls": {"epsilon": {"coef": 0.3, "intercept": 0.5}},
    "shared coef": {"epsilon": {"coef": 0, "intercept": INF}},
    "free coef": {"epsilon": {"coef": INF, "intercept": 0.3}},
    "two springs": {"epsilon": INF, "stiffness": {"coef": 3.0, "intercept": 0.5}},
    "two tensions": {"epsilon": INF, "tension": {"coef": 1.0, "intercept": 3.0}},
    "two mixtures": {
        "epsilon": {"coef": 0.6},
        "stiffness": {"intercept": 1.0},
        "tension": {"coef": 0.5},
    },
}
tethers = pytest.mark.parametrize("tether", TETHERS.values(), ids=TETHERS.keys())
SIZES = (9, 14, 6, 20, 3)


def solve_with_clarabel(problem: Definition) -> tuple[np.ndarray, np.ndarray]:
    """Tasks and centre, shapes (n_tasks, n_parameters) and (n_parameters,)."""
    n, q, p = len(problem.rows), problem.n_scores, problem.data.X.shape[1]
    thetas = [cp.Variable((problem.columns.shape[1], q)) for _ in range(n)]
    center = cp.Variable((problem.columns.shape[1], q))
    cost: Any = 0.0
    for i, theta in enumerate(thetas):
        cost += _loss(problem, i, problem.columns[problem.rows[i]] @ theta)
        cost += 0.5 * problem.model.alpha * problem.shares[i] * cp.sum_squares(theta[:p])
    constraints = [cp.sum(center, axis=1) == 0] if q > 1 else []
    constraints += [cp.sum(theta, axis=1) == 0 for theta in thetas if q > 1]
    places = [slice(None)] if len(problem.blocks) == 1 else [slice(0, p), slice(p, None)]
    for place, (_, tether) in zip(places, problem.blocks, strict=True):
        for theta in thetas:
            distance = cp.norm(cp.vec((theta - center)[place], order="C"), 2)
            cost += tether["tension"] * distance + 0.5 * tether["stiffness"] * distance**2
            if tether["epsilon"] == 0:
                constraints.append(theta[place] == center[place])
            elif np.isfinite(tether["epsilon"]):
                constraints.append(distance <= tether["epsilon"])
    with warnings.catch_warnings():
        # On some processors it stops a digit early: what it found is an upper bound all the same.
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        cp.Problem(cp.Minimize(cost), constraints).solve(solver=cp.CLARABEL)

    def vector(matrix: np.ndarray) -> np.ndarray:
        return np.concatenate([matrix[:p].T.ravel(), matrix[p:].ravel()])

    return np.array([vector(theta.value) for theta in thetas]), vector(center.value)


def _loss(problem: Definition, i: int, scores: Any) -> Any:
    rows, weight = problem.rows[i], problem.row_weights[i]
    if not problem.classifies:
        error = problem.data.y[rows] - scores[:, 0]
        return 0.5 * cp.sum_squares(cp.multiply(np.sqrt(weight), error))
    hot = problem.one_hot[rows]
    if problem.n_scores == 1:
        return weight @ (cp.logistic(scores[:, 0]) - cp.multiply(hot[:, 1], scores[:, 0]))
    return weight @ (cp.log_sum_exp(scores, axis=1) - cp.sum(cp.multiply(hot, scores), axis=1))


def made_feasible(problem: Definition, thetas: np.ndarray, center: np.ndarray) -> np.ndarray:
    offsets = thetas - center
    for place, tether in problem.blocks:
        d = np.linalg.norm(offsets[:, place], axis=1)
        shrink = np.minimum(1.0, tether["epsilon"] / np.where(d > 0, d, 1e-300))
        offsets[:, place] *= shrink[:, None]
    return center + offsets


def assert_as_good_as_clarabel(model: Any, data: Data) -> None:
    problem = Definition(data.fitted(model), data)
    assert_optimal(problem)
    thetas, center = solve_with_clarabel(problem)
    oracle = problem.objective(made_feasible(problem, thetas, center), center)
    assert model.objective_ <= oracle + VALUE * (1 + abs(oracle))
    assert model.objective_ >= oracle - 10 * VALUE * (1 + abs(oracle))


pytestmark = pytest.mark.filterwarnings("ignore:ConvexSolution may be inaccurate:UserWarning")


@tethers
@pytest.mark.parametrize("task_weights", ["samples", "equal"])
def test_ridge_on_random_data(tether, task_weights):
    data = random_data(0, SIZES, 3)
    model = CrossRidge(**tether, alpha=0.5, task_weights=task_weights)
    assert_as_good_as_clarabel(model, data)


@tethers
@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_on_random_data(tether, n_classes):
    data = random_data(1, (12, 15, 7, 10), 2, n_classes)
    assert_as_good_as_clarabel(CrossLogisticRegression(**tether, alpha=0.5), data)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("tether", ["all", "two balls"])
@pytest.mark.parametrize("estimator", [CrossRidge, CrossLogisticRegression])
def test_options_and_weights(estimator, tether, standardize, fit_intercept):
    classes = 0 if estimator is CrossRidge else 3
    data = random_data(2, (10, 14, 6), 2, classes)
    weight = np.random.default_rng(3).uniform(0.1, 3.0, len(data.y))
    data = Data(data.X, data.y, data.tasks, weight)
    options = {"standardize": standardize, "fit_intercept": fit_intercept}
    for task_weights in ("samples", "equal"):
        model = estimator(**TETHERS[tether], alpha=1.5, task_weights=task_weights, **options)
        assert_as_good_as_clarabel(model, data)


@pytest.mark.parametrize(("standardize", "alpha"), [(True, 0.0), (False, 1.0)])
@pytest.mark.parametrize("tether", ["ball", "spring", "tension", "all", "two balls", "shared coef"])
def test_ridge_on_schools(tether, standardize, alpha):
    assert_as_good_as_clarabel(
        CrossRidge(**TETHERS[tether], alpha=alpha, standardize=standardize), schools()
    )


@pytest.mark.parametrize("tether", ["ball", "spring", "two mixtures", "free coef"])
def test_logistic_on_schools(tether):
    data = schools(6)
    data = Data(data.X, np.digitize(data.y, [8.0, 16.0]), data.tasks)
    assert_as_good_as_clarabel(CrossLogisticRegression(**TETHERS[tether]), data)
    data = Data(data.X, data.y == 2, data.tasks)
    assert_as_good_as_clarabel(CrossLogisticRegression(**TETHERS[tether], alpha=0.1), data)


QUICK = ("ball", "tension", "two balls", "two mixtures")


@pytest.mark.parametrize(
    "tether",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in TETHERS],
)
def test_ridge_on_houses(tether):
    columns = ["Lot_Area", "Year_Built", "Gr_Liv_Area", "Garage_Cars"]
    houses = load_ames(numeric_only=True)
    names = sorted(houses.tasks.unique())[::3]
    rows = houses.tasks.isin(names).to_numpy()
    data = Data(
        houses.X.loc[rows, columns].to_numpy(float),
        houses.y[rows].to_numpy(),
        houses.tasks[rows].to_numpy(str),
    )
    knobs = {
        name: {k: 0.1 * v for k, v in knob.items()} if isinstance(knob, dict) else 0.1 * knob
        for name, knob in TETHERS[tether].items()
    }
    assert_as_good_as_clarabel(CrossRidge(**knobs), data)


def schools(n: int = 12) -> Data:
    pupils = load_hsb82()
    rows = pupils.tasks.isin(sorted(pupils.tasks.unique())[:: 160 // n][:n]).to_numpy()
    return Data(
        pupils.X[rows].to_numpy(float), pupils.y[rows].to_numpy(), pupils.tasks[rows].to_numpy()
    )
