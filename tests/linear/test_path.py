"""Paths of radii: from pooled to separate, each point a fit of its own."""

import numpy as np
import pytest

from crosslearning.datasets import load_hsb82
from crosslearning.linear import (
    CrossLogisticRegression,
    CrossRidge,
    cross_logistic_path,
    cross_ridge_path,
)
from tests.support.linear_laws import KKT, Data, Definition, assert_optimal, by_block, random_data

INF = np.inf
SIZES = (20, 15, 12, 9)
POINT = 1e-6  # agreement of a warm start with a cold one
AT_END = 1e-3  # of the centre where nearly no force determines it: square root of the residual
KINDS = {"ridge": 0, "binary": 2, "multinomial": 3}
TETHERS = {
    "ball": {},
    "spring": {"stiffness": 2.0},
    "tension": {"tension": 1.0},
    "both": {"stiffness": 1.0, "tension": 0.5},
}

kinds = pytest.mark.parametrize("classes", KINDS.values(), ids=KINDS.keys())
tethers = pytest.mark.parametrize("tether", TETHERS.values(), ids=TETHERS.keys())


def path_of(data, classes, **settings):
    path = cross_logistic_path if classes else cross_ridge_path
    return path(data.X, data.y, data.tasks, sample_weight=data.sample_weight, **settings)


def model_of(classes, epsilon, **settings):
    return (CrossLogisticRegression if classes else CrossRidge)(epsilon, **settings)


def schools(n):
    """Pupils of the first schools: 3 features, unequal sizes, constant columns in some."""
    pupils = load_hsb82()
    tasks = pupils.tasks.to_numpy()
    rows = np.isin(tasks, np.unique(tasks)[:n])
    return Data(pupils.X.to_numpy(float)[rows], pupils.y.to_numpy()[rows], tasks[rows])


def assert_points_are_fits(path, data, classes, **settings):
    """Each point of a path equals the estimator that is fitted with its radius alone."""
    for k, epsilon in enumerate(path.epsilons):
        model = data.fitted(model_of(classes, epsilon, **settings))
        scale = Definition(model, data).force_scale
        at_end = np.all(path.forces[k] <= POINT * scale) and epsilon != INF
        loose = AT_END if at_end else POINT
        limits = {"coef": POINT, "intercept": POINT, "forces": POINT * scale}
        limits |= {"center_coef": loose, "center_intercept": loose, "distances": loose}
        for name, limit in limits.items():
            expected = getattr(model, f"{name}_")
            if isinstance(expected, dict):
                expected = np.stack(by_block(expected))
            ours = getattr(path, name)[k]
            np.testing.assert_allclose(ours, expected, rtol=limit, atol=limit, err_msg=name)
        assert path.objective[k] == pytest.approx(model.objective_, rel=1e-9)


@kinds
@tethers
def test_from_pooled_to_separate(classes, tether):
    data = random_data(0, SIZES, 2, classes)
    path = path_of(data, classes, n_epsilons=4, smallest=1e-2, **tether)
    free = data.fitted(model_of(classes, INF, **tether))
    assert len(path.epsilons) == 6
    assert path.epsilons[0] == 0
    assert path.epsilons[-1] == INF
    positive = np.array(path.epsilons[1:-1])
    assert positive[-1] == pytest.approx(free.epsilon_max_, rel=1e-6)
    np.testing.assert_allclose(positive[1:] / positive[:-1], 1e2 ** (1 / 3))
    assert path.tasks.tolist() == [0, 1, 2, 3]


@kinds
@tethers
def test_objective_falls_and_every_point_is_optimal(classes, tether):
    data = random_data(1, SIZES, 2, classes)
    path = path_of(data, classes, n_epsilons=5, **tether)
    assert np.all(np.diff(path.objective) <= 1e-10 * np.abs(path.objective[0]))
    assert path.objective[0] > path.objective[-1]
    assert path.kkt_residual.max() <= KKT
    assert np.all(path.distances.max(axis=1) <= np.array(path.epsilons) + 1e-12)
    assert np.all(np.diff(path.distances.max(axis=1)) >= -1e-6)


@kinds
@tethers
def test_each_point_is_a_fit_alone(classes, tether):
    data = random_data(2, SIZES, 2, classes)
    path = path_of(data, classes, n_epsilons=3, alpha=0.3, **tether)
    assert_points_are_fits(path, data, classes, alpha=0.3, **tether)


@kinds
def test_points_meet_the_definition(classes):
    data = random_data(3, SIZES, 2, classes)
    path = path_of(data, classes, n_epsilons=4)
    for k, epsilon in enumerate(path.epsilons):
        model = model_of(classes, epsilon)
        for name in ("coef", "intercept", "center_coef", "center_intercept", "objective"):
            setattr(model, f"{name}_", getattr(path, name)[k])
        model.distances_, model.forces_ = path.distances[k], path.forces[k]
        model.kkt_residual_ = path.kkt_residual[k]
        assert_optimal(Definition(model, data))


@kinds
def test_ends_are_the_limits(classes):
    data = random_data(4, SIZES, 2, classes)
    path = path_of(data, classes, n_epsilons=5)
    pooled, separate = (data.fitted(model_of(classes, epsilon)) for epsilon in (0.0, INF))
    for k, limit in ((0, pooled), (-1, separate), (-2, separate)):
        np.testing.assert_allclose(path.coef[k], limit.coef_, rtol=POINT, atol=POINT)
        np.testing.assert_allclose(path.intercept[k], limit.intercept_, rtol=POINT, atol=POINT)
    assert np.array_equal(path.distances[0], np.zeros(4))
    scale = Definition(separate, data).force_scale
    assert path.forces[-2:].max() <= 1e-8 * scale
    assert path.forces[-3].max() > 1e-6 * scale


@pytest.mark.parametrize("classes", [0, 2])
def test_schools(classes):
    data = schools(8)
    if classes:
        data = Data(data.X, (data.y > 13).astype(int), data.tasks)
    path = path_of(data, classes, n_epsilons=4)
    assert path.kkt_residual.max() <= KKT
    assert np.all(np.diff(path.objective) <= 1e-10 * path.objective[0])
    assert_points_are_fits(path, data, classes)


@kinds
def test_weights_and_settings_are_those_of_the_estimator(classes):
    data = random_data(5, SIZES, 2, classes)
    weight = np.random.default_rng(0).uniform(0.3, 2.0, len(data.y))
    data = Data(data.X, data.y, data.tasks, weight)
    settings = {"task_weights": "equal", "standardize": False, "fit_intercept": False}
    path = path_of(data, classes, n_epsilons=3, **settings)
    assert_points_are_fits(path, data, classes, **settings)


@kinds
@pytest.mark.parametrize("order", [1, -1])
def test_given_radii(classes, order):
    data = random_data(6, SIZES, 2, classes)
    epsilons = [0.0, 0.05, 0.3, 50.0, INF][::order]
    for given in (epsilons, tuple(epsilons), np.array(epsilons)):
        path = path_of(data, classes, epsilons=given)
        assert path.epsilons == epsilons
    assert_points_are_fits(path, data, classes)


RADII_BY_BLOCK = [
    {"coef": 0.0, "intercept": 0.0},
    {"coef": 0.1, "intercept": 0.0},
    {"coef": 0.1, "intercept": 0.4},
    {"coef": 0.1},
    {"intercept": 0.4},
    {"coef": INF, "intercept": INF},
]


@kinds
def test_radii_by_block(classes):
    data = random_data(7, SIZES, 2, classes)
    path = path_of(data, classes, epsilons=RADII_BY_BLOCK)
    assert path.epsilons == RADII_BY_BLOCK
    assert path.distances.shape == path.forces.shape == (6, 2, 4)
    assert path.kkt_residual.max() <= KKT
    assert_points_are_fits(path, data, classes)


def test_numbers_among_radii_by_block():
    """A number beside dicts is a radius of each block, as it is beside a dict of stiffness."""
    data = random_data(7, SIZES, 2)
    path = path_of(data, 0, epsilons=[0.0, {"coef": 0.1, "intercept": 0.3}, INF])
    expected = path_of(
        data,
        0,
        epsilons=[{"coef": e[0], "intercept": e[1]} for e in [(0.0, 0.0), (0.1, 0.3), (INF, INF)]],
    )
    assert path.distances.shape == (3, 2, 4)
    np.testing.assert_allclose(path.coef, expected.coef, atol=POINT)


@pytest.mark.parametrize("tether", [{"stiffness": {"coef": 50.0}}, {"tension": {"intercept": 2.0}}])
def test_springs_by_block_reach_the_end(tether):
    """The largest finite radius holds no block back, whichever has a spring."""
    data = random_data(0, (20, 15, 12), 3)
    path = path_of(data, 0, n_epsilons=5, **tether)
    assert path.distances.shape == (7, 2, 3)
    assert path.kkt_residual.max() <= KKT
    assert np.all(np.diff(path.objective) <= 1e-10 * path.objective[0])
    assert path.objective[-2] == pytest.approx(path.objective[-1], rel=1e-8)
    np.testing.assert_allclose(path.intercept[-2], path.intercept[-1], atol=1e-5)


@pytest.mark.filterwarnings("ignore:`fit` got no `tasks`")
@kinds
def test_one_task_has_a_path_of_its_ends(classes):
    data = random_data(8, (30,), 2, classes)
    for tasks in (None, np.zeros(30), ["only"] * 30):
        path = (cross_logistic_path if classes else cross_ridge_path)(data.X, data.y, tasks)
        assert path.epsilons == [0.0, INF]
        np.testing.assert_allclose(path.coef[0], path.coef[1], atol=POINT)
    assert path.tasks.tolist() == ["only"]


@kinds
@tethers
@pytest.mark.parametrize("shuffled", [False, True])
def test_tasks_that_coincide_have_no_path(classes, tether, shuffled):
    one = random_data(9, (25,), 2, classes)
    rows, tasks = np.tile(np.arange(25), 3), np.repeat([0, 1, 2], 25)
    order = np.random.default_rng(0).permutation(75) if shuffled else np.arange(75)
    data = Data(one.X[rows][order], one.y[rows][order], tasks[order])
    path = path_of(data, classes, n_epsilons=3, **tether)
    # Sums of the same numbers in another order differ by rounding.
    assert max(path.epsilons[:-1]) <= 1e-13
    if not shuffled and not tether:
        assert path.epsilons == [0.0, INF]
    np.testing.assert_allclose(path.coef - path.coef[:1], 0.0, atol=POINT)
    assert path.kkt_residual.max() <= KKT


BAD = {
    "radius": ({"epsilons": [0.0, -1.0]}, "must be at least 0; got -1.0. Use 0 to pool"),
    "block": ({"epsilons": [{"slope": 1.0}]}, r"'coef' and 'intercept'; got \['slope'\]"),
    "alpha": ({"alpha": -1.0}, "'alpha' parameter"),
    "n_epsilons": ({"n_epsilons": 1}, "n_epsilons"),
    "smallest": ({"smallest": 0.0}, "smallest"),
}


@pytest.mark.parametrize(("settings", "message"), BAD.values(), ids=BAD.keys())
def test_bad_settings(settings, message):
    data = random_data(0, SIZES, 2)
    with pytest.raises(ValueError, match=message):
        path_of(data, 0, **settings)
