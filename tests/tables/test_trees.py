"""Boosted trees and random forests as learners: with and without the task, and stored."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from crosslearning.evaluation.metrics import METRICS
from crosslearning.tables import TableModel, fit_table
from crosslearning.tables.learners import Boosting, Forest
from crosslearning.tables.learners.candidates import candidates, with_own_fits
from crosslearning.tables.learners.search import Bases, CandidateSearch, FoldPredictions
from crosslearning.tables.learners.trees import _FOREST
from crosslearning.tables.rows import Rows
from crosslearning.tasks.folds import Splits, divide


def steps(seed=0, n_tasks=4, n_rows=80, kind="numbers"):
    """A step at a place that differs between tasks, which no linear model has."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_tasks), n_rows)
    x = rng.uniform(-1.0, 1.0, len(codes))
    step = (x > np.linspace(-0.8, 0.8, n_tasks)[codes]).astype(float)
    if kind == "numbers":
        return Rows(x[:, None], 3.0 * step + 0.1 * rng.normal(size=len(x)), codes, n_tasks)
    y = np.where(rng.uniform(size=len(x)) < 0.05, 1.0 - step, step).astype(int)
    if kind == "three":
        y = y + (x > 0.9)
    return Rows(x[:, None], y, codes, n_tasks, None, np.unique(y))


def table(rows):
    labels = [f"t{code}" for code in rows.codes]
    return pd.DataFrame({"x": rows.X[:, 0], "g": labels, "y": rows.y})


def held_out(rows, *, with_task, splits, grower=Boosting):
    *_, parts = grower(rows, splits, "gaussian", 0).held_out(with_task=with_task)
    return parts


@pytest.mark.parametrize(
    ("grower", "kind"),
    [
        (Boosting, "numbers"),
        (Boosting, "two"),
        (Boosting, "three"),
        (Forest, "two"),
        (Forest, "three"),
    ],
)
def test_trees_that_know_the_task_are_better_where_steps_differ(grower, kind):
    rows = steps(kind=kind)
    splits = divide(rows.codes, 4, 0)

    def loss(with_task):
        parts = held_out(rows, with_task=with_task, splits=splits, grower=grower)
        truth = [rows.y[test] for _, test in splits.parts]
        if kind == "numbers":
            return np.mean([np.mean((y - p) ** 2) for y, p in zip(truth, parts, strict=True)])
        shares = [p[np.arange(len(y)), y] for y, p in zip(truth, parts, strict=True)]
        return -np.log(np.concatenate(shares)).mean()

    assert loss(True) < (0.5 if grower is Boosting else 0.8) * loss(False)


@pytest.mark.parametrize("kind", ["two", "three"])
def test_a_forest_is_that_of_scikit_learn_but_for_chance(kind, monkeypatch):
    # LightGBM divides no node that sees none of the columns that would help.
    monkeypatch.setitem(_FOREST, "feature_fraction_bynode", 1.0)
    rows = steps(kind=kind, n_rows=150)
    forest = Forest(rows, divide(rows.codes, 4, 0), "gaussian", 0).final(
        np.zeros(2), with_task=True
    )
    columns = np.column_stack([rows.X, rows.codes])
    other = RandomForestClassifier(200, max_features=None, random_state=0).fit(columns, rows.y)
    grid = np.linspace(-1.0, 1.0, 200)[:, None]
    for code in range(rows.n_tasks):
        at = np.column_stack([grid, np.full(len(grid), code)])
        shares = forest.probabilities(grid, np.full(len(grid), code))
        assert np.abs(shares - other.predict_proba(at)).mean() < 0.06


def test_a_forest_knows_the_rows_of_a_group_of_rows_that_are_alike():
    rng = np.random.default_rng(0)
    people, codes = rng.normal(size=(60, 3)), np.repeat(np.arange(4), 30)
    X, y = np.repeat(people, 2, axis=0), np.repeat(rng.integers(0, 2, 60), 2)
    rows = Rows(X, y, codes, 4, None, np.arange(2))
    first = np.arange(len(y)) % 2 == 0
    splits = Splits([(np.flatnonzero(first), np.flatnonzero(~first))])
    (shares,) = held_out(rows, with_task=True, splits=splits, grower=Forest)
    assert np.mean(shares.argmax(axis=1) == y[~first]) > 0.9


def test_a_forest_of_classes_that_a_part_lacks():
    rows = steps(kind="three")
    train, test = np.flatnonzero(rows.y < 2), np.flatnonzero(rows.y == 2)
    (shares,) = held_out(rows, with_task=True, splits=Splits([(train, test)]), grower=Forest)
    assert shares.shape == (len(test), 3)
    assert (shares > 0).all()
    assert shares[:, 2].max() < 0.01
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


def test_rows_without_weight_do_not_count_in_a_forest():
    rows = steps(kind="two")
    first = np.arange(len(rows.y)) % 2 == 0
    weighted = replace(rows, weights=first.astype(float))
    other = replace(weighted, y=np.where(first, rows.y, 1 - rows.y))
    splits = Splits([(np.arange(len(rows.y)), np.arange(5))])
    one, two = (
        held_out(r, with_task=True, splits=splits, grower=Forest) for r in (weighted, other)
    )
    np.testing.assert_array_equal(one, two)


def test_predictions_of_a_split_do_not_know_its_targets(monkeypatch):
    # Size and number of trees are best on other splits, whose trees know these targets.
    monkeypatch.setattr(Boosting, "_sizes", lambda *_: ((7, 5),))
    monkeypatch.setattr(Boosting, "_best", lambda *_: 50)
    rows = steps()
    splits = divide(rows.codes, 4, 0)
    other = Rows(rows.X, rows.y.copy(), rows.codes, rows.n_tasks)
    test = splits.parts[2][1]
    other.y[test] = np.random.default_rng(0).permutation(other.y[test])
    known, unknown = (held_out(r, with_task=True, splits=splits) for r in (rows, other))
    assert np.abs(known[2] - unknown[2]).max() < 1e-12
    assert np.abs(known[1] - unknown[1]).max() > 1e-3


def test_rows_that_are_too_few_to_split_have_no_trees(monkeypatch):
    monkeypatch.setattr(Boosting, "_best", lambda *_: 50)
    rows = steps(n_rows=2)
    splits = divide(rows.codes, 2, 0)
    for (train, _), part in zip(
        splits.parts, held_out(rows, with_task=True, splits=splits), strict=True
    ):
        np.testing.assert_allclose(part, rows.y[train].mean())


def test_a_new_task_is_predicted_by_trees_without_the_task():
    rows = steps()
    boosting = Boosting(rows, divide(rows.codes, 4, 0), "gaussian", 0)
    trees = boosting.final(np.array([0.1, 2.0]), with_task=True)
    pooled = boosting.final(np.array([0.1, 2.0]), with_task=False)
    codes = np.array([0, -1, 3])
    mean, sd = trees.moments(np.zeros((3, 1)), codes)
    np.testing.assert_array_equal(sd, [0.1, 2.0, 0.1])
    assert mean[1] == pooled.means(np.zeros((1, 1)), codes[:1])
    assert mean[0] > 2.5
    assert mean[2] < 0.5


@pytest.mark.parametrize("kind", ["numbers", "three"])
def test_trees_are_averaged_over_sizes_for_classes(kind):
    rows = steps(kind=kind, n_rows=80 if kind == "numbers" else 40)
    boosting = Boosting(rows, divide(rows.codes, 4, 0), "gaussian", 0)
    trees = boosting.final(np.zeros(2), with_task=True)
    assert trees.text.tobytes().count(b"\0") + 1 == (1 if kind == "numbers" else 2)


@pytest.mark.parametrize("kind", ["numbers", "two", "three"])
def test_trees_are_chosen_saved_and_loaded(tmp_path, kind):
    frame = table(steps(kind=kind, n_rows=80 if kind == "numbers" else 40))
    given = {"family": "gaussian"} if kind == "numbers" else {"kind": "classification"}
    given |= {"base": "boosting", "time_budget": np.inf, "folds": 4}
    model = fit_table(frame, task="g", target="y", **given)
    parts = {part.name for part in model.findings.chosen_model.parts}
    assert (
        {"cross-trees"} <= parts if kind == "numbers" else {"cross-trees", "cross-forest"} <= parts
    )
    new = pd.DataFrame({"x": [0.0, 0.0, 0.0], "g": ["t0", "t3", "unknown"]})
    predictions = model.predict(new)
    model.save(tmp_path / "model")
    pd.testing.assert_frame_equal(TableModel.load(tmp_path / "model").predict(new), predictions)
    if kind == "numbers":
        width = predictions["upper"] - predictions["lower"]
        assert width[2] > 3.0 * width[0]
        assert predictions["prediction"][0] > 2.0 > 1.0 > predictions["prediction"][1]


def test_a_single_split_decides_on_trees_by_its_training_part():
    rows = steps()
    test = np.arange(len(rows.y)) % 2 > 0
    splits = Splits([(np.flatnonzero(~test), np.flatnonzero(test))])
    (predictions,) = held_out(rows, with_task=True, splits=splits)
    assert np.mean((predictions - rows.y[splits.parts[0][1]]) ** 2) < 0.3


def test_without_lightgbm_notes_say_which_trees_were_not_tried(monkeypatch):
    def missing(purpose, *_):
        raise ImportError(f"{purpose} needs lightgbm")

    monkeypatch.setattr("crosslearning.tables.learners.search.require", missing)
    rows = steps()
    bases = Bases(rows, divide(rows.codes, 4, 0), "auto", "gaussian", 0)
    assert not bases.learners
    assert "splines" in bases.blocks
    assert bases.notes == ["boosted trees were not tried: Trying them needs lightgbm"]
    bases = Bases(steps(kind="two"), divide(rows.codes, 4, 0), "auto", "", 0)
    (note,) = bases.notes
    assert note.startswith("boosted trees and random forests were not tried: ")


def test_classes_have_a_smallest_probability():
    rows = steps(kind="three")
    boosting = Boosting(rows, divide(rows.codes, 4, 0), "gaussian", 0)
    trees = boosting.final(np.zeros(2), with_task=True)
    predictions = trees.probabilities(rows.X, rows.codes)
    np.testing.assert_allclose(predictions.sum(axis=1), 1.0)
    assert predictions.min() > 0.5 / (len(rows.y) + 2)


def test_linear_models_of_a_family_stay_if_there_was_time_for_trees_only():
    rows = steps()
    splits = divide(rows.codes, 4, 0)
    bases = Bases(rows, splits, "linear", "student", 0)
    search = CandidateSearch(bases, METRICS["mse"])
    pooled, *_ = candidates("regression", "student", only=True, epsilon=np.inf)
    outcome = FoldPredictions(np.zeros(len(rows.y)), np.ones(len(rows.y)), 0.1)
    search.outcomes = dict.fromkeys([pooled, *with_own_fits(["trees"], np.inf)], outcome)
    assert list(search._comparable()) == list(search.outcomes)


def searched(rows, splits, kind="classification"):
    """Trials of linear models and trees, all of which have the time that they need."""
    bases = Bases(rows, splits, "boosting", "gaussian", 0)
    search = CandidateSearch(bases, METRICS["log-loss" if kind == "classification" else "mse"])
    first, *others = candidates(kind, "gaussian", only=True, epsilon=np.inf)
    search.first(first)
    search.more([*others, *with_own_fits(bases.learners, np.inf)], share=(0.0, 1.0))
    return search.finish()


@pytest.mark.parametrize("kind", ["numbers", "two", "three"])
def test_a_task_that_is_held_out_is_predicted_as_a_new_one(kind):
    rows = steps(kind=kind)
    everything = np.arange(len(rows.y))
    within, whole = everything[rows.codes < 2][::4], everything[rows.codes == 2]
    splits = Splits([(np.setdiff1d(everything, test), test) for test in (within, whole)])
    trials = searched(rows, splits, "regression" if kind == "numbers" else "classification")
    for learner in {"trees"} if kind == "numbers" else {"trees", "forest"}:
        pooled, cross = (trials.predictions[f"{end}-{learner}"] for end in ("pooled", "cross"))
        np.testing.assert_array_equal(cross[whole], pooled[whole])
        assert (cross[within] != pooled[within]).any()


def test_models_predict_a_class_that_their_rows_lack_as_rarely_as_trees_do():
    rows = steps(kind="three")
    everything = np.arange(len(rows.y))
    common, last = everything[rows.y < 2], everything[rows.y == 2]
    test = np.append(common[::5], last)
    trials = searched(rows, Splits([(np.setdiff1d(everything, test), test)] * 2))
    for name in ("pooled", "cross", "separate"):
        shares = trials.predictions[name][test]
        np.testing.assert_allclose(shares.sum(axis=1), 1.0)
        smallest = 1.0 / (len(rows.y) - len(test) + 2)
        np.testing.assert_allclose(shares[:, 2], smallest, rtol=0.01)


def test_models_predict_frequencies_where_their_rows_have_one_class():
    rows = steps(kind="two")
    everything = np.arange(len(rows.y))
    one = everything[rows.y == 0][::2]
    rest = np.setdiff1d(everything, one)
    splits = Splits([(one, rest), (rest, one)])
    trials = searched(rows, splits)
    expected = np.array([1.0, 0.5 / len(one)]) / (1.0 + 0.5 / len(one))
    for name in ("pooled", "levels", "cross", "separate"):
        shares = trials.predictions[name][rest]
        np.testing.assert_allclose(shares, np.broadcast_to(expected, shares.shape))
    assert np.isfinite(trials.scores.values).any(axis=1).all()
