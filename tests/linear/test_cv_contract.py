"""What a cross-validated model searches and promises: settings, seeds, scikit-learn's contract."""

import pickle
import re

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.utils.estimator_checks import parametrize_with_checks

from crosslearning.exceptions import ConvergenceWarning
from crosslearning.linear import CrossLogisticRegressionCV, CrossRidge, CrossRidgeCV
from tests.support.linear_laws import Data, random_data

INF = np.inf
CLOSE = 1e-5  # scores come from rough fits
SIZES = (20, 15, 12)
FAST = {"n_epsilons": 3, "cv": 3, "alphas": [1.0]}
FASTEST = {"epsilons": [0.0, 1.0], "cv": 2, "alphas": [1.0], "metric": "standard"}
estimators = pytest.mark.parametrize("estimator", [CrossRidgeCV, CrossLogisticRegressionCV])


def data_for(estimator, seed=0, sizes=SIZES):
    return random_data(seed, sizes, 2, 0 if estimator is CrossRidgeCV else 2)


def assert_same(left, right):
    """Two fits made the same choice for the same reasons."""
    assert left.epsilon_ == right.epsilon_
    for name in ("epsilons_", "score_path_", "coef_", "center_coef_"):
        assert np.array_equal(getattr(left, name), getattr(right, name)), name
    pd.testing.assert_frame_equal(left.comparison_.tasks, right.comparison_.tasks)
    pd.testing.assert_frame_equal(left.comparison_.summary, right.comparison_.summary)


@pytest.mark.filterwarnings("ignore:`fit` got no `tasks`")  # the checks have none
@pytest.mark.slow
@parametrize_with_checks(
    [
        CrossRidgeCV(n_epsilons=2, cv=2, alphas=[1.0]),
        CrossLogisticRegressionCV([0.0, 1.0], cv=2, alphas=[1.0], metric="standard"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@estimators
@pytest.mark.parametrize("alphas", [None, [0.5, 5.0]])
def test_default_radii_go_from_pooled_to_separate(estimator, alphas):
    data = data_for(estimator)
    model = data.fitted(estimator(n_epsilons=3, cv=3, alphas=alphas, smallest=0.1))
    assert model.epsilons_[0] == 0
    assert model.epsilons_[-1] == INF
    end = model.epsilon_max_
    for radius in (*end * np.geomspace(0.1, 1, 3), model.epsilon_):
        assert np.isclose(model.epsilons_, radius, rtol=1e-6).any()
    assert len(model.epsilons_) <= 6  # the choice may lie between the others
    assert model.score_path_.shape == (len(model.epsilons_), 3)
    assert len(model.alphas_) == (4 if alphas is None else 2)
    assert model.alpha_ in model.alphas_
    assert (model.stiffness_, model.tension_, model.tether_) == (0.0, 0.0, "ball")


@estimators
def test_given_radii_and_ridge_strengths(estimator):
    data = data_for(estimator)
    for epsilons in ([1.0, 0.2], (0.2, 1.0), np.array([0.2, 1.0])):
        model = data.fitted(estimator(epsilons, cv=2, alphas=(2.0, 0.5), metric="standard"))
        assert model.epsilons_.tolist() == [0.2, 1.0]
        assert model.epsilon_ in (0.2, 1.0)
        assert sorted(model.alphas_) == [0.5, 2.0]
        assert model.alpha_ in (0.5, 2.0)


def tasks_that_differ_by_intercept():
    """Slopes are shared, levels are anything: no single ball suits both."""
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(8), 6)
    X = rng.normal(size=(48, 4))
    y = X @ [2.0, -1.0, 1.0, 0.5] + 20 * rng.normal(size=8)[tasks] + 2 * rng.normal(size=48)
    return Data(X, y, tasks)


def test_a_learned_metric_lets_levels_differ_and_slopes_agree():
    data = tasks_that_differ_by_intercept()
    one, two = (
        data.fitted(CrossRidgeCV(n_epsilons=6, cv=3, alphas=[1.0], metric=metric))
        for metric in ("standard", "learned")
    )
    assert two.best_score_ > one.best_score_
    by_block = data.fitted(CrossRidge({"coef": 0.0}, alpha=1.0))  # what suits these tasks
    own, common = (np.abs(model.coef_ - by_block.coef_).max() for model in (one, two))
    assert common < 0.4 * own
    assert np.ptp(two.coef_, axis=0).max() < 0.1 * np.ptp(two.intercept_)


@estimators
def test_auto_is_the_best_family(estimator):
    data = data_for(estimator, seed=1)
    settings = {"n_epsilons": 2, "cv": 2, "alphas": [1.0], "metric": "standard"}
    auto = data.fitted(estimator(**settings, tether="auto"))
    for tether in ("ball", "spring", "tension"):
        model = data.fitted(estimator(**settings, tether=tether))
        assert model.tether_ == tether
        assert auto.best_score_ >= model.best_score_ - CLOSE * abs(model.best_score_)
    assert auto.tether_ in ("ball", "spring", "tension", "bounded spring")


@estimators
def test_fits_that_do_not_converge_are_counted(estimator):
    data = data_for(estimator)
    with pytest.warns(ConvergenceWarning) as caught:
        data.fitted(estimator(**FAST, max_iter=1))
    messages = [str(warning.message) for warning in caught]
    (counted,) = [m for m in messages if "cross-validation fits" in m]
    n_rough, n_fits = map(int, re.findall(r"(\d+) of (\d+) cross-validation fits", counted)[0])
    assert 0 < n_rough <= n_fits


@pytest.mark.parametrize(
    "backend",
    ["threading", pytest.param("loky", marks=pytest.mark.slow)],  # starts processes
)
def test_jobs_change_nothing(backend):
    data = data_for(CrossRidgeCV)
    with joblib.parallel_config(backend):
        models = [data.fitted(CrossRidgeCV(**FAST, n_jobs=n_jobs)) for n_jobs in (None, 2)]
    assert_same(*models)


@estimators
def test_seeds(estimator):
    data = data_for(estimator)
    first, again, other = (data.fitted(estimator(**FASTEST, random_state=s)) for s in (3, 3, 4))
    assert_same(first, again)
    assert not np.array_equal(first.score_path_, other.score_path_)


@estimators
@pytest.mark.parametrize("average", ["tasks", "rows"])
def test_weights_are_repeated_rows(estimator, average):
    data = data_for(estimator)
    times = np.random.default_rng(0).integers(1, 4, len(data.y))
    repeats = np.repeat(np.arange(len(times)), times)
    splits = list(KFold(3, shuffle=True, random_state=0).split(data.X))
    repeated = [tuple(np.flatnonzero(np.isin(repeats, part)) for part in s) for s in splits]
    # The metric by evidence takes weights as precisions.
    settings = {"epsilons": [0.0, 0.3, INF], "alphas": [1.0], "average": average}
    settings["metric"] = "standard"
    weighted = estimator(**settings, cv=splits)
    weighted.fit(data.X, data.y, tasks=data.tasks, sample_weight=times)
    expected = data.take(repeats).fitted(estimator(**settings, cv=repeated))
    np.testing.assert_allclose(weighted.score_path_, expected.score_path_, rtol=CLOSE)
    np.testing.assert_allclose(weighted.coef_, expected.coef_, atol=1e-6)
    ours, theirs = weighted.comparison_, expected.comparison_
    np.testing.assert_allclose(ours.tasks["cross"], theirs.tasks["cross"], rtol=CLOSE)
    np.testing.assert_allclose(ours.summary["score"], theirs.summary["score"], rtol=CLOSE)


@estimators
def test_task_column_and_one_task(estimator):
    data = data_for(estimator)
    frame = pd.DataFrame(data.X, columns=["a", "b"]).assign(school=data.tasks)
    model = estimator(**FASTEST, task_column="school").fit(frame, data.y)
    assert_same(model, estimator(**FASTEST).fit(frame[["a", "b"]], data.y, tasks=data.tasks))
    assert model.feature_names_in_.tolist() == ["a", "b"]
    results = cross_validate(model, frame, data.y, cv=2, error_score="raise")
    assert np.isfinite(results["test_score"]).all()
    alone = estimator(**FAST).fit(data.X, data.y, tasks=[0] * len(data.y))
    assert alone.epsilons_.tolist() == [0.0, INF]
    assert alone.comparison_.summary["gain"].abs().max() <= CLOSE


@estimators
def test_routing(estimator):
    data = data_for(estimator)
    with sklearn.config_context(enable_metadata_routing=True):
        model = estimator(**FASTEST).set_fit_request(tasks=True).set_score_request(tasks=True)
        folds = KFold(2, shuffle=True, random_state=0)
        params = {"tasks": data.tasks}
        results = cross_validate(model, data.X, data.y, cv=folds, params=params)
        search = GridSearchCV(model, {"standardize": [True, False]}, cv=folds)
        search.fit(data.X, data.y, tasks=data.tasks)
    assert search.best_estimator_.tasks_.tolist() == [0, 1, 2]
    for k, (train, test) in enumerate(folds.split(data.X)):
        own, held_out = data.take(train), data.take(test)
        score = own.fitted(estimator(**FASTEST)).score(held_out.X, held_out.y, held_out.tasks)
        assert results["test_score"][k] == pytest.approx(score)
        assert search.cv_results_[f"split{k}_test_score"][0] == pytest.approx(score)


@estimators
@pytest.mark.parametrize("metric", ["standard", "learned"])
def test_copies_and_new_tasks(estimator, metric):
    data = data_for(estimator)
    model = data.fitted(estimator(**FAST, metric=metric, tether="spring"))
    assert clone(model).get_params() == model.get_params()
    again = pickle.loads(pickle.dumps(model))
    expected = model.predict(data.X, data.tasks)
    assert np.array_equal(again.predict(data.X, data.tasks), expected)
    assert str(again.comparison_) == str(model.comparison_)
    own = data.take(data.tasks == 1)
    new = model.fit_task(own.X, own.y, task="late")
    assert new.tasks_.tolist() == ["late"]
    np.testing.assert_allclose(new.coef_[0], model.coef_[1], atol=1e-5)
    assert (new.epsilon_, new.alpha_) == (model.epsilon_, model.alpha_)


BAD = {
    "one radius": ({"n_epsilons": 1}, "'n_epsilons' parameter"),
    "folds": ({"cv": 100}, "cv.*47"),
    "no folds": ({"cv": []}, "cv"),
    "tether": ({"tether": "rope"}, "'tether' parameter"),
    "radius": ({"epsilons": [0.1, -1.0]}, "must be at least 0; got -1.0"),
    "radii": ({"epsilons": []}, "epsilons"),
    "by block": ({"epsilons": [{"coef": 1.0}]}, "epsilons"),
    "alpha": ({"alphas": [-1.0]}, "alpha.* at least 0.*-1.0"),
    "alphas": ({"alphas": []}, "alphas"),
    "infinite": ({"alphas": [INF]}, "alpha"),
    "average": ({"average": "all"}, "'average' parameter"),
    "scorer": ({"scoring": "none of them"}, "scoring"),
    "seed": ({"random_state": -1}, "'random_state' parameter"),
}


@pytest.mark.parametrize(("settings", "message"), BAD.values(), ids=BAD.keys())
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        data_for(CrossRidgeCV).fitted(CrossRidgeCV(**FAST | settings))
