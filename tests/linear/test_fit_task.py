"""A new task around the centre of a fitted model."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from crosslearning.linear import CrossLogisticRegression, CrossRidge
from tests.support.linear_laws import KKT, Definition, random_data

INF = np.inf
SIZES = (25, 12, 18, 7)
CLASSES = {"ridge": 0, "binary": 2, "multinomial": 3}

kinds = pytest.mark.parametrize("classes", CLASSES.values(), ids=CLASSES.keys())
task_weights = pytest.mark.parametrize("task_weights", ["samples", "equal"])


def model_for(classes, epsilon=0.3, **settings):
    estimator = CrossLogisticRegression if classes else CrossRidge
    return estimator(epsilon, **settings)


@kinds
@task_weights
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    "tether",
    [
        {"epsilon": 0.1},
        {"epsilon": INF, "stiffness": 3.0},
        {"epsilon": 0.4, "tension": 0.5},
        {"epsilon": {"coef": 0.2, "intercept": 0.1}},
        {"epsilon": {"coef": 0, "intercept": INF}},
        {"epsilon": INF},
        {"epsilon": 0.0},
    ],
    ids=str,
)
def test_a_task_of_the_fit_gets_its_parameters_back(classes, tether, fit_intercept, task_weights):
    data = random_data(0, SIZES, 2, classes)
    settings = {"task_weights": task_weights, "fit_intercept": fit_intercept}
    model = data.fitted(model_for(classes, **tether, **settings))
    for i in range(len(SIZES)):
        own = data.take(data.tasks == i)
        new = model.fit_task(own.X, own.y)
        size = 1 + np.abs(model.coef_).max()
        np.testing.assert_allclose(new.coef_[0], model.coef_[i], atol=1e-6 * size)
        np.testing.assert_allclose(new.intercept_[0], model.intercept_[i], atol=1e-6 * size)
        assert new.kkt_residual_ <= KKT


@task_weights
def test_sample_weights(task_weights):
    data = random_data(1, SIZES, 2)
    weight = np.random.default_rng(0).uniform(0.2, 2.0, len(data.y))
    model = CrossRidge(0.1, task_weights=task_weights)
    model.fit(data.X, data.y, tasks=data.tasks, sample_weight=weight)
    rows = data.tasks == 2
    new = model.fit_task(data.X[rows], data.y[rows], sample_weight=weight[rows])
    np.testing.assert_allclose(new.coef_[0], model.coef_[2], atol=1e-7)


@kinds
def test_the_fitted_model_does_not_change(classes):
    data = random_data(2, SIZES, 2, classes)
    model = data.fitted(model_for(classes))
    before = {name: np.copy(value) for name, value in vars(model).items()}
    model.fit_task(data.X[5:20], data.y[5:20], task="late")
    assert vars(model).keys() == before.keys()
    for name, value in vars(model).items():
        assert np.array_equal(value, before[name]), name


@kinds
def test_the_new_model_knows_the_task_and_the_centre(classes):
    data = random_data(2, SIZES, 2, classes)
    model = data.fitted(model_for(classes))
    new = model.fit_task(data.X[5:20], data.y[5:20], task=("late", 1))
    assert new.tasks_.tolist() == [("late", 1)]
    assert new.get_params() == model.get_params()
    np.testing.assert_allclose(new.center_coef_, model.center_coef_, atol=1e-12)
    np.testing.assert_allclose(new.center_intercept_, model.center_intercept_, atol=1e-12)
    assert new.distances_.shape == new.forces_.shape == (1,)
    assert new.distances_[0] <= 0.3 * (1 + 1e-9)
    late = new.predict(data.X, [("late", 1)] * len(data.y))
    assert np.array_equal(new.predict(data.X), late)
    unseen = new.predict(data.X, [("late", 2)] * len(data.y))
    np.testing.assert_allclose(unseen, model.predict(data.X, [99] * len(data.y)))


@kinds
def test_a_task_of_a_new_task_is_a_task_of_the_model(classes):
    """`fit_task` of the result means the same as `fit_task` of the model."""
    data = random_data(2, SIZES, 2, classes)
    for task_weights in ("samples", "equal"):
        model = data.fitted(model_for(classes, INF, stiffness=3.0, task_weights=task_weights))
        rows = data.tasks == 1
        expected = model.fit_task(data.X[rows], data.y[rows])
        again = model.fit_task(data.X[:9], data.y[:9]).fit_task(data.X[rows], data.y[rows])
        np.testing.assert_allclose(again.coef_, expected.coef_, atol=1e-7)


def test_limits():
    data = random_data(3, SIZES, 2)
    rows = data.tasks == 3
    X, y = data.X[rows], data.y[rows]
    free = data.fitted(CrossRidge(INF, alpha=2.0, standardize=False)).fit_task(X, y)
    reference = Ridge(2.0 * len(y) / len(data.y)).fit(X, y)
    np.testing.assert_allclose(free.predict(X), reference.predict(X), atol=1e-6)
    model = data.fitted(CrossRidge(0.0))
    shared = model.fit_task(X, y)
    np.testing.assert_allclose(shared.coef_[0], model.center_coef_, atol=1e-12)


def test_one_row_moves_no_farther_than_it_must():
    data = random_data(4, SIZES, 3)
    model = data.fitted(CrossRidge(2.0, alpha=0.0))
    x = data.X[:1]
    new = model.fit_task(x, [5.0])
    problem = Definition(model, data)
    center = problem.vector(model.center_coef_, model.center_intercept_)
    own = problem.vector(new.coef_[0], new.intercept_[0])
    column = np.append((x[0] - problem.mean) / problem.scale, 1.0)
    gap = 5.0 - column @ center
    nearest = center + column * gap / (column @ column)
    if np.linalg.norm(nearest - center) <= 2.0:
        np.testing.assert_allclose(own, nearest, atol=1e-7)
        assert new.predict(x)[0] == pytest.approx(5.0)
    else:
        assert new.distances_[0] == pytest.approx(2.0)


def test_task_column():
    pandas = pytest.importorskip("pandas")
    data = random_data(5, SIZES, 2)
    frame = pandas.DataFrame(data.X, columns=["a", "b"]).assign(school=data.tasks)
    model = CrossRidge(0.1, task_column="school").fit(frame, data.y)
    rows = data.tasks == 2
    new = model.fit_task(frame[rows], data.y[rows], task=2)
    np.testing.assert_allclose(new.predict(frame[rows]), model.predict(frame[rows]), atol=1e-6)


def test_classes_of_a_new_task():
    data = random_data(6, SIZES, 2, 3)
    model = data.fitted(CrossLogisticRegression(0.5))
    new = model.fit_task(data.X[:6], np.full(6, 2))
    assert new.predict_proba(data.X).shape == (len(data.y), 3)
    with pytest.raises(ValueError, match=r"among those of `fit`, \[0, 1, 2\]; got \[7\]"):
        model.fit_task(data.X[:3], [0, 1, 7])


@task_weights
def test_bad_rows(task_weights):
    data = random_data(6, SIZES, 2)
    model = data.fitted(CrossRidge(0.5, task_weights=task_weights))
    with pytest.raises(ValueError, match="features"):
        model.fit_task(data.X[:3, :1], data.y[:3])
    for weight in (np.zeros(3), -np.ones(3)):
        with pytest.raises(ValueError, match=r"[Ww]eight"):
            model.fit_task(data.X[:3], data.y[:3], sample_weight=weight)
