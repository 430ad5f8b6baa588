"""Ridge regressions from sums over rows: the same models as from the rows."""

import numpy as np
import pytest

from crosslearning import Statistics
from crosslearning.datasets import load_hsb82
from crosslearning.linear import CrossRidge
from tests.support.linear_laws import Data, random_data

SAME = 1e-8
FITTED = (
    "coef_", "intercept_", "center_coef_", "center_intercept_", "feature_mean_", "feature_scale_",
    "target_mean_", "total_weight_", "n_tasks_fitted_", "n_features_in_", "objective_",
)  # fmt: skip


def weighted(seed=0):
    data = random_data(seed, (20, 15, 3, 13, 1), 3)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, len(data.y))
    weights[::7] = 0.0
    return Data(data.X, data.y + 30.0, data.tasks, weights)


def pupils():
    table = load_hsb82()
    return Data(np.asarray(table.X), np.asarray(table.y), np.asarray(table.tasks))


def summed(data):
    """Sums of chunks of the rows, in any order."""
    chunk = np.random.default_rng(2).integers(4, size=len(data.y))
    parts = [data.take(chunk == k) for k in (2, 0, 3, 1)]
    return sum(Statistics.of(p.X, p.y, p.tasks, sample_weight=p.sample_weight) for p in parts)


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


def test_sums_without_rows_are_refused():
    with pytest.raises(ValueError, match="A fit needs a row of positive weight"):
        CrossRidge().fit_statistics(Statistics())


def test_an_earlier_fit_leaves_no_names_of_features():
    table = load_hsb82()
    model = CrossRidge().fit(table.X, table.y, tasks=table.tasks)
    assert hasattr(model, "feature_names_in_")
    model.fit_statistics(summed(pupils()))
    assert not hasattr(model, "feature_names_in_")
