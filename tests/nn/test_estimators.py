import math
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.support.networks import torch

from crosslearning.nn import CrossNetClassifier, CrossNetRegressor  # isort: skip

QUICK = {"epochs": 30, "batch_size": None, "learning_rate": 0.05}


@pytest.mark.filterwarnings("ignore:`fit` got no `tasks`")  # the checks have none
@pytest.mark.slow
@parametrize_with_checks([CrossNetRegressor(**QUICK), CrossNetClassifier(**QUICK)])
def test_is_a_scikit_learn_estimator(estimator, check):
    if check.func.__name__ == "check_methods_subset_invariance":
        pytest.skip("it asks for more digits than float32 has in batches of other sizes")
    check(estimator)


@pytest.fixture
def shops():
    rng = np.random.default_rng(0)
    shop = np.repeat(["east", "north", "west"], [60, 40, 20])
    X = rng.normal(size=(120, 3))
    y = X @ [1.0, -1.0, 0.5] + np.repeat([0.0, 1.0, 2.0], [60, 40, 20])
    return X, y, shop


def make_linear(n_features, n_outputs):
    return torch.nn.Linear(n_features, n_outputs)


def test_learns_each_task_and_keeps_within_the_radius(shops):
    X, y, shop = shops
    free = CrossNetRegressor(make_linear, epsilon=math.inf, **QUICK, optimizer=torch.optim.SGD)
    free.fit(X, y, tasks=shop)
    assert free.score(X, y, tasks=shop) > 0.99
    tied = clone(free).set_params(epsilon=0.2).fit(X, y, tasks=shop)
    assert tied.distances_.max() <= 0.2 * (1 + 1e-5)
    assert tied.score(X, y, tasks=shop) < free.score(X, y, tasks=shop)


def test_the_centre_predicts_tasks_never_seen(shops):
    X, y, shop = shops
    model = CrossNetRegressor(make_linear, epsilon=0.2, epochs=3).fit(X, y, tasks=shop)
    unseen = model.predict(X, tasks=np.full(len(X), "south"))
    np.testing.assert_array_equal(unseen, model.predict(X, tasks="center"))
    with pytest.raises(ValueError, match="Pass the labels as `tasks`, or tasks='center'"):
        model.predict(X)
    with torch.no_grad():
        inputs = torch.as_tensor((X - X.mean(0)) / X.std(0), dtype=torch.float32)
        center = model.models_.center(inputs).numpy()[:, 0]
    np.testing.assert_allclose(unseen, center * y.std() + y.mean(), rtol=1e-5, atol=1e-5)


def test_a_column_of_the_frame_holds_the_labels(shops):
    X, y, shop = shops
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(shop=shop)
    by_column = CrossNetRegressor(make_linear, epochs=2, task_column="shop").fit(frame, y)
    beside = CrossNetRegressor(make_linear, epochs=2).fit(X, y, tasks=shop)
    np.testing.assert_array_equal(by_column.predict(frame), beside.predict(X, tasks=shop))
    assert list(by_column.feature_names_in_) == ["a", "b", "c"]


def test_is_tuned_like_any_estimator(shops):
    X, y, shop = shops
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(shop=shop)
    mixed = np.random.default_rng(0).permutation(len(X))
    model = CrossNetRegressor(make_linear, **QUICK, task_column="shop")
    search = GridSearchCV(model, {"epsilon": [0.0, 10.0]}, cv=2)
    search.fit(frame.iloc[mixed], y[mixed])
    assert search.best_params_ == {"epsilon": 10.0}


def test_classes_that_a_task_misses(shops):
    X, _, shop = shops
    y = np.where(X[:, 0] > 0, "yes", "no").astype(object)
    y[(shop == "east") & (X[:, 0] > 1)] = "very"
    model = CrossNetClassifier(epsilon=0.5, **QUICK).fit(X, y, tasks=shop)
    assert list(model.classes_) == ["no", "very", "yes"]
    probabilities = model.predict_proba(X, tasks=shop)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert model.score(X, y, tasks=shop) > 0.8


def test_the_same_seed_repeats_and_pickles(shops):
    X, y, shop = shops
    first = CrossNetRegressor(make_linear, epochs=2, random_state=3).fit(X, y, tasks=shop)
    second = clone(first).fit(X, y, tasks=shop)
    again = pickle.loads(pickle.dumps(first))
    for other in (second, again):
        np.testing.assert_array_equal(other.predict(X, tasks=shop), first.predict(X, tasks=shop))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (torch.nn.Linear(3, 1), "must be a function"),
        (lambda n, _: torch.nn.Linear(n, 5), r"got \(1, 5\)"),
    ],
)
def test_networks_that_do_not_fit_are_refused(shops, module, message):
    X, y, shop = shops
    with pytest.raises(ValueError, match=message):
        CrossNetRegressor(module).fit(X, y, tasks=shop)


def test_one_class_is_refused(shops):
    X, _, shop = shops
    with pytest.raises(ValueError, match="at least 2 classes"):
        CrossNetClassifier().fit(X, np.zeros(len(X), dtype=int), tasks=shop)
