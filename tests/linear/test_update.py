"""Rows that are added to a fitted model."""

import numpy as np
import pytest

from crosslearning import CrossBayesianGLM, CrossBayesianRidge, Statistics
from tests.support.hierarchical import simulated

FITTED = (
    "coef_", "intercept_", "center_coef_", "center_intercept_", "covariance_", "noise_sd_",
    "log_evidence_", "task_covariances_", "center_covariance_", "task_sd_", "total_weight_",
    "distances_", "n_rows_fitted_", "n_tasks_fitted_", "feature_scale_",
)  # fmt: skip


def assert_same(model, other):
    assert model.tasks_.tolist() == other.tasks_.tolist()
    for name in FITTED:
        np.testing.assert_allclose(getattr(model, name), getattr(other, name), rtol=1e-8, atol=1e-8)


@pytest.fixture
def rows():
    X, _, y, tasks = simulated(n_tasks=15)
    labels = np.array(list("qwertyuiopasdfg"))[tasks]
    early = (np.arange(len(y)) % 3 > 0) & ~np.isin(labels, ["e", "p"])
    return X, y, labels, early


@pytest.mark.parametrize("epsilon", [np.inf, 0.7])
def test_an_update_is_a_fit_to_all_rows(rows, epsilon):
    X, y, tasks, early = rows
    weights, offset = np.linspace(0.5, 2.0, len(y)), 0.1 * np.arange(len(y))

    def given(part):
        return X[part], y[part], tasks[part], weights[part], offset[part]

    model = CrossBayesianRidge(epsilon=epsilon).fit(*given(early)).update(*given(~early))
    assert_same(model, CrossBayesianRidge(epsilon=epsilon).fit(X, y, tasks, weights, offset))


def test_a_model_from_a_file_can_be_updated(rows, tmp_path):
    X, y, tasks, early = rows
    CrossBayesianRidge().fit(X[early], y[early], tasks[early]).save(tmp_path / "model")
    model = CrossBayesianRidge.load(tmp_path / "model")
    model.update(X[~early], y[~early], tasks[~early])
    assert_same(model, CrossBayesianRidge().fit(X, y, tasks))


def test_statistics_can_be_updated(rows):
    X, y, tasks, early = rows
    statistics = Statistics.of(X[early], y[early], tasks[early], n_folds=3)
    model = CrossBayesianRidge().fit_statistics(statistics)
    model.update(X[~early], y[~early], tasks[~early])
    assert_same(model, CrossBayesianRidge().fit(X, y, tasks))


def test_statistics_that_changed_are_refused(rows):
    X, y, tasks, _ = rows
    statistics = Statistics.of(X, y, tasks)
    model = CrossBayesianRidge().fit_statistics(statistics)
    statistics.partial_fit(X[:9], y[:9], tasks[:9])
    with pytest.raises(ValueError, match="had 180 rows and now have 189"):
        model.update(X[:9], y[:9], tasks[:9])


def test_a_failed_update_leaves_the_model_as_it_was(rows, monkeypatch):
    X, y, tasks, early = rows
    model = CrossBayesianRidge().fit(X[early], y[early], tasks[early])
    before = dict(vars(model))

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CrossBayesianRidge, "_store", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.update(X[~early], y[~early], tasks[~early])
    assert vars(model) == before
    with pytest.raises(ValueError, match="covariance"):
        model.set_params(covariance="round").update(X, y, tasks)


def test_labels_of_an_update_are_those_of_the_fit(rows):
    X, y, _, _ = rows
    tasks = np.arange(len(y)) % 5
    model = CrossBayesianRidge().fit(X, y, tasks)
    with pytest.raises(ValueError, match=r"such as 0 \(int\); got '0' \(str\)"):
        model.update(X, y, tasks.astype(str))
    with pytest.raises(ValueError, match="got no `tasks`"):
        model.update(X, y)
    with pytest.raises(ValueError, match="one column, as in the fit"):
        model.update(X, y, np.column_stack([tasks, tasks]))
    with pytest.raises(ValueError, match="models of `fit_task` do not"):
        model.fit_task(X, y, "new").update(X, y, tasks)
    alone = CrossBayesianRidge().fit(X, y, [7] * len(y))
    assert alone.update(X, y).tasks_.tolist() == [7]


def test_other_families_keep_no_sums(rows):
    X, y, tasks, _ = rows
    model = CrossBayesianGLM("student").fit(X, y, tasks)
    with pytest.raises(ValueError, match="Gaussian"):
        model.update(X, y, tasks)
