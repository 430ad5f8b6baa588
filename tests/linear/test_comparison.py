"""Did sharing help: the table by hand and by brute force."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_squared_error

from crosslearning.evaluation import Comparison, Scores
from crosslearning.evaluation.scores import nested
from crosslearning.linear import CrossLogisticRegressionCV, CrossRidge, CrossRidgeCV
from crosslearning.tasks import within_task_folds
from tests.support.linear_laws import Data, random_data

INF, NAN = np.inf, np.nan
SCORE = 5e-5  # agreement of scores from rough fits with those from exact ones
LABELS = np.array(["a", "b", "c", "d"], dtype=object)
ROWS = np.array([4.0, 4.0, 2.0, 1.0])

# Scores by fold and task of two settings for each method. Task "d" is never scored.
POOLED = [[-4.0, -2.0, -1.0, NAN], [-6.0, -4.0, -3.0, NAN]]
POOLED_WORSE = [[-5.0, -5.0, -5.0, NAN], [-7.0, -7.0, -7.0, NAN]]
SEPARATE = [[-3.0, -3.0, -5.0, NAN], [-4.0, -4.0, -5.0, NAN]]
FIRST = [[-1.0, -2.0, -3.0, NAN], [-4.0, -6.0, -2.0, NAN]]  # best in the first fold
SECOND = [[-3.0, -2.0, -4.0, NAN], [-1.0, -1.0, -1.0, NAN]]  # best in the second
WEIGHTS = [[2.0, 2.0, 1.0, 0.0], [2.0, 2.0, 1.0, 0.0]]


def by_hand(by_rows=False, weights=WEIGHTS):
    """The comparison of given scores."""
    tables = np.array([POOLED_WORSE, POOLED, SEPARATE, FIRST, SECOND])
    scores = Scores(range(5), tables, np.array(weights), by_rows)
    methods = {"pooled": [0, 1], "separate": [2], "cross": [3, 4]}
    return Comparison.of(nested(scores, methods), LABELS, ROWS)


def test_settings_of_a_fold_are_best_on_the_others():
    tasks = by_hand().tasks
    assert tasks.columns.tolist() == ["rows", "pooled", "separate", "cross"]
    assert tasks.index.tolist() == ["a", "b", "c", "d"]
    assert tasks.index.name == "task"
    assert tasks["rows"].tolist() == ROWS.tolist()
    # The second setting is best on the second fold, so it speaks for the first, and vice versa.
    expected = {
        "pooled": [-5.0, -3.0, -2.0, NAN],
        "separate": [-3.5, -3.5, -5.0, NAN],
        "cross": [-3.5, -4.0, -3.0, NAN],
    }
    for name, scores in expected.items():
        np.testing.assert_array_equal(tasks[name], scores)


@pytest.mark.parametrize("nobody", [False, True])
def test_settings_without_a_score_are_not_the_best(nobody):
    """A missing score is worse than any, not as good as 0; missing everywhere, it is equal."""
    blank = [NAN, NAN, NAN, NAN]
    scored, gaps = [FIRST[0], SECOND[1]], [SECOND[0], blank]
    if nobody:
        scored = [FIRST[0], blank]
    scores = Scores(range(2), np.array([gaps, scored]), np.array(WEIGHTS))
    tasks = Comparison.of(nested(scores, {"cross": [0, 1]}), LABELS, ROWS).tasks
    # The second fold speaks for the first: the settings that have no score there are not taken.
    first = SECOND[0] if nobody else FIRST[0]
    expected = first if nobody else np.mean([first, SECOND[1]], axis=0)
    np.testing.assert_array_equal(tasks["cross"], expected)


def test_gain_and_standard_error():
    summary = by_hand().summary
    assert summary.index.tolist() == ["pooled", "separate", "cross"]
    np.testing.assert_allclose(summary["score"], [-10 / 3, -4.0, -3.5])
    gains = {"pooled": [1.5, -1.0, -1.0], "separate": [0.0, -0.5, 2.0], "cross": [0.0, 0.0, 0.0]}
    for name, gain in gains.items():
        row = summary.loc[name]
        assert row["gain"] == pytest.approx(np.mean(gain))
        assert row["standard_error"] == pytest.approx(np.std(gain, ddof=1) / np.sqrt(3))
    assert summary["helped"].tolist() == [1, 1, 0]
    assert summary["hurt"].tolist() == [2, 1, 0]


def test_average_over_rows():
    summary = by_hand(by_rows=True).summary
    share = np.array([0.4, 0.4, 0.2])
    assert summary["score"]["pooled"] == pytest.approx(share @ [-5.0, -3.0, -2.0])
    gain = share @ [1.5, -1.0, -1.0]
    assert summary["gain"]["pooled"] == pytest.approx(gain)
    spread = np.sum(share**2 * (np.array([1.5, -1.0, -1.0]) - gain) ** 2)
    assert summary["standard_error"]["pooled"] == pytest.approx(np.sqrt(1.5 * spread))


def test_folds_of_a_task_count_by_their_rows():
    tasks = by_hand(weights=[[3.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]]).tasks
    assert tasks["separate"]["a"] == pytest.approx((3 * -3.0 + -4.0) / 4)
    assert tasks["separate"]["b"] == pytest.approx(-3.5)
    assert tasks["separate"]["c"] == pytest.approx(-5.0)


def brute_force(data, folds, settings):
    """Mean of fold scores by setting, and squared errors of each row by setting."""
    errors, means = np.empty((len(settings), len(data.y))), []
    for k, (alpha, epsilon) in enumerate(settings):
        for fold in range(folds.max() + 1):
            own, rest = data.take(folds == fold), data.take(folds != fold)
            model = rest.fitted(CrossRidge(epsilon, alpha=alpha, metric="learned"))
            errors[k, folds == fold] = (own.y - model.predict(own.X, own.tasks)) ** 2
        table = pd.DataFrame({"error": errors[k], "fold": folds, "task": data.tasks})
        by_task = table.groupby(["fold", "task"])["error"].mean()
        means.append(-by_task.groupby("fold").mean().to_numpy())
    return np.array(means), errors


def test_brute_force():
    data = random_data(0, (9, 8, 6, 7, 1), 3)
    epsilons, alphas = [0.0, 0.2, 0.6, 1.5, INF], [0.5, 5.0]
    model = data.fitted(CrossRidgeCV(epsilons, alphas=alphas, cv=2))
    folds = within_task_folds(data.tasks, 2, seed=0)
    rivals = {"pooled": [0.0], "separate": [INF], "cross": epsilons}
    for name, radii in rivals.items():
        settings = [(alpha, epsilon) for alpha in alphas for epsilon in radii]
        means, errors = brute_force(data, folds, settings)
        best = means[:, ::-1].argmax(axis=0)  # of two folds, the other one decides
        own = errors[best[folds], np.arange(len(folds))]
        expected = [-own[data.tasks == task].mean() for task in range(5)]
        np.testing.assert_allclose(model.comparison_.tasks[name], expected, rtol=SCORE)
        score = model.comparison_.summary["score"][name]
        assert score == pytest.approx(np.mean(expected), rel=SCORE)
    assert model.comparison_.tasks["rows"].tolist() == [9, 8, 6, 7, 1]


def test_a_single_row_is_scored_as_a_task_never_seen():
    data = random_data(1, (12, 10, 1), 2)
    model = data.fitted(CrossRidgeCV([0.3], alphas=[1.0], cv=2))
    own = data.take(data.tasks == 2)
    fold = within_task_folds(data.tasks, 2, seed=0)
    rest = data.take(fold != fold[data.tasks == 2][0])
    centre = rest.fitted(CrossRidge(0.3, metric="learned")).predict(own.X, "center")
    expected = -mean_squared_error(own.y, centre)
    assert model.comparison_.tasks["cross"][2] == pytest.approx(expected, rel=SCORE)


def test_springs_do_not_compete_with_radii():
    """The radii of the path are there to look at; a spring has none to choose from."""
    data = random_data(0, (6, 5, 7), 3)
    noise = np.random.default_rng(0).normal(size=18)
    data = Data(data.X, data.X.sum(axis=1) + noise, data.tasks)
    settings = {"tether": "spring", "n_epsilons": 3, "cv": 3, "alphas": [0.01]}
    left, right = (data.fitted(CrossRidgeCV([e], **settings)).comparison_ for e in (0.0, 100.0))
    np.testing.assert_allclose(left.tasks["cross"], right.tasks["cross"], rtol=1e-8)


def test_rounding_neither_helps_nor_hurts():
    """Tasks so different that cross-learning leaves them alone: nobody gains or loses."""
    data = random_data(26, (20, 15, 12), 2)
    y = data.y + data.X[:, 0] * np.array([-5.0, 0.0, 7.0])[data.tasks]
    search = CrossRidgeCV([0.0, 100.0, INF], cv=3, alphas=[0.1], metric="standard")
    model = Data(data.X, y, data.tasks).fitted(search)
    separate = model.comparison_.summary.loc["separate"]
    assert abs(separate["gain"]) < 1e-5
    assert (separate["helped"], separate["hurt"]) == (0, 0)


@pytest.mark.parametrize("labels", [["a", "b"], [("a", 1), ("a", 2)], [("a",), ("b", 2)], [3, "x"]])
def test_labels_index_the_tasks(labels):
    data = random_data(2, (8, 9), 2)
    tasks = [labels[t] for t in data.tasks]
    model = CrossRidgeCV([0.1, 1.0], cv=2, alphas=[1.0]).fit(data.X, data.y, tasks=tasks)
    table = model.comparison_.tasks
    assert table.index.tolist() == model.tasks_.tolist()
    assert table.index.nlevels == 1
    assert table.index.name == "task"


def test_classes():
    data = random_data(3, (14, 12, 10), 2, 2)
    model = data.fitted(CrossLogisticRegressionCV([0.0, 0.3, INF], cv=2, alphas=[1.0]))
    tasks = model.comparison_.tasks[["pooled", "separate", "cross"]]
    assert (tasks < 0).all(axis=None)
    np.testing.assert_allclose(tasks.mean(), model.comparison_.summary["score"])
