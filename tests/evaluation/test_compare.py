"""Any estimator against its rivals: by hand, fold by fold."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import crosslearning
from crosslearning import (
    CrossBayesianRidge,
    CrossLogisticRegression,
    CrossRidge,
    CrossRidgeCV,
    compare,
)
from crosslearning.tasks import within_task_folds
from tests.support.linear_laws import random_data

SIZES = (9, 8, 6, 1)


def by_hand(model, data, metric, probabilities=False, cv=3):
    """Score of each task, over folds drawn within tasks."""
    folds = within_task_folds(data.tasks, cv, 0, data.y if probabilities else None)
    scores = np.zeros(data.tasks.max() + 1)
    for fold in range(cv):
        own, rest = data.take(folds == fold), data.take(folds != fold)
        model.fit(rest.X, rest.y, tasks=rest.tasks)
        for task in np.unique(own.tasks):
            rows = own.take(own.tasks == task)
            ask = model.predict_proba if probabilities else model.predict
            scores[task] += metric(rows.y, ask(rows.X, rows.tasks)) * len(rows.y)
    return scores / np.bincount(data.tasks)


@pytest.mark.parametrize("average", ["tasks", "rows"])
def test_the_ends_are_the_estimator_at_radius_0_and_without_a_bound(average):
    data = random_data(0, SIZES, 2)
    model = CrossRidge(0.5, stiffness=0.1)
    comparison = compare(model, data.X, data.y, data.tasks, cv=3, average=average)
    assert comparison.methods == ("pooled", "separate", "cross")
    for name, own in {
        "pooled": CrossRidge(0.0), "separate": CrossRidge(np.inf), "cross": model
    }.items():  # fmt: skip
        expected = -by_hand(own, data, mean_squared_error)
        np.testing.assert_allclose(comparison.tasks[name], expected, rtol=1e-6)
        weights = None if average == "tasks" else SIZES
        assert comparison.summary["score"][name] == pytest.approx(
            np.average(expected, weights=weights)
        )
    assert comparison.rows.tolist() == list(SIZES)
    assert comparison.nested


def fitted_to_one(estimator, data):
    """The estimator fitted to rows of a single task."""
    one = {"tasks": np.zeros(len(data.y))} if isinstance(estimator, CrossBayesianRidge) else {}
    return clone(estimator).fit(data.X, data.y, **one)


@pytest.mark.parametrize("estimator", [CrossBayesianRidge(), Ridge()])
def test_estimators_that_no_radius_frees_are_fitted_on_all_tasks_and_on_each(estimator):
    data = random_data(0, (9, 8, 6), 2)
    comparison = compare(estimator, data.X, data.y, data.tasks, cv=3)
    folds = within_task_folds(data.tasks, 3, 0)
    pooled, separate = np.zeros((2, 3))
    for fold in range(3):
        own, rest = data.take(folds == fold), data.take(folds != fold)
        everything = fitted_to_one(estimator, rest)
        for task in range(3):
            rows, others = own.take(own.tasks == task), rest.take(rest.tasks == task)
            alone = fitted_to_one(estimator, others)
            pooled[task] -= np.sum((rows.y - everything.predict(rows.X)) ** 2)
            separate[task] -= np.sum((rows.y - alone.predict(rows.X)) ** 2)
    np.testing.assert_allclose(comparison.tasks["pooled"], pooled / (9, 8, 6), rtol=1e-9)
    np.testing.assert_allclose(comparison.tasks["separate"], separate / (9, 8, 6), rtol=1e-9)


def test_separate_classifiers_ask_the_pooled_one_where_a_task_has_one_class():
    data = random_data(2, (12, 10, 8), 2, 2)
    y = np.where(data.tasks == 2, 0, data.y)
    comparison = compare(LogisticRegression(), data.X, y, data.tasks, cv=3)
    assert np.isfinite(comparison.tasks["separate"]).all()
    assert comparison.tasks["separate"].iloc[2] == pytest.approx(comparison.tasks["pooled"].iloc[2])


def test_classes_are_scored_by_their_log_loss():
    data = random_data(1, (12, 14, 10), 2, 2)
    model = CrossLogisticRegression(0.5)
    comparison = compare(model, data.X, data.y, data.tasks, cv=3, rivals=["pooled"])
    classes = np.unique(data.y)
    expected = by_hand(model, data, lambda y, p: -log_loss(y, p, labels=classes), True)
    np.testing.assert_allclose(comparison.tasks["cross"], expected, rtol=1e-6)
    right = compare(model, data.X, data.y, data.tasks, cv=3, rivals="pooled", scoring="accuracy")
    folds = within_task_folds(data.tasks, 3, 0, data.y)
    correct = np.zeros(len(data.y))
    for fold in range(3):
        rest, own = data.take(folds != fold), data.take(folds == fold)
        predicted = model.fit(rest.X, rest.y, tasks=rest.tasks).predict(own.X, own.tasks)
        correct[folds == fold] = predicted == own.y
    expected = [
        accuracy_score(np.ones(n), correct[data.tasks == t]) for t, n in enumerate((12, 14, 10))
    ]
    np.testing.assert_allclose(right.tasks["cross"], expected)


def test_rivals_may_be_any_estimators():
    data = random_data(2, (10, 12, 9), 3)
    frame = pd.DataFrame(data.X, columns=list("abc"))
    labels = np.array(["x", "y", "z"])[data.tasks]
    rivals = {
        "mean": DummyRegressor(),
        "ridge": make_pipeline(StandardScaler(), Ridge()),
        "free": CrossRidge(np.inf),
        "separate": "separate",
    }
    comparison = compare(CrossRidge(0.3), frame, data.y, labels, cv=KFold(4), rivals=rivals)
    assert comparison.methods == (*rivals, "cross")
    assert comparison.tasks.index.tolist() == ["x", "y", "z"]
    np.testing.assert_allclose(comparison.tasks["free"], comparison.tasks["separate"])
    errors = np.empty(len(data.y))
    for train, test in KFold(4).split(data.X):
        errors[test] = (data.y[test] - data.y[train].mean()) ** 2
    expected = [-errors[data.tasks == task].mean() for task in range(3)]
    np.testing.assert_allclose(comparison.tasks["mean"], expected)
    assert "cross" in str(comparison)


def test_an_estimator_that_chooses_does_so_within_the_training_part():
    data = random_data(3, (8, 9, 10), 2)
    model = CrossRidgeCV([0.0, 0.5, np.inf], alphas=[1.0], cv=2, metric="standard")
    comparison = compare(model, data.X, data.y, data.tasks, cv=3)
    np.testing.assert_allclose(comparison.tasks["cross"], -by_hand(model, data, mean_squared_error))
    pooled = CrossRidge(0.0)
    np.testing.assert_allclose(
        comparison.tasks["pooled"], -by_hand(pooled, data, mean_squared_error), rtol=1e-6
    )


def test_a_class_may_be_missing_from_a_training_part():
    data = random_data(4, (12, 12), 2, 2)
    y = np.array(["a", "b"], dtype=object)[data.y.astype(int)]
    y[0] = "rare"
    model = CrossLogisticRegression(0.5)
    rivals = {"shares": DummyClassifier(strategy="prior"), "plain": LogisticRegression()}
    comparison = compare(model, data.X, y, data.tasks, cv=2, rivals=rivals)
    assert np.isfinite(comparison.scores).all()
    assert (comparison.scores < 0).all()


def test_it_is_found_at_the_top():
    assert crosslearning.compare is compare


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rivals": ["free"]}, "are 'pooled' and 'separate'; got 'free'.*mapping"),
        ({"rivals": {}}, "at least one method"),
        ({"rivals": {"cross": Ridge()}}, "name of the estimator itself"),
        ({"average": "none"}, "`average` must be 'tasks' or 'rows'; got 'none'"),
        ({"cv": 1}, "`cv` must be from 2"),
        ({"cv": []}, "`cv` must produce at least one split"),
    ],
)
def test_bad_input(changes, message):
    data = random_data(0, SIZES, 2)
    arguments = {"estimator": CrossRidge(), "X": data.X, "y": data.y, "tasks": data.tasks}
    with pytest.raises(ValueError, match=message):
        compare(**arguments | changes)


def test_the_log_loss_needs_probabilities():
    data = random_data(1, (12, 14), 2, 2)
    rivals = {"ridge": RidgeClassifier()}
    for scoring in (None, "roc_auc"):
        with pytest.raises(AttributeError, match=r"need `predict_proba`.*'accuracy'"):
            compare(
                CrossLogisticRegression(),
                data.X,
                data.y,
                data.tasks,
                rivals=rivals,
                scoring=scoring,
            )


def test_scores_of_ranks_need_only_probabilities():
    data = random_data(1, (12, 14), 2, 2)
    rivals = {"trees": DecisionTreeClassifier(random_state=0)}  # without `decision_function`
    comparison = compare(
        CrossLogisticRegression(), data.X, data.y, data.tasks, rivals=rivals, scoring="roc_auc"
    )
    assert np.isfinite(comparison.scores).all()
