"""The contract with scikit-learn: checks, routing, pipelines, cloning, pickling."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from crosslearning.convex.solver.problem import ConvexProblem
from crosslearning.exceptions import ConvergenceWarning
from crosslearning.linear import CrossLogisticRegression, CrossRidge
from tests.support.linear_laws import Data, Definition, random_data

estimators = pytest.mark.parametrize("estimator", [CrossRidge, CrossLogisticRegression])
BLOCKS = {"coef": 0.3, "intercept": np.inf}


def data_for(estimator, seed=0, sizes=(20, 15, 12)):
    return random_data(seed, sizes, 3, 0 if estimator is CrossRidge else 2)


@pytest.mark.filterwarnings("ignore:`fit` got no `tasks`")  # the checks have none
@parametrize_with_checks([CrossRidge(), CrossLogisticRegression(BLOCKS, stiffness=0.1)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def requesting(model):
    """The model, asking for task labels wherever it can use them."""
    model = model.set_fit_request(tasks=True).set_score_request(tasks=True)
    return model.set_predict_request(tasks=True)


@estimators
@pytest.mark.usefixtures("routing")
def test_routing_through_grid_search(estimator):
    data = data_for(estimator)
    folds = KFold(3, shuffle=True, random_state=0)
    model = requesting(estimator())
    search = GridSearchCV(model, {"epsilon": [0.0, 0.3, BLOCKS]}, cv=folds)
    search.fit(data.X, data.y, tasks=data.tasks)
    assert search.best_estimator_.tasks_.tolist() == [0, 1, 2]
    expected = []
    for train, test in folds.split(data.X):
        fitted = estimator(0.3).fit(data.X[train], data.y[train], tasks=data.tasks[train])
        expected.append(fitted.score(data.X[test], data.y[test], tasks=data.tasks[test]))
    assert search.cv_results_["mean_test_score"][1] == pytest.approx(np.mean(expected))
    direct = search.best_estimator_.score(data.X, data.y, data.tasks)
    assert search.score(data.X, data.y, tasks=data.tasks) == direct


@estimators
@pytest.mark.usefixtures("routing")
def test_routing_through_cross_validate_and_pipeline(estimator):
    data = data_for(estimator)
    model = requesting(estimator(0.2)).set_fit_request(tasks=True, sample_weight=True)
    model.set_score_request(tasks=True, sample_weight=True)
    pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
    weight = np.linspace(0.5, 2.0, len(data.y))
    results = cross_validate(
        pipeline,
        data.X,
        data.y,
        params={"tasks": data.tasks, "sample_weight": weight},
        cv=3,
        return_estimator=True,
        error_score="raise",
    )
    assert all(len(fitted[-1].tasks_) > 1 for fitted in results["estimator"])
    pipeline.fit(data.X, data.y, tasks=data.tasks, sample_weight=weight)
    X = StandardScaler().fit_transform(data.X)
    direct = estimator(0.2).fit(X, data.y, tasks=data.tasks, sample_weight=weight)
    predicted = pipeline.predict(data.X, tasks=data.tasks)
    np.testing.assert_allclose(predicted, direct.predict(X, data.tasks), atol=1e-8)


@estimators
def test_task_column_needs_no_routing(estimator):
    data = data_for(estimator)
    frame = pd.DataFrame(data.X, columns=["a", "b", "c"])
    frame.insert(1, "school", data.tasks)
    search = GridSearchCV(estimator(task_column="school"), {"epsilon": [0.0, 0.3, np.inf]}, cv=3)
    search.fit(frame, data.y)
    best = search.best_estimator_
    assert best.feature_names_in_.tolist() == ["a", "b", "c"]
    assert best.n_features_in_ == 3
    direct = estimator(best.epsilon).fit(frame[["a", "b", "c"]], data.y, tasks=data.tasks)
    assert np.array_equal(best.coef_, direct.coef_)
    expected = direct.predict(frame[["a", "b", "c"]], tasks=frame["school"])
    assert np.array_equal(search.predict(frame), expected)
    assert direct.score(frame[["a", "b", "c"]], data.y, data.tasks) == search.score(frame, data.y)


def test_task_column_in_a_pipeline():
    data = data_for(CrossRidge)
    frame = pd.DataFrame(data.X, columns=["a", "b", "c"]).assign(school=data.tasks)
    pipeline = make_pipeline("passthrough", CrossRidge(0.3, task_column="school"))
    results = cross_validate(pipeline, frame, data.y, cv=KFold(3, shuffle=True, random_state=0))
    pooled = cross_validate(Ridge(), data.X, data.y, cv=KFold(3, shuffle=True, random_state=0))
    assert results["test_score"].mean() > pooled["test_score"].mean()


@estimators
def test_parameters(estimator):
    settings = {"epsilon": BLOCKS, "alpha": 0.2, "task_column": "school", "tol": 1e-6}
    model = estimator(**settings)
    assert settings.items() <= model.get_params().items()
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.set_params(epsilon=0.5).epsilon == 0.5
    assert model.epsilon == BLOCKS


@estimators
def test_fit_leaves_its_arguments_alone(estimator):
    data = data_for(estimator)
    before = [data.X.copy(), data.y.copy(), data.tasks.copy()]
    model = estimator(dict(BLOCKS))
    parameters = model.get_params()
    data.fitted(model)
    assert model.get_params() == parameters
    for old, new in zip(before, [data.X, data.y, data.tasks], strict=True):
        assert np.array_equal(old, new)


@estimators
def test_pickle(estimator):
    data = data_for(estimator)
    model = data.fitted(estimator(0.3))
    again = pickle.loads(pickle.dumps(model))
    expected = model.predict(data.X, data.tasks)
    assert np.array_equal(again.predict(data.X, data.tasks), expected)
    assert again.tasks_.tolist() == model.tasks_.tolist()


@estimators
def test_pickling_solves_nothing(estimator, monkeypatch):
    data = data_for(estimator)
    model = data.fitted(estimator(0.3))
    monkeypatch.setattr(ConvexProblem, "fit", None)
    copy = pickle.loads(pickle.dumps(model))
    assert not hasattr(copy, "epsilon_max_")
    with pytest.raises(AttributeError, match="Access it before copying or saving the model"):
        _ = copy.epsilon_max_
    assert len(pickle.dumps(model)) < 5000  # no data are kept


@estimators
@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_is_refused(estimator, kind):
    data = data_for(estimator)
    assert not estimator().__sklearn_tags__().input_tags.sparse
    with pytest.raises(TypeError, match="Sparse data was passed for X, but dense data is required"):
        estimator(0.3).fit(kind(data.X), data.y, tasks=data.tasks)
    model = data.fitted(estimator(0.3))
    with pytest.raises(TypeError, match="Sparse data was passed for X, but dense data is required"):
        model.predict(kind(data.X), data.tasks)


@estimators
def test_right_end_is_worked_out_when_asked_for(estimator):
    data = data_for(estimator)
    assert not hasattr(estimator(), "epsilon_max_")
    model = data.fitted(estimator({"coef": 0.3, "intercept": 1.0}))
    new = data.fitted(clone(model)).fit_task(data.X[:9], data.y[:9])
    one = model.epsilon_max_
    copy = pickle.loads(pickle.dumps(model))
    assert copy.epsilon_max_ == new.epsilon_max_ == one
    assert "_ends" in vars(data.fitted(clone(model)))
    assert "_ends" not in vars(copy) | vars(new) | vars(model)  # no data are kept
    assert data.fitted(model.set_params(epsilon=0.3)).epsilon_max_ != one


@estimators
def test_not_fitted(estimator):
    with pytest.raises(NotFittedError):
        estimator().predict([[1.0]])
    with pytest.raises(NotFittedError):
        estimator().fit_task([[1.0], [2.0]], [0, 1])


@estimators
@pytest.mark.parametrize("settings", [{"epsilon": 0.2}, {"epsilon": 0.4, "tension": 0.3}])
def test_stopping_early_warns_and_is_feasible(estimator, settings):
    data = data_for(estimator)
    model = estimator(**settings, max_iter=1)
    with pytest.warns(ConvergenceWarning, match="relative KKT residual"):
        data.fitted(model)
    assert model.kkt_residual_ > model.tol
    thetas, center = Definition(model, data).parameters()
    assert np.linalg.norm(thetas - center, axis=1).max() <= settings["epsilon"] * (1 + 1e-9)
    assert model.distances_.max() <= settings["epsilon"] * (1 + 1e-15)
    value = Definition(model, data).objective(thetas, center)
    assert model.objective_ == pytest.approx(value)
    assert value >= data.fitted(estimator(**settings)).objective_


@estimators
def test_score_weighs_rows(estimator):
    data = data_for(estimator)
    model = data.fitted(estimator(0.3))
    weight = np.arange(len(data.y)) % 3
    repeated = Data(data.X, data.y, data.tasks).take(np.repeat(np.arange(len(weight)), weight))
    expected = model.score(repeated.X, repeated.y, repeated.tasks)
    assert model.score(data.X, data.y, data.tasks, weight) == pytest.approx(expected)
