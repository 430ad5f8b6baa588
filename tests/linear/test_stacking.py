"""Stacks of base models and a final estimator with tasks: contract, no leakage, bounds."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import mean_poisson_deviance
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import crosslearning
from crosslearning.linear import (
    CrossBayesianGLM,
    CrossBayesianLogisticRegression,
    CrossBayesianRidge,
    CrossLogisticRegression,
    CrossRidge,
    CrossStackingClassifier,
    CrossStackingRegressor,
    SplineFeatures,
)
from tests.support.linear_laws import random_data

WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
LINE, SIMPLE = ("line", LinearRegression()), CrossLogisticRegression()
TREE = ("tree", DecisionTreeRegressor(max_depth=3, random_state=0))
FEW = {"max_iter": 5, "min_samples_leaf": 5}
STACKS = {
    "regressor": (CrossStackingRegressor([TREE], splines=True), 0),
    "boosting": (
        CrossStackingRegressor([("b", HistGradientBoostingRegressor(**FEW))], cv=3),
        0,
    ),
    "ridge": (CrossStackingRegressor([LINE], final_estimator=CrossRidge()), 0),
    "binary": (
        CrossStackingClassifier([("b", HistGradientBoostingClassifier(**FEW))], cv=3),
        2,
    ),
    "multinomial": (
        CrossStackingClassifier([("k", KNeighborsClassifier())], cv=3),
        3,
    ),
}
stacks = pytest.mark.parametrize(("stack", "classes"), STACKS.values(), ids=STACKS.keys())


@pytest.mark.filterwarnings("ignore:`fit` got no `tasks`")  # the checks have none
@pytest.mark.slow
@parametrize_with_checks(
    [
        CrossStackingRegressor([TREE], splines=True, final_estimator=CrossRidge(), cv=2),
        CrossStackingClassifier([("b", LogisticRegression())], final_estimator=SIMPLE, cv=2),
        SplineFeatures(min_distinct=5),
    ],
    expected_failed_checks=lambda estimator: (
        {} if isinstance(estimator, SplineFeatures) else {WEIGHTS: "folds are of rows"}
    ),
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def data_for(classes, seed=0, sizes=(20, 15, 12, 14)):
    return random_data(seed, sizes, 3, classes)


def predictions(model, classes, X, tasks):
    return getattr(model, "predict_proba" if classes else "predict")(X, tasks=tasks)


@stacks
def test_tasks_beside_the_features_or_among_them(stack, classes):
    data = data_for(classes)
    frame = pd.DataFrame(data.X, columns=["a", "b", "c"])
    beside = clone(stack).fit(frame, data.y, tasks=data.tasks)
    search = GridSearchCV(clone(stack), {"task_column": ["school"]}, cv=2, error_score="raise")
    within = search.fit(frame.assign(school=data.tasks), data.y).best_estimator_
    assert within.feature_names_in_.tolist() == ["a", "b", "c"]
    expected = predictions(beside, classes, frame, data.tasks)
    assert np.array_equal(
        predictions(within, classes, frame.assign(school=data.tasks), None), expected
    )
    again = clone(beside).fit(frame, data.y, tasks=data.tasks)
    assert np.array_equal(predictions(again, classes, frame, data.tasks), expected)
    assert beside.score(frame, data.y, tasks=data.tasks) > 0.3


@stacks
def test_tasks_never_seen_have_the_centre(stack, classes):
    data = data_for(classes)
    fitted = data.fitted(clone(stack))
    new = predictions(fitted, classes, data.X, np.full(len(data.y), 99))
    np.testing.assert_array_equal(new, predictions(fitted, classes, data.X, "center"))
    assert np.all(np.isfinite(new))
    with pytest.raises(ValueError, match="must know the task"):
        fitted.predict(data.X)


@stacks
def test_routing(stack, classes):
    data = data_for(classes)
    with sklearn.config_context(enable_metadata_routing=True):
        asking = clone(stack).set_fit_request(tasks=True, sample_weight=True)
        asking.set_score_request(tasks=True, sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), asking)
        results = cross_validate(
            pipeline,
            data.X,
            data.y,
            params={"tasks": data.tasks, "sample_weight": np.ones(len(data.y))},
            cv=KFold(2, shuffle=True, random_state=0),
            return_estimator=True,
            error_score="raise",
        )
    assert all(len(fitted[-1].tasks_) == 4 for fitted in results["estimator"])


def test_parameters_of_parts():
    stack = CrossStackingRegressor([TREE], final_estimator=CrossBayesianRidge())
    stack.set_params(tree__max_depth=1, final_estimator__epsilon=0.5)
    copy = clone(stack)
    assert copy.estimators[0][1].max_depth == 1
    assert copy.final_estimator.epsilon == 0.5
    data = data_for(0)
    assert data.fitted(copy).final_estimator_.distances_.max() <= 0.5 + 1e-9


def test_names_are_at_the_top():
    for name in ("CrossStackingRegressor", "CrossStackingClassifier", "SplineFeatures"):
        assert getattr(crosslearning, name) is getattr(crosslearning.linear, name)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_constant_base_changes_nothing(weighted):
    data = data_for(0)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=len(data.y)) if weighted else None
    given = {"tasks": data.tasks, "sample_weight": weights}
    base = [("mean", DummyRegressor(strategy="constant", constant=1.0))]
    final = CrossBayesianRidge(covariance="block", tol=1e-10)
    stack = CrossStackingRegressor(base, final_estimator=final).fit(data.X, data.y, **given)
    alone = clone(final).fit(data.X, data.y, **given)
    for method, options in (("predict", {"return_std": True}), ("predict_interval", {})):
        np.testing.assert_allclose(
            getattr(stack, method)(data.X, tasks=data.tasks, **options),
            getattr(alone, method)(data.X, tasks=data.tasks, **options),
            rtol=1e-4,
            atol=1e-5,
        )


def test_a_constant_base_of_classes_changes_nothing():
    data = data_for(2)
    final = CrossBayesianLogisticRegression(covariance="block", tol=1e-10)
    base = [("share", DummyClassifier(strategy="uniform"))]
    stack = data.fitted(CrossStackingClassifier(base, final_estimator=final))
    np.testing.assert_allclose(
        stack.predict_proba(data.X, tasks=data.tasks),
        data.fitted(clone(final)).predict_proba(data.X, tasks=data.tasks),
        atol=1e-4,
    )


def noise_and_tasks(seed=0, n_tasks=10, n=300):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), rng.normal(size=n), np.arange(n) % n_tasks


@pytest.mark.parametrize("classes", [0, 2])
def test_a_base_that_memorises_is_not_trusted(classes):
    X, y, tasks = noise_and_tasks()
    if classes:
        base, stack = KNeighborsClassifier(1), CrossStackingClassifier
        y = (y > 0).astype(int)
    else:
        base, stack = KNeighborsRegressor(1), CrossStackingRegressor
    model = stack([("memory", base)]).fit(X, y, tasks=tasks)
    memory = model.estimators_[0]
    assert memory.score(pd.DataFrame(X, columns=["x0", "x1"]), y) == 1.0  # all of it is noise
    new, fresh, _ = noise_and_tasks(seed=1)
    if classes:
        shares = model.predict_proba(new, tasks=tasks)
        assert np.abs(shares - 0.5).max() < 0.2
    else:
        assert np.mean((model.predict(new, tasks=tasks) - fresh) ** 2) < 1.1 * fresh.var()


class Opposite(RegressorMixin, BaseEstimator):
    """Wrong in sign."""

    def fit(self, X, y):
        self.line_ = LinearRegression().fit(X, y)
        return self

    def predict(self, X):
        return -self.line_.predict(X)


def test_a_base_that_is_wrong_in_sign_is_left_out():
    data = data_for(0)
    bases, final = [("opposite", Opposite()), LINE], CrossBayesianRidge(tol=1e-12)
    stack = data.fitted(CrossStackingRegressor(bases, passthrough=False, final_estimator=final))
    alone = data.fitted(CrossStackingRegressor([LINE], passthrough=False, final_estimator=final))
    assert stack.trusted_.tolist() == [False, True]
    np.testing.assert_allclose(
        stack.predict(data.X, tasks=data.tasks), alone.predict(data.X, tasks=data.tasks), atol=1e-5
    )


def test_permuted_tasks_cost_little():
    rng = np.random.default_rng(0)
    X, tasks = rng.uniform(-2, 2, size=(1200, 2)), rng.integers(20, size=1200)
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=1200)
    train = np.arange(1200) < 600
    model = CrossStackingRegressor([TREE], splines=True).fit(X[train], y[train], tasks=tasks[train])
    own, center = (
        np.mean((model.predict(X[~train], tasks=how) - y[~train]) ** 2)
        for how in (tasks[~train], "center")
    )
    assert own < 1.03 * center
    assert own < 1.1 * 0.5**2


class Wild(RegressorMixin, BaseEstimator):
    """Right where it was fitted, absurd beyond."""

    def fit(self, X, y):
        self.bound_ = np.abs(np.asarray(X)).max()
        self.coef_ = LinearRegression().fit(X, y)
        return self

    def predict(self, X):
        X = np.asarray(X)
        far = np.abs(X).max(axis=1) > self.bound_
        return np.where(far, 1e12, self.coef_.predict(X))


class Certain(ClassifierMixin, BaseEstimator):
    """Right, and certain of it."""

    def fit(self, X, y):  # noqa: ARG002
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        second = (np.asarray(X)[:, 0] > 0).astype(float)
        return np.column_stack([1 - second, second])

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_wild_predictions_of_a_base_are_cut_off():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(200, 1)), np.arange(200) % 4
    y = X[:, 0] + 0.1 * rng.normal(size=200)
    stack = CrossStackingRegressor([("wild", Wild())], passthrough=False)
    stack.fit(X, y, tasks=tasks)
    low, high = stack.base_range_
    assert low == pytest.approx(y.min() - 0.1 * np.ptp(y))
    assert high == pytest.approx(y.max() + 0.1 * np.ptp(y))
    far = stack.predict([[50.0]], tasks=[0])
    assert abs(far[0]) < 2 * np.abs(y).max()


def test_certainty_of_a_base_is_bounded():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(100, 1)), np.arange(100) % 4
    y = np.where(rng.uniform(size=100) < 0.1, X[:, 0] < 0, X[:, 0] > 0)
    stack = CrossStackingClassifier([("certain", Certain())])
    probabilities = stack.fit(X, y, tasks=tasks).predict_proba(X, tasks=tasks)
    assert stack.least_probability_ == pytest.approx(1 / 102)
    assert 0.02 < probabilities.min() < 0.2


def test_a_class_in_one_row_only():
    data = data_for(2)
    y = np.array(["rare", *np.where(data.y[1:] > 0, "b", "a")])
    stack = CrossStackingClassifier([("b", HistGradientBoostingClassifier(**FEW))], cv=3)
    shares = stack.fit(data.X, y, tasks=data.tasks).predict_proba(data.X, tasks=data.tasks)
    assert shares.shape == (len(y), 3)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


def test_curves_and_a_good_base_are_found():
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(10), 60)
    X = rng.uniform(-2, 2, size=(600, 2))
    level = rng.normal(size=10)
    mean = X[:, 0] ** 2 + np.where(X[:, 1] > 0, 2.0, -2.0) + level[tasks]
    y = mean + 0.3 * rng.normal(size=600)
    train = rng.uniform(size=600) < 0.7
    errors = {}
    for name, settings in {
        "linear": {"estimators": []},
        "splines": {"estimators": [], "splines": True},
        "both": {"estimators": [TREE], "splines": True},
    }.items():
        model = CrossStackingRegressor(**settings).fit(X[train], y[train], tasks=tasks[train])
        predicted = model.predict(X[~train], tasks=tasks[~train])
        errors[name] = np.mean((predicted - mean[~train]) ** 2)
    assert errors["splines"] < 0.5 * errors["linear"]
    assert errors["both"] < 0.5 * errors["splines"]


def test_counts_stack_logarithms():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(600, 1)), np.arange(600) % 5
    mean = np.exp(np.abs(X[:, 0]))
    y = rng.poisson(mean)
    train = np.arange(600) < 400
    stack = CrossStackingRegressor(final_estimator=CrossBayesianGLM("poisson"), passthrough=False)
    stack.fit(X[train], y[train], tasks=tasks[train])
    assert stack.estimators_[0].loss == "poisson"
    assert stack.base_range_[0] > 0
    # A base on the scale of the link has a coefficient of 1 if it is right.
    slope = stack.final_estimator_.center_coef_[0] / stack.stacked_scale_[0]
    assert 0.5 < slope < 1.2
    predicted = stack.predict(X[~train], tasks=tasks[~train])
    best = mean_poisson_deviance(y[~train], mean[~train])
    assert mean_poisson_deviance(y[~train], predicted) < 1.25 * best


def test_every_family_with_a_logarithmic_link_stacks_logarithms():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(90, 1)), np.arange(90) % 3
    y = rng.poisson(np.exp(0.5 * X[:, 0]))
    final = CrossBayesianGLM("negative-binomial", covariance="pooled")
    base = [("tree", DecisionTreeRegressor(max_depth=2, random_state=0))]
    stack = CrossStackingRegressor(base, final_estimator=final, cv=2).fit(X, y, tasks=tasks)
    assert stack.base_range_[0] > 0
    assert stack.stacked_mean_[0] < np.log(y.mean())  # Jensen's inequality
    assert stack._default_base().loss == "poisson"


@pytest.mark.parametrize(
    ("stack", "match"),
    [
        (CrossStackingRegressor(final_estimator=LinearRegression(), estimators=[]), "`tasks`"),
        (CrossStackingRegressor([TREE, TREE]), "not unique"),
        (CrossStackingRegressor([LinearRegression()]), r"pairs.*got \[LinearRegression\(\)\]"),
        (CrossStackingClassifier([("a", SIMPLE, 1)]), "pairs of a name and an estimator"),
    ],
)
def test_errors(stack, match):
    data = data_for(2)
    with pytest.raises(ValueError, match=match):
        data.fitted(stack)
    with pytest.raises(NotFittedError):
        stack.predict(data.X)


def test_intervals_only_where_the_final_estimator_has_them():
    assert hasattr(CrossStackingRegressor(), "predict_interval")
    assert not hasattr(CrossStackingRegressor(final_estimator=CrossRidge()), "predict_interval")
