"""Scores, probabilities and classes of logistic regressions belong together."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from crosslearning.linear import CrossLogisticRegression
from tests.support.linear_laws import Data, random_data

LABELS = {
    "integers": np.array([3, 5, 11]),
    "strings": np.array(["high", "low", "middle"]),
    "floats": np.array([-1.0, 0.0, 2.0]),
    "objects": np.array(["a", "b", "c"], dtype=object),
}


@pytest.mark.parametrize("epsilon", [0.0, 0.3, {"coef": 0.1}, np.inf])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_scores_probabilities_and_classes(n_classes, epsilon):
    data = random_data(0, (30, 20, 25), 2, n_classes)
    model = data.fitted(CrossLogisticRegression(epsilon))
    unseen = np.where(np.arange(len(data.y)) % 3, data.tasks, 17)
    for tasks in (data.tasks, unseen, "center"):
        scores = model.decision_function(data.X, tasks)
        likely = model.predict_proba(data.X, tasks)
        assert likely.shape == (len(data.y), n_classes)
        np.testing.assert_allclose(likely.sum(axis=1), 1.0, rtol=1e-12)
        assert np.array_equal(model.predict(data.X, tasks), likely.argmax(axis=1))
        if n_classes == 2:
            assert scores.shape == (len(data.y),)
            np.testing.assert_allclose(likely[:, 1], expit(scores), rtol=1e-12)
        else:
            np.testing.assert_allclose(likely, softmax(scores, axis=1), rtol=1e-12)
            np.testing.assert_allclose(scores.sum(axis=1), 0.0, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_shapes(n_classes):
    data = random_data(0, (30, 20), 4, n_classes)
    model = data.fitted(CrossLogisticRegression())
    n_scores = 1 if n_classes == 2 else n_classes
    assert model.coef_.shape == (2, n_scores, 4)
    assert model.intercept_.shape == (2, n_scores)
    assert model.center_coef_.shape == (n_scores, 4)
    assert model.center_intercept_.shape == (n_scores,)
    assert model.distances_.shape == model.forces_.shape == (2,)


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_of_classes(labels, n_classes):
    data = random_data(1, (30, 20), 2, n_classes)
    model = data.fitted(CrossLogisticRegression(0.3))
    named = Data(data.X, labels[data.y], data.tasks)
    other = named.fitted(CrossLogisticRegression(0.3))
    assert np.array_equal(other.classes_, labels[:n_classes])
    assert np.array_equal(other.coef_, model.coef_)
    expected = labels[model.predict(data.X, data.tasks)]
    assert np.array_equal(other.predict(data.X, data.tasks), expected)
    assert other.score(data.X, named.y, data.tasks) == model.score(data.X, data.y, data.tasks)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, {"coef": 0.1, "intercept": 1.0}])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_names_of_classes_do_not_matter(n_classes, epsilon):
    data = random_data(2, (30, 20, 12), 2, n_classes)
    order = np.arange(n_classes)[::-1]
    model = data.fitted(CrossLogisticRegression(epsilon))
    reversed_ = Data(data.X, order[data.y], data.tasks).fitted(CrossLogisticRegression(epsilon))
    likely = reversed_.predict_proba(data.X, data.tasks)[:, order]
    np.testing.assert_allclose(likely, model.predict_proba(data.X, data.tasks), atol=1e-7)


def test_task_with_one_class_leans_on_the_others():
    """It knows the other class through the centre only."""
    data = random_data(3, (40, 30, 10), 2, 2)
    y = np.where(data.tasks == 2, 1, data.y)
    own = data.tasks == 2
    likely = [
        CrossLogisticRegression(epsilon)
        .fit(data.X, y, tasks=data.tasks)
        .predict_proba(data.X[own], data.tasks[own])[:, 1]
        .mean()
        for epsilon in (0.0, 0.2, 1.0, 4.0)
    ]
    assert np.all(np.diff(likely) > 0)
    assert likely[0] < 0.9 < likely[-1]
