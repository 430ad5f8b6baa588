"""The choice of a cross-validation, recomputed by fits of the plain estimators on its folds."""

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    log_loss,
    make_scorer,
    mean_absolute_error,
    mean_squared_error,
    r2_score,
    roc_auc_score,
)
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, ShuffleSplit, TimeSeriesSplit

from crosslearning.linear import (
    CrossLogisticRegression,
    CrossLogisticRegressionCV,
    CrossRidge,
    CrossRidgeCV,
)
from crosslearning.tasks import within_task_folds
from tests.support.linear_laws import Data, random_data

INF = np.inf
SCORE = 1e-5  # agreement of a score, whose fits are rough, with that of exact fits
SIZES = (20, 15, 12, 13)
FAST = {"n_epsilons": 4, "cv": 3, "alphas": [1.0]}
RADII = [0.0, 0.3, INF]


def fitted(data, classes=0, **settings):
    estimator = CrossLogisticRegressionCV if classes else CrossRidgeCV
    return data.fitted(estimator(**FAST | settings))


def folds_of(data, classes, n_splits=3, seed=0):
    held_out = within_task_folds(data.tasks, n_splits, seed, data.y if classes else None)
    rows = np.arange(len(data.y))
    return [(rows[held_out != fold], rows[held_out == fold]) for fold in range(n_splits)]


def squared_error(model, data):
    predicted = model.predict(data.X, data.tasks)
    return -mean_squared_error(data.y, predicted, sample_weight=data.sample_weight)


def entropy(model, data):
    predicted = model.predict_proba(data.X, data.tasks)
    weight = data.sample_weight
    return -log_loss(data.y, predicted, labels=model.classes_, sample_weight=weight)


def brute_force(data, folds, metric, classes=0, average="tasks", **settings):
    """Score of each fold: the mean over tasks, or rows, of a metric of each task's rows."""
    estimator = CrossLogisticRegression if classes else CrossRidge
    result = []
    for train, test in folds:
        model = data.take(train).fitted(estimator(metric="learned", **settings))
        own = [data.take(test[data.tasks[test] == task]) for task in np.unique(data.tasks[test])]
        scores = np.array([metric(model, rows) for rows in own])
        sizes = np.array([len(rows.y) for rows in own]) if average == "rows" else np.ones(len(own))
        result.append(np.average(scores[~np.isnan(scores)], weights=sizes[~np.isnan(scores)]))
    return result


def assert_scores(model, data, folds, metric, classes=0, **settings):
    """Scores along the path are those of exact fits, and the best of them was chosen."""
    knobs = {"alpha": model.alpha_, "stiffness": model.stiffness_, "tension": model.tension_}
    expected = [
        brute_force(data, folds, metric, classes, epsilon=epsilon, **knobs, **settings)
        for epsilon in model.epsilons_
    ]
    np.testing.assert_allclose(model.score_path_, expected, rtol=SCORE, atol=SCORE)
    assert model.best_score_ == pytest.approx(np.mean(expected, axis=1).max(), rel=SCORE)
    if model.tether == "ball":
        assert model.epsilon_ == model.epsilons_[np.mean(expected, axis=1).argmax()]


@pytest.mark.parametrize(
    ("classes", "seed"),
    [(0, 0), (0, 1), (2, 0), (3, 1), pytest.param(3, 0, marks=pytest.mark.slow)],
)
def test_scores_and_choice(classes, seed):
    data = random_data(seed, SIZES, 2, classes)
    given = {"epsilons": RADII} if (classes, seed) in ((2, 0), (3, 1)) else {}
    model = fitted(data, classes, random_state=seed, **given)
    folds = folds_of(data, classes, seed=seed)
    assert_scores(model, data, folds, entropy if classes else squared_error, classes)
    direct = CrossLogisticRegression if classes else CrossRidge
    direct = data.fitted(direct(model.epsilon_, alpha=model.alpha_, metric="learned"))
    np.testing.assert_allclose(model.coef_, direct.coef_, atol=1e-7)
    np.testing.assert_allclose(model.center_coef_, direct.center_coef_, atol=1e-7)
    assert model.kkt_residual_ <= 1e-8


@pytest.mark.parametrize("tether", ["spring", "tension"])
def test_scores_of_springs_and_tensions(tether):
    data = random_data(2, SIZES, 2)
    model = fitted(data, tether=tether)
    assert model.tether_ == tether
    assert model.epsilon_ == INF
    path = brute_force(
        data, folds_of(data, 0), squared_error, epsilon=INF, alpha=1.0,
        stiffness=model.stiffness_, tension=model.tension_,
    )  # fmt: skip
    np.testing.assert_allclose(model.score_path_[-1], path, rtol=SCORE)
    assert model.best_score_ == pytest.approx(np.mean(path), rel=SCORE)


def test_ridge_strength_and_radius_are_chosen_together():
    data = random_data(3, (8, 7, 6, 9), 4)
    epsilons, alphas = [0.0, 0.2, 1.0, INF], [0.1, 3.0, 30.0]
    model = fitted(data, epsilons=epsilons, alphas=alphas)
    folds = folds_of(data, 0)
    scores = {
        (alpha, e): np.mean(brute_force(data, folds, squared_error, epsilon=e, alpha=alpha))
        for alpha in alphas
        for e in epsilons
    }
    assert (model.alpha_, model.epsilon_) == max(scores, key=scores.get)
    assert model.best_score_ == pytest.approx(max(scores.values()), rel=SCORE)
    assert model.alphas_.tolist() == alphas


def test_one_row_tasks_count_as_unseen_when_held_out():
    data = random_data(4, (15, 12, 14, 1, 1, 1), 2)
    model = fitted(data, epsilons=[0.0, 0.3, 1.0, INF], alphas=[3.0])
    assert_scores(model, data, folds_of(data, 0), squared_error)


def test_scores_are_accurate_for_small_tasks():
    """An alpha that is weak for tasks of a few rows leaves them nearly free: digits matter."""
    data = random_data(1, (20, 9, 4, 2, 1, 1, 1), 2)
    model = fitted(data, epsilons=[0.0, 0.14, 0.788], alphas=[0.3], cv=4)
    assert_scores(model, data, folds_of(data, 0, 4), squared_error)


def test_average_over_rows_or_tasks():
    data = random_data(5, (60, 5, 6, 4), 2)
    settings = {"epsilons": [0.0, 0.2, 0.5, INF]}
    models = {average: fitted(data, average=average, **settings) for average in ("rows", "tasks")}
    for average, model in models.items():
        assert_scores(model, data, folds_of(data, 0), squared_error, average=average)
    assert models["rows"].best_score_ != pytest.approx(models["tasks"].best_score_, rel=0.01)


def r2(model, data):
    return r2_score(data.y, model.predict(data.X, data.tasks)) if len(data.y) > 1 else np.nan


def absolute_error(model, data):
    return -mean_absolute_error(data.y, model.predict(data.X, data.tasks))


def accuracy(model, data):
    return accuracy_score(data.y, model.predict(data.X, data.tasks))


def area(model, data):
    if len(np.unique(data.y)) < 2:
        return np.nan
    return roc_auc_score(data.y, model.decision_function(data.X, data.tasks))


SCORERS = {
    "r2": ("r2", r2, 0),
    "name": ("neg_mean_absolute_error", absolute_error, 0),
    "scorer": (make_scorer(mean_absolute_error, greater_is_better=False), absolute_error, 0),
    "callable": (lambda e, X, y: -np.abs(y - e.predict(X)).mean(), absolute_error, 0),
    "accuracy": ("accuracy", accuracy, 2),
    "roc_auc": ("roc_auc", area, 2),
    "log_loss": ("neg_log_loss", entropy, 2),
}


@pytest.mark.parametrize(("scoring", "metric", "classes"), SCORERS.values(), ids=SCORERS.keys())
def test_any_scorer(scoring, metric, classes):
    data = random_data(6, SIZES, 2, classes)
    data = Data(data.X, data.y + 100.0 * (not classes), data.tasks)
    model = fitted(data, classes, scoring=scoring, epsilons=RADII)
    assert_scores(model, data, folds_of(data, classes), metric, classes)


LACKING = {"default": (None, entropy), "log": ("neg_log_loss", entropy), "area": ("roc_auc", area)}


@pytest.mark.parametrize(("scoring", "metric"), LACKING.values(), ids=LACKING.keys())
def test_scores_of_tasks_that_lack_a_class(scoring, metric):
    data = random_data(7, SIZES, 2, 2)
    data.y[data.tasks == 1] = 1
    model = fitted(data, 2, scoring=scoring, epsilons=[0.0, 1.0, INF])
    assert_scores(model, data, folds_of(data, 2), metric, 2)


def test_scores_of_one_held_out_row_are_left_out_in_silence():
    data = random_data(6, (20, 20, 4), 2)  # the last task has one row in two of the folds
    model = fitted(data, scoring="r2", epsilons=[0.0, 0.2, INF])
    assert_scores(model, data, folds_of(data, 0), r2)


def undefined(estimator, X, y):  # noqa: ARG001
    return np.nan


@pytest.mark.parametrize("scoring", [undefined, "neg_mean_gamma_deviance"])
def test_a_scorer_that_never_applies_is_an_error(scoring):
    data = random_data(6, SIZES, 2)
    with pytest.raises(ValueError, match="scor"):
        fitted(Data(data.X, data.y - 1000.0, data.tasks), scoring=scoring)


SPLITTERS = {
    "shuffled": KFold(4, shuffle=True, random_state=1),
    "groups": GroupKFold(4),
    "repeated": RepeatedKFold(n_splits=2, n_repeats=2, random_state=0),
    "in time": TimeSeriesSplit(3),
    "once": ShuffleSplit(1, test_size=0.4, random_state=0),
}


@pytest.mark.parametrize("splitter", SPLITTERS.values(), ids=SPLITTERS.keys())
def test_splitters_and_their_splits(splitter):
    """Both parts of a split are taken as they are; groups are the tasks."""
    data = random_data(8, SIZES, 2).take(np.random.default_rng(0).permutation(60))
    groups = data.tasks if isinstance(splitter, GroupKFold) else None
    splits = list(splitter.split(data.X, groups=groups))
    model = fitted(data, cv=splits, epsilons=RADII)
    assert_scores(model, data, splits, squared_error)
    by_splitter = fitted(data, cv=splitter, epsilons=RADII)
    assert np.array_equal(by_splitter.score_path_, model.score_path_)
