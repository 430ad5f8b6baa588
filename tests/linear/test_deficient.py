"""Tasks whose data do not determine their parameters, and centres that nothing determines."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from crosslearning.datasets import load_hsb82
from crosslearning.linear import CrossLogisticRegression, CrossRidge
from tests.support.linear_laws import KKT, PREDICTION, Data, Definition, assert_optimal, random_data

INF = np.inf
SIZES = (30, 3, 1, 12, 2)  # for 4 features: three tasks have fewer rows than parameters


def deficient() -> Data:
    data = random_data(0, SIZES, 4)
    data.X[data.tasks == 3, 1] = 2.5  # constant within the task
    return data


def unseen_part(problem: Definition, i: int, offset: np.ndarray) -> float:
    """Length of what the rows of task i do not see of an offset."""
    columns = problem.columns[problem.rows[i]]
    seen = np.linalg.pinv(columns, rcond=1e-10) @ (columns @ offset)
    return float(np.linalg.norm(offset - seen))


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_separate_is_the_minimum_norm_solution(fit_intercept):
    data = deficient()
    options = {"fit_intercept": fit_intercept}
    model = data.fitted(CrossRidge(INF, alpha=0.0, standardize=False, **options))
    for task in range(len(SIZES)):
        own = data.take(data.tasks == task)
        reference = LinearRegression(**options).fit(own.X, own.y)
        predicted = model.predict(data.X, np.full(len(data.y), task))
        expected = reference.predict(data.X)
        np.testing.assert_allclose(predicted, expected, rtol=PREDICTION, atol=PREDICTION)


def test_constant_column_pooled():
    data = deficient()
    X = np.column_stack([data.X, np.full(len(data.y), 3.0)])
    reference = LinearRegression().fit(X, data.y).predict(X)
    for standardize in (True, False):
        model = CrossRidge(0.0, alpha=0.0, standardize=standardize).fit(X, data.y, data.tasks)
        np.testing.assert_allclose(model.predict(X, data.tasks), reference, atol=PREDICTION)
        assert np.abs(model.coef_[:, -1]).max() <= PREDICTION


@pytest.mark.parametrize("alpha", [0.0, 1e-6, 1.0])
@pytest.mark.parametrize(
    "epsilon",
    [1e-3, 0.1, 0.5, 2.0, 1e3, {"coef": 0.3, "intercept": INF}, {"coef": INF, "intercept": 0.1}],
)
def test_any_radius_converges(epsilon, alpha):
    data = deficient()
    for tether in ({}, {"stiffness": 0.5}):
        model = data.fitted(CrossRidge(epsilon, alpha=alpha, **tether))
        assert_optimal(Definition(model, data))


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 30.0, 1e4])
def test_nearest_to_the_centre(epsilon):
    """Of the best parameters of a task that nothing holds, those nearest the centre."""
    data = deficient()
    problem = Definition(data.fitted(CrossRidge(epsilon, alpha=0.0)), data)
    thetas, center = problem.parameters()
    for i, offset in enumerate(thetas - center):
        assert unseen_part(problem, i, offset) <= 1e-6 * (1 + np.linalg.norm(offset))


KNOBS = [
    {"epsilon": 0.1},
    {"epsilon": {"coef": 0.1}},
    {"epsilon": {"coef": INF, "intercept": 0.01}},
    {"epsilon": INF, "stiffness": 1.0},
    {"epsilon": INF, "stiffness": {"intercept": 1.0}},
    {"epsilon": INF, "stiffness": {"coef": 1.0}},
    {"epsilon": INF, "tension": {"intercept": 1.0}},
    {"epsilon": {"coef": 0.5}, "stiffness": {"intercept": 1.0}},
]
knobs = pytest.mark.parametrize("knobs", KNOBS, ids=str)


@knobs
def test_task_with_a_constant_column(knobs):
    """Its intercept and that coefficient are one number to the data, and two to the tethers."""
    data = random_data(1, (30, 20, 15), 3)
    data.X[data.tasks == 1, 2] = 5.0
    assert_optimal(Definition(data.fitted(CrossRidge(**knobs, alpha=0.0)), data))


@knobs
@pytest.mark.parametrize("estimator", [CrossRidge, CrossLogisticRegression])
def test_repeated_columns_share_their_coefficient(estimator, knobs):
    """No task and no centre is determined; the coefficients must not run away."""
    data = random_data(1, (30, 20, 15), 2, 2)
    data = Data(data.X[:, [0, 1, 0]], data.y, data.tasks)
    model = data.fitted(estimator(**knobs, alpha=0.0))
    assert_optimal(Definition(model, data))
    for coef in (model.coef_, model.center_coef_):
        np.testing.assert_allclose(coef[..., 2], coef[..., 0], atol=PREDICTION)


def test_deficient_tasks_barely_move_the_others():
    """A task that fits its rows anyway exerts no force on the centre."""
    data = random_data(2, (30, 25, 2), 4)
    model = data.fitted(CrossRidge(5.0, alpha=0.0))
    assert model.forces_[2] <= 1e-8 * Definition(model, data).force_scale
    own = data.take(data.tasks == 2)
    np.testing.assert_allclose(model.predict(own.X, own.tasks), own.y, atol=PREDICTION)


@pytest.mark.parametrize("factor", [1.001, 1.1, 2.0, 100.0])
@pytest.mark.parametrize("classes", [0, 2])
def test_centre_beyond_the_right_end(classes, factor):
    """Nearest the mean of the tasks, weighted by rows, that has all tasks within the radius."""
    data = random_data(3, (60, 8, 20, 12), 2, classes)
    estimator = CrossLogisticRegression if classes else CrossRidge
    epsilon = factor * data.fitted(estimator(INF)).epsilon_max_
    problem = Definition(data.fitted(estimator(epsilon)), data)
    thetas, center = problem.parameters()
    assert problem.model.distances_.max() <= epsilon * (1 + 1e-12)
    mean = np.average(thetas, axis=0, weights=[60, 8, 20, 12])
    best = cp.Variable(3)
    within = [cp.norm(theta - best, 2) <= epsilon for theta in thetas]
    cp.Problem(cp.Minimize(cp.sum_squares(best - mean)), within).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(center, best.value, atol=2e-4 * np.abs(thetas).max())
    outside = np.linalg.norm(thetas - mean, axis=1).max() > epsilon
    assert outside or np.allclose(center, mean, atol=1e-9)


@pytest.mark.parametrize("task_weights", ["samples", "equal"])
def test_centre_of_separate_tasks_is_their_mean_by_rows(task_weights):
    data = random_data(3, (60, 8, 20, 12), 2)
    model = data.fitted(CrossRidge(INF, task_weights=task_weights))
    mean = np.average(model.coef_, axis=0, weights=[60, 8, 20, 12])
    np.testing.assert_allclose(model.center_coef_, mean, atol=1e-10)
    free = data.fitted(CrossRidge({"coef": INF, "intercept": 0}, task_weights=task_weights))
    mean = np.average(free.coef_, axis=0, weights=[60, 8, 20, 12])
    np.testing.assert_allclose(free.center_coef_, mean, atol=1e-8)


def test_every_school_is_deficient_with_school_features():
    pupils = load_hsb82(school_features=True)
    rows = (pupils.tasks % 5 == 0).to_numpy()
    data = Data(
        pupils.X[rows].to_numpy(float), pupils.y[rows].to_numpy(), pupils.tasks[rows].to_numpy()
    )
    for epsilon in (0.5, 3.0, {"coef": 0.3, "intercept": 1.0}):
        model = data.fitted(CrossRidge(epsilon, alpha=0.0))
        assert_optimal(Definition(model, data))
    assert np.isfinite(data.fitted(CrossRidge(INF, alpha=0.0)).epsilon_max_)


@pytest.mark.parametrize(
    "epsilon", [0.01, 0.3, 1.0, 3.0, pytest.param(10.0, marks=pytest.mark.slow), 30.0]
)
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_tasks_that_miss_classes(epsilon, alpha):
    data = random_data(4, (40, 30, 20), 2, 3)
    keep = (data.tasks != 1) | (data.y != 0)
    keep &= (data.tasks != 2) | (data.y == 1)
    data = data.take(keep)
    model = data.fitted(CrossLogisticRegression(epsilon, alpha=alpha))
    assert_optimal(Definition(model, data))
    likely = model.predict_proba(data.X, data.tasks)
    assert likely.shape == (len(data.y), 3)
    np.testing.assert_allclose(likely.sum(axis=1), 1.0)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.0, 10.0, 30.0])
@pytest.mark.parametrize("alpha", [0.0, 1e-3])
def test_separable_tasks(epsilon, alpha):
    data = random_data(5, (40, 30, 20), 2, 2)
    y = np.where(data.tasks == 1, data.X[:, 0] > 0, data.y)
    data = Data(data.X, y, data.tasks)
    model = data.fitted(CrossLogisticRegression(epsilon, alpha=alpha))
    assert_optimal(Definition(model, data))
    if epsilon >= 10:
        rows = data.tasks == 1
        assert model.score(data.X[rows], data.y[rows], data.tasks[rows]) == 1.0


def test_separable_and_separate():
    data = random_data(5, (40, 30, 20), 2, 2)
    y = np.where(data.tasks == 1, data.X[:, 0] > 0, data.y)
    y = np.where(data.tasks == 2, 1, y)  # one class only
    model = CrossLogisticRegression(INF, alpha=0.0).fit(data.X, y, tasks=data.tasks)
    assert model.kkt_residual_ <= KKT
    assert np.isfinite(model.coef_).all()
    assert np.array_equal(model.predict(data.X, data.tasks)[40:], y[40:])


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 10.0])
@pytest.mark.parametrize("task_weights", ["samples", "equal"])
@pytest.mark.parametrize("estimator", [CrossRidge, CrossLogisticRegression])
def test_task_without_weight_is_the_centre(estimator, task_weights, epsilon):
    """It has no say about the others, and the tether leaves it where they put the centre."""
    data = random_data(6, (20, 15, 6), 2, 2)
    model = estimator(epsilon, task_weights=task_weights)
    others = data.take(data.tasks != 2).fitted(clone(model))
    weightless = Data(data.X, data.y, data.tasks, np.where(data.tasks == 2, 0.0, 1.0))
    weightless.fitted(model)
    np.testing.assert_allclose(model.coef_[:2], others.coef_, atol=PREDICTION)
    np.testing.assert_allclose(model.coef_[2], model.center_coef_, atol=PREDICTION)
    assert model.forces_[2] <= 1e-10 * model.forces_.max() or epsilon == 0


@pytest.mark.parametrize("estimator", [CrossRidge, CrossLogisticRegression])
def test_single_row_tasks(estimator):
    data = random_data(7, (2,) + (1,) * 8, 2, 0)
    y = data.y if estimator is CrossRidge else (data.y > np.median(data.y)).astype(int)
    data = Data(data.X, y, data.tasks)
    for epsilon in (0.0, 0.1, 1.0, 10.0):
        assert_optimal(Definition(data.fitted(estimator(epsilon, alpha=0.1)), data))
