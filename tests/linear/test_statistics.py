"""Ridge regressions from sums over rows: the same models, choices and scores as from the rows."""

import numpy as np
import pytest
from sklearn.model_selection import PredefinedSplit

from crosslearning import Statistics
from crosslearning.datasets import load_hsb82
from crosslearning.linear import CrossRidge, CrossRidgeCV
from tests.support.linear_laws import Data, random_data

SAME = 1e-8
FITTED = (
    "coef_", "intercept_", "center_coef_", "center_intercept_", "feature_mean_", "feature_scale_",
    "target_mean_", "total_weight_", "n_tasks_fitted_", "n_features_in_", "objective_",
)  # fmt: skip
CHOSEN = ("alpha_", "epsilon_", "stiffness_", "tension_", "best_score_", "epsilons_", "score_path_")


def weighted(seed=0):
    data = random_data(seed, (20, 15, 3, 13, 1), 3)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, len(data.y))
    weights[::7] = 0.0
    return Data(data.X, data.y + 30.0, data.tasks, weights)


def pupils():
    table = load_hsb82()
    return Data(np.asarray(table.X), np.asarray(table.y), np.asarray(table.tasks))


def folds_of(data):
    return np.random.default_rng(1).permutation(len(data.y)) % 3


def summed(data, folds=None, n_chunks=4):
    """Sums of chunks of the rows, in any order."""
    chunk = np.random.default_rng(2).integers(n_chunks, size=len(data.y))
    n_folds = 1 if folds is None else 3
    parts = []
    for k in (2, 0, 3, 1):
        own, at = data.take(chunk == k), None if folds is None else folds[chunk == k]
        parts.append(
            Statistics.of(
                own.X, own.y, own.tasks, sample_weight=own.sample_weight, folds=at, n_folds=n_folds
            )
        )
    return sum(parts)


def assert_same(model, other, names, tol=SAME):
    assert model.tasks_.tolist() == other.tasks_.tolist()
    for name in names:
        actual, expected = np.asarray(getattr(model, name)), np.asarray(getattr(other, name))
        np.testing.assert_allclose(actual, expected, rtol=tol, atol=tol, err_msg=name)


@pytest.mark.parametrize("data", [weighted(), pupils()], ids=["weighted", "hsb82"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"fit_intercept": False},
        {"standardize": False, "task_weights": "equal"},
        {"metric": "learned", "epsilon": 2.0},
        {"metric": "learned", "epsilon": 2.0, "fit_intercept": False},
        {"metric": [1.0, 2.0, 0.5, 3.0], "stiffness": 3.0},
        {"epsilon": {"coef": 0.4, "intercept": np.inf}, "tension": {"coef": 1.0, "intercept": 0.5}},
        {"epsilon": np.inf, "alpha": 0.0},
        {"epsilon": 0.0},
    ],
)
def test_a_given_tether(data, settings):
    model = CrossRidge(**settings).fit_statistics(summed(data))
    rows = data.fitted(CrossRidge(**settings))
    assert_same(model, rows, FITTED)
    assert model.epsilon_ == rows.epsilon_
    np.testing.assert_allclose(
        model.predict(data.X, data.tasks), rows.predict(data.X, data.tasks), rtol=SAME
    )
    new = data.take(np.arange(10))
    fitted = [m.fit_task(new.X, new.y, "new").coef_ for m in (model, rows)]
    np.testing.assert_allclose(*fitted, rtol=SAME, atol=SAME)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"fit_intercept": False, "metric": "standard"},
        {"standardize": False, "average": "rows", "tether": "spring"},
        {"metric": "standard", "tether": "auto", "task_weights": "equal", "alphas": [1.0]},
        {"alphas": [0.1, 1.0], "epsilons": [0.0, 0.5, 2.0, np.inf]},
        {"scoring": "neg_mean_squared_error", "tether": "tension"},
    ],
)
def test_a_choice_by_the_folds_of_the_sums(settings):
    data = weighted(3)
    folds = folds_of(data)
    settings = {"n_epsilons": 2} | settings
    model = CrossRidgeCV(**settings).fit_statistics(summed(data, folds))
    rows = data.fitted(CrossRidgeCV(cv=PredefinedSplit(folds), **settings))
    assert model.tether_ == rows.tether_
    assert_same(model, rows, FITTED + CHOSEN)


def test_a_choice_for_schools():
    data = pupils()
    data = data.take(data.tasks <= np.unique(data.tasks)[40])
    folds = folds_of(data)
    model = CrossRidgeCV(n_epsilons=2).fit_statistics(summed(data, folds))
    rows = data.fitted(CrossRidgeCV(n_epsilons=2, cv=PredefinedSplit(folds)))
    assert_same(model, rows, FITTED + CHOSEN)
    actual, expected = (m.comparison_.summary.to_numpy(float) for m in (model, rows))
    np.testing.assert_allclose(actual, expected, rtol=SAME, atol=SAME)


def test_units_far_apart_cost_no_digits():
    data = weighted(4)
    data = Data(data.X * [1e6, 1.0, 1e-6] + [1e8, 0.0, 0.0], data.y, data.tasks)
    folds = folds_of(data)
    model = CrossRidgeCV(n_epsilons=2).fit_statistics(summed(data, folds))
    rows = data.fitted(CrossRidgeCV(n_epsilons=2, cv=PredefinedSplit(folds)))
    assert_same(model, rows, ("best_score_", "epsilon_", "score_path_"), 1e-7)


def test_what_sums_cannot_tell_is_refused():
    data = weighted()
    with pytest.raises(ValueError, match="at least 2 folds; got 1"):
        CrossRidgeCV().fit_statistics(summed(data))
    with pytest.raises(ValueError, match=r"only squared errors.*got 'r2'"):
        CrossRidgeCV(scoring="r2").fit_statistics(summed(data, folds_of(data)))
    with pytest.raises(ValueError, match="A fit needs a row of positive weight"):
        CrossRidge().fit_statistics(Statistics())


def test_an_earlier_fit_leaves_no_names_of_features():
    table = load_hsb82()
    model = CrossRidge().fit(table.X, table.y, tasks=table.tasks)
    assert hasattr(model, "feature_names_in_")
    model.fit_statistics(summed(pupils()))
    assert not hasattr(model, "feature_names_in_")
