"""The ends of the path, where the linear models are those of scikit-learn."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from crosslearning.datasets import load_hsb82
from crosslearning.linear import CrossLogisticRegression, CrossRidge
from tests.support.linear_laws import KKT, PREDICTION, Data, Definition, random_data

INF = np.inf
SIZES = (30, 12, 8, 25)
both_intercepts = pytest.mark.parametrize("fit_intercept", [True, False])


def logistic(alpha, **options):
    """Unregularised at alpha=0, which scikit-learn spells C=inf."""
    C = 1 / alpha if alpha else INF
    return LogisticRegression(C=C, tol=1e-10, max_iter=10_000, **options)


def regression(alpha, **options):
    return Ridge(alpha, **options) if alpha else LinearRegression(**options)


def assert_predicts_like(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=PREDICTION, atol=PREDICTION)


@both_intercepts
@pytest.mark.parametrize("alpha", [0.0, 0.3, 10.0])
def test_ridge_pooled(alpha, fit_intercept):
    data = random_data(0, SIZES, 3)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(data.y))
    options = {"alpha": alpha, "fit_intercept": fit_intercept}
    model = CrossRidge(0.0, standardize=False, **options)
    model.fit(data.X, data.y, tasks=data.tasks, sample_weight=weight)
    reference = regression(**options).fit(data.X, data.y, sample_weight=weight)
    for tasks in (data.tasks, np.full(len(data.y), -7)):
        assert_predicts_like(model.predict(data.X, tasks), reference.predict(data.X))
    np.testing.assert_allclose(model.coef_, np.tile(reference.coef_, (4, 1)), atol=PREDICTION)
    assert np.array_equal(model.distances_, np.zeros(4))
    assert model.kkt_residual_ <= KKT


@both_intercepts
@pytest.mark.parametrize("alpha", [0.0, 0.3, 10.0])
def test_ridge_separate(alpha, fit_intercept):
    data = random_data(0, SIZES, 3)
    model = CrossRidge(INF, alpha=alpha, fit_intercept=fit_intercept, standardize=False)
    data.fitted(model)
    for task in range(4):
        own = data.take(data.tasks == task)
        share = len(own.y) / len(data.y)
        reference = regression(alpha=alpha * share, fit_intercept=fit_intercept)
        reference.fit(own.X, own.y)
        predicted = model.predict(data.X, np.full(len(data.y), task))
        assert_predicts_like(predicted, reference.predict(data.X))
    assert model.kkt_residual_ <= KKT
    np.testing.assert_allclose(model.forces_, 0.0, atol=1e-8 * Definition(model, data).force_scale)


@both_intercepts
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 10.0])
def test_logistic_pooled(alpha, n_classes, fit_intercept):
    data = random_data(3, (40, 30, 20), 2, n_classes)
    options = {"alpha": alpha, "fit_intercept": fit_intercept}
    model = data.fitted(CrossLogisticRegression(0.0, standardize=False, **options))
    reference = logistic(**options).fit(data.X, data.y)
    ours = model.predict_proba(data.X, data.tasks)
    assert_predicts_like(ours, reference.predict_proba(data.X))
    assert model.kkt_residual_ <= KKT


@both_intercepts
@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_separate(n_classes, fit_intercept):
    data = random_data(3, (40, 30, 20), 2, n_classes)
    options = {"fit_intercept": fit_intercept}
    model = data.fitted(CrossLogisticRegression(INF, alpha=0.9, standardize=False, **options))
    for task in range(3):
        own = data.take(data.tasks == task)
        assert len(np.unique(own.y)) == n_classes
        reference = logistic(0.9 * len(own.y) / len(data.y), **options).fit(own.X, own.y)
        ours = model.predict_proba(data.X, np.full(len(data.y), task))
        assert_predicts_like(ours, reference.predict_proba(data.X))


@pytest.mark.filterwarnings("ignore:`fit` got no `tasks`")
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_tasks_it_is_an_ordinary_regression(standardize, fit_intercept):
    data = random_data(4, (40,), 3)
    classes = (data.y > np.median(data.y)).astype(int)
    scaler = [StandardScaler(with_mean=fit_intercept)] if standardize else []
    options = {"fit_intercept": fit_intercept}
    ridge = make_pipeline(*scaler, Ridge(2.0, **options)).fit(data.X, data.y)
    classifier = make_pipeline(*scaler, logistic(2.0, **options)).fit(data.X, classes)
    options |= {"standardize": standardize, "alpha": 2.0}
    for tasks in (None, ["only"] * 40):
        for epsilon in (0.0, 0.7, INF, {"coef": 0.1, "intercept": 0.0}):
            model = CrossRidge(epsilon, **options).fit(data.X, data.y, tasks=tasks)
            assert_predicts_like(model.predict(data.X), ridge.predict(data.X))
            model = CrossLogisticRegression(epsilon, **options).fit(data.X, classes, tasks=tasks)
            assert_predicts_like(model.predict_proba(data.X), classifier.predict_proba(data.X))


@pytest.mark.parametrize("extra", [{"stiffness": 2.0}, {"tension": {"coef": 1.0}}])
def test_one_task_feels_no_tether(extra):
    data = random_data(4, (40,), 3)
    model = data.fitted(CrossRidge(INF, standardize=False, **extra))
    assert_predicts_like(model.predict(data.X), Ridge().fit(data.X, data.y).predict(data.X))


def test_standardised_pooled_is_a_pipeline():
    pupils = load_hsb82()
    model = CrossRidge(0.0, alpha=50.0).fit(pupils.X, pupils.y, tasks=pupils.tasks)
    reference = make_pipeline(StandardScaler(), Ridge(50.0)).fit(pupils.X, pupils.y)
    ours = model.predict(pupils.X, tasks=pupils.tasks)
    assert_predicts_like(ours, reference.predict(pupils.X))


@pytest.mark.parametrize("estimator", [CrossRidge, CrossLogisticRegression])
def test_zero_radius_wins_over_spring_and_tension(estimator):
    data = random_data(3, (40, 30, 20), 2, 2)
    pooled = data.fitted(estimator(0.0))
    tethered = data.fitted(estimator(0.0, stiffness=2.0, tension=1.0))
    np.testing.assert_allclose(tethered.coef_, pooled.coef_, atol=PREDICTION)
    blocks = data.fitted(estimator({"coef": 0, "intercept": 0}))
    np.testing.assert_allclose(blocks.coef_, pooled.coef_, atol=PREDICTION)


@pytest.mark.parametrize("classes", [0, 2, 3])
@pytest.mark.parametrize("task_weights", ["samples", "equal"])
def test_right_end(classes, task_weights):
    data = random_data(5, (40, 30, 20), 2, classes)
    estimator = CrossLogisticRegression if classes else CrossRidge
    options = {"task_weights": task_weights}
    separate = data.fitted(estimator(INF, **options))
    end = separate.epsilon_max_
    for epsilon in (1e-3, 0.4 * end, 1e4):
        assert data.fitted(estimator(epsilon, **options)).epsilon_max_ == pytest.approx(end)
    scale = Definition(separate, data).force_scale
    for factor in (1.0 + 1e-6, 1.5, 1e3):
        model = data.fitted(estimator(factor * end, **options))
        np.testing.assert_allclose(model.coef_, separate.coef_, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(model.intercept_, separate.intercept_, rtol=1e-6, atol=1e-6)
        assert model.forces_.max() <= 1e-8 * scale
    below = data.fitted(estimator((1 - 1e-3) * end, **options))
    assert below.forces_.max() > 1e-7 * scale
    assert below.objective_ > separate.objective_


@pytest.mark.parametrize("other", [0.0, 0.1, INF])
@pytest.mark.parametrize("block", ["coef", "intercept"])
def test_right_end_of_a_block_given_the_other(block, other):
    data = random_data(6, (40, 30, 20), 2)
    rest = "intercept" if block == "coef" else "coef"
    free = data.fitted(CrossRidge({block: INF, rest: other}))
    end = free.epsilon_max_[block]
    above = data.fitted(CrossRidge({block: 1.001 * end, rest: other}))
    assert above.objective_ == pytest.approx(free.objective_, rel=1e-9)
    assert above.epsilon_max_[block] == pytest.approx(end, rel=1e-5)
    below = data.fitted(CrossRidge({block: 0.99 * end, rest: other}))
    assert below.objective_ > free.objective_ * (1 + 1e-10)
    assert below.forces_[block].max() > 0


def test_right_end_of_a_spring():
    data = random_data(6, (40, 30, 20), 2)
    free = data.fitted(CrossRidge(INF, stiffness=4.0))
    assert free.epsilon_max_ == pytest.approx(free.distances_.max())
    above = data.fitted(CrossRidge(1.001 * free.epsilon_max_, stiffness=4.0))
    np.testing.assert_allclose(above.coef_, free.coef_, atol=PREDICTION)
    below = data.fitted(CrossRidge(0.99 * free.epsilon_max_, stiffness=4.0))
    assert below.objective_ > free.objective_


def test_spring_solves_a_linear_system():
    data = random_data(7, (9, 14, 6, 20, 2), 3)
    for stiffness, kappa in ((3.0, np.full(4, 3.0)), ({"coef": 2.0}, np.array([2.0, 2.0, 2.0, 0]))):
        model = data.fitted(CrossRidge(INF, alpha=0.7, stiffness=stiffness))
        problem = Definition(model, data)
        thetas, center = problem.parameters()
        zero = np.zeros_like(thetas)
        right = -problem.gradients(zero)
        units = np.eye(4)
        A = np.stack([problem.gradients(zero + unit) + right for unit in units], axis=2)
        K = np.zeros((24, 24))
        for i in range(5):
            at = slice(4 * i, 4 * i + 4)
            K[at, at] = A[i] + np.diag(kappa)
            K[at, 20:] = K[20:, at] = -np.diag(kappa)
        K[20:, 20:] = 5 * np.diag(kappa)
        solution = np.linalg.lstsq(K, np.append(right.ravel(), np.zeros(4)), rcond=None)[0]
        np.testing.assert_allclose(thetas, solution[:20].reshape(5, 4), atol=1e-8)
        tied = kappa > 0
        np.testing.assert_allclose(center[tied], solution[20:][tied], atol=1e-8)


@pytest.mark.parametrize("task_weights", ["samples", "equal"])
@pytest.mark.parametrize("estimator", [CrossRidge, CrossLogisticRegression])
def test_repeated_rows_are_weights(estimator, task_weights):
    data = random_data(8, (12, 9, 15), 3, 2)
    times = np.random.default_rng(0).integers(0, 4, len(data.y))
    times[:2] = 1
    repeated = data.take(np.repeat(np.arange(len(times)), times))
    weighted = Data(data.X, data.y, data.tasks, times.astype(float))
    options = {"epsilon": 0.2, "task_weights": task_weights}
    left, right = repeated.fitted(estimator(**options)), weighted.fitted(estimator(**options))
    for name in ("coef_", "intercept_", "center_coef_", "forces_", "objective_", "epsilon_max_"):
        expected = getattr(left, name)
        np.testing.assert_allclose(getattr(right, name), expected, rtol=1e-6, atol=1e-7)
