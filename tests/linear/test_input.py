"""Labels of all kinds, tasks never seen, and errors that say what to do."""

import numpy as np
import pandas as pd
import pytest

from crosslearning.exceptions import ConvergenceWarning
from crosslearning.linear import (
    CrossBayesianGLM,
    CrossBayesianRidge,
    CrossLogisticRegression,
    CrossRidge,
    CrossRidgeCV,
    CrossStackingRegressor,
)
from tests.support.linear_laws import random_data

INF = np.inf
estimators = pytest.mark.parametrize("estimator", [CrossRidge, CrossLogisticRegression])


def data_for(estimator):
    return random_data(0, (20, 15, 12), 3, 0 if estimator is CrossRidge else 2)


LABELS = {
    "strings": ["a", "b", "c"],
    "tuples": [("a", 1), ("a", 2), ("b", 1)],
    "unequal tuples": [("a",), ("a", 2), ("b", 1, 3)],
    "mixed": ["a", 1, ("b", 1)],
    "dates": list(pd.date_range("2020-01-01", periods=3)),
    "floats": [0.5, 1.5, 2.5],
    "booleans and none of them": [True, False, "x"],
}


@estimators
@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
def test_any_hashable_is_a_label(estimator, labels):
    data = data_for(estimator)
    plain = data.fitted(estimator(0.3))
    tasks = [labels[t] for t in data.tasks]
    model = estimator(0.3).fit(data.X, data.y, tasks=tasks)
    assert len(model.tasks_) == 3
    assert set(model.tasks_) == set(labels)
    expected = plain.predict(data.X, data.tasks)
    np.testing.assert_allclose(model.predict(data.X, tasks), expected, atol=1e-7)


@estimators
def test_categories_keep_their_order(estimator):
    data = data_for(estimator)
    names = np.array(["small", "medium", "large"])
    tasks = pd.Categorical(names[data.tasks], categories=["large", "none", "medium", "small"])
    model = estimator(0.3).fit(data.X, data.y, tasks=tasks)
    assert model.tasks_.tolist() == ["large", "medium", "small"]
    plain = data.fitted(estimator(0.3))
    np.testing.assert_allclose(model.coef_, plain.coef_[::-1], atol=1e-7)
    for other in (pd.Series(tasks), names[data.tasks], list(names[data.tasks])):
        expected = model.predict(data.X, tasks)
        assert np.array_equal(model.predict(data.X, other), expected)


@estimators
def test_integers_of_any_type_are_one_label(estimator):
    data = data_for(estimator)
    model = data.fitted(estimator(0.3))
    expected = model.predict(data.X, data.tasks)
    for tasks in (data.tasks.tolist(), data.tasks.astype(np.int8), pd.Series(data.tasks, None)):
        assert np.array_equal(model.predict(data.X, tasks), expected)


@estimators
def test_unseen_tasks_are_predicted_by_the_centre(estimator):
    data = data_for(estimator)
    model = data.fitted(estimator(0.3))
    scores = data.X @ np.ravel(model.center_coef_) + np.ravel(model.center_intercept_)
    expected = scores if estimator is CrossRidge else model.classes_[(scores > 0).astype(int)]
    for tasks in (np.full(len(data.y), 99), "center"):
        np.testing.assert_allclose(model.predict(data.X, tasks), expected, atol=1e-10)
    some = np.where(np.arange(len(data.y)) % 2, data.tasks, 99)
    mixed = model.predict(data.X, some)
    np.testing.assert_allclose(mixed[::2], expected[::2])
    np.testing.assert_allclose(mixed[1::2], model.predict(data.X, data.tasks)[1::2])


@estimators
@pytest.mark.parametrize(("fitted", "given"), [(int, str), (str, int)])
def test_labels_of_another_type_are_refused(estimator, fitted, given):
    """Not predicted by the centre, as a new task of the right type is."""
    data = data_for(estimator)
    tasks, others = ([kind(task) for task in data.tasks] for kind in (fitted, given))
    model = estimator(0.3).fit(data.X, data.y, tasks=tasks)
    message = f"such as {tasks[0]!r} .{fitted.__name__}.; got {others[0]!r} .{given.__name__}.*Conv"
    with pytest.raises(ValueError, match=message):
        model.predict(data.X, others)
    with pytest.raises(ValueError, match=message):
        model.predict(data.X, [others[0], *tasks[1:]])
    with pytest.raises(ValueError, match="not a known task"):
        model.predict(data.X, [given(99)] * len(tasks))
    assert np.isfinite(model.predict(data.X, [fitted(99)] * len(tasks))).all()


@estimators
def test_a_fit_without_tasks_warns(estimator):
    data = data_for(estimator)
    with pytest.warns(UserWarning, match="one task and nothing is shared. Pass the label") as seen:
        estimator().fit(data.X, data.y)
    assert seen[0].filename == __file__
    estimator().fit(data.X, data.y, tasks=["all"] * len(data.y))


@pytest.mark.parametrize("family", ["gaussian", "student", "poisson"])
def test_a_fit_that_does_not_converge_names_the_line_of_the_caller(family):
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(60, 2)), np.repeat(np.arange(6), 10)
    y = rng.poisson(np.exp(0.5 * X[:, 0] + 0.3 * rng.normal(size=6)[tasks])) + 1.0
    with pytest.warns(ConvergenceWarning) as seen:
        CrossBayesianGLM(family, covariance="diagonal", max_iter=1).fit(X, y, tasks)
    assert {one.filename for one in seen} == {__file__}


@pytest.mark.parametrize(
    "estimator", [CrossRidge(), CrossRidgeCV(), CrossBayesianRidge(), CrossStackingRegressor([])]
)
@pytest.mark.parametrize("kind", [object, str])
def test_targets_that_are_no_numbers(estimator, kind):
    data = data_for(CrossRidge)
    y = np.array([*data.y[:-1].round(2), "many"], dtype=kind)
    with pytest.raises(ValueError, match=r"could not convert string to float: .*many"):
        estimator.fit(data.X, y, tasks=data.tasks)
    with pytest.raises(ValueError, match=r"could not convert string to float: .*many"):
        data.fitted(CrossRidge()).fit_task(data.X, y)
    assert CrossRidge().fit(data.X, data.y.astype(kind), tasks=data.tasks).coef_.shape == (3, 3)


@estimators
def test_a_forgotten_task_is_an_error_that_says_both_remedies(estimator):
    data = data_for(estimator)
    model = data.fitted(estimator(0.3))
    calls = {"predict", "predict_proba", "decision_function"} & set(dir(model))
    for call in (*(getattr(model, name) for name in calls), lambda X: model.score(X, data.y)):
        with pytest.raises(ValueError, match="Pass the labels as `tasks`, or tasks='center'"):
            call(data.X)
    assert model.score(data.X, data.y, "center") < model.score(data.X, data.y, data.tasks)
    with pytest.raises(ValueError, match="got the string 'center'"):
        model.fit(data.X, data.y, tasks="center")


@estimators
def test_the_centre_with_labels_in_a_column_or_without(estimator):
    data = data_for(estimator)
    frame = pd.DataFrame(data.X, columns=list("abc"))
    model = estimator(0.3, task_column="school").fit(frame.assign(school=data.tasks), data.y)
    expected = data.fitted(estimator(0.3)).predict(data.X, "center")
    for X in (frame, frame.assign(school=data.tasks)):
        np.testing.assert_allclose(model.predict(X, "center"), expected, rtol=1e-12)


@estimators
@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_missing_labels_are_named(estimator, missing):
    data = data_for(estimator)
    tasks = data.tasks.astype(object)
    tasks[[3, 20]] = missing
    with pytest.raises(ValueError, match=r"no label in 2 rows: 3, 20"):
        estimator().fit(data.X, data.y, tasks=tasks)
    model = data.fitted(estimator())
    with pytest.raises(ValueError, match=r"no label in 2 rows: 3, 20"):
        model.predict(data.X, tasks)


@estimators
def test_labels_given_twice_or_in_the_wrong_place(estimator):
    data = data_for(estimator)
    frame = pd.DataFrame(data.X, columns=list("abc")).assign(school=data.tasks)
    model = estimator(task_column="school")
    with pytest.raises(ValueError, match="given twice"):
        model.fit(frame, data.y, tasks=data.tasks)
    model.fit(frame, data.y)
    with pytest.raises(ValueError, match="given twice"):
        model.predict(frame, tasks=data.tasks)
    with pytest.raises(ValueError, match="must name one column of X; 'shop' names 0"):
        estimator(task_column="shop").fit(frame, data.y)
    with pytest.raises(ValueError, match="must be a pandas DataFrame"):
        model.fit(data.X, data.y)
    with pytest.raises(ValueError, match="use task_column='school'"):
        estimator().fit(frame, data.y, tasks="school")
    with pytest.raises(ValueError, match="got 3 labels for 47 rows"):
        estimator().fit(data.X, data.y, tasks=[1, 2, 3])


BAD_KNOBS = {
    "negative": ({"epsilon": -1.0}, "must be at least 0; got -1.0. Use 0 to pool all tasks"),
    "nan": ({"epsilon": np.nan}, "must be at least 0; got nan. Use 0 to pool all tasks"),
    "none": ({"epsilon": None}, "must be a number.*Use 0 to pool all tasks, `math.inf`"),
    "string": ({"epsilon": "small"}, "must be a number.*Use 0 to pool all tasks"),
    "block": ({"epsilon": {"slope": 1.0}}, r"'coef' and 'intercept'; got \['slope'\]"),
    "value": ({"epsilon": {"coef": -1.0}}, "must be at least 0; got -1.0. Use 0 to pool"),
    "stiffness": ({"stiffness": INF}, "`stiffness` is a finite strength"),
    "tension": ({"tension": {"intercept": -2.0}}, "`tension` is a finite strength"),
    "alpha": ({"alpha": -1.0}, "'alpha' parameter"),
    "weights": ({"task_weights": "rows"}, "'task_weights' parameter"),
    "tol": ({"tol": 0.0}, "'tol' parameter"),
}


@estimators
@pytest.mark.parametrize(("settings", "message"), BAD_KNOBS.values(), ids=BAD_KNOBS.keys())
def test_bad_settings(estimator, settings, message):
    data = data_for(estimator)
    with pytest.raises(ValueError, match=message):
        data.fitted(estimator(**settings))


@estimators
def test_block_left_out_is_free(estimator):
    data = data_for(estimator)
    left = data.fitted(estimator({"coef": 0.1}))
    right = data.fitted(estimator({"coef": 0.1, "intercept": INF}))
    assert np.array_equal(left.coef_, right.coef_)
    assert left.epsilon_ == {"coef": 0.1, "intercept": INF}
    assert set(left.distances_) == set(left.forces_) == set(left.epsilon_max_)


@estimators
def test_sample_weights_must_be_weights(estimator):
    data = data_for(estimator)
    for weight in (np.zeros(len(data.y)), -np.ones(len(data.y)), np.ones(3)):
        with pytest.raises(ValueError, match=r"[Ww]eight"):
            estimator().fit(data.X, data.y, tasks=data.tasks, sample_weight=weight)


def test_one_class_is_too_few():
    data = data_for(CrossLogisticRegression)
    with pytest.raises(ValueError, match="2 classes; got one class"):
        CrossLogisticRegression().fit(data.X, np.ones(len(data.y)), tasks=data.tasks)
