"""Means of tasks as features, which new tasks have to guess."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from crosslearning import CrossBayesianRidge
from crosslearning.convex.families import Multinomial
from crosslearning.tables import TableModel, fit_table
from crosslearning.tables.forecast import TaskMeans, _members
from crosslearning.tables.learners.search import Bases
from crosslearning.tables.rows import Rows, fitted
from crosslearning.tasks.folds import divide

# However busy the machine is: what there is no time for is not tried.
fit_fully = partial(fit_table, time_budget=np.inf)


def grouped(seed=0, tasks=60, rows=4, between=2.0):
    """Tasks whose level depends on their mean of x; its effect within a task is 1."""
    rng = np.random.default_rng(seed)
    g = np.repeat(np.arange(tasks), rows)
    means = 2.0 * rng.normal(size=tasks)
    x = means[g] + rng.normal(size=len(g))
    y = x + between * means[g] + 2.0 * rng.normal(size=len(g))
    frame = pd.DataFrame({"x": x, "size": (g % 7).astype(float), "g": [f"t{k}" for k in g], "y": y})
    return frame.sample(frac=1.0, random_state=seed, ignore_index=True)


def test_means_of_tasks():
    rng = np.random.default_rng(0)
    codes, weights = rng.integers(0, 20, 400), rng.uniform(0.5, 2.0, 400)
    codes[codes == 3], weights[codes == 4] = 2, 0.0  # a task without rows, and one without weight
    Z = 5.0 + rng.normal(size=(20, 2))[codes] + rng.normal(size=(400, 2))
    means = TaskMeans.of(Z, codes, weights, 20)
    values = vars(means)["values"]
    assert np.isnan(values[[3, 4]]).all()
    own = np.average(Z[codes == 7], axis=0, weights=weights[codes == 7])
    np.testing.assert_allclose(values[7], own)
    used = weights > 0
    expected, rest = [], []
    for j in range(2):  # regression of means on rows
        root = np.sqrt(weights[used])
        design = np.column_stack([np.ones(used.sum()), Z[used, j]])
        y = values[codes[used], j]
        line = np.linalg.lstsq(design * root[:, None], y * root, rcond=None)[0]
        expected.append(line @ [1.0, 7.0])
        rest.append(y - design @ line)
    some = means.apply(np.full((3, 2), 7.0), np.array([7, 4, -1]))
    np.testing.assert_allclose(some, [own, expected, expected])
    np.testing.assert_allclose(means.spread, np.cov(rest, aweights=weights[used], ddof=0))


@pytest.mark.parametrize("classes", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_new_tasks_have_intervals_that_know_of_unknown_means(classes):
    """A new task's mean is a guess: 90 % of its targets are within their intervals all the same."""
    rng, n_new = np.random.default_rng(2), 400
    frame = grouped(2, tasks=n_new + 60)
    known = frame["g"].str[1:].astype(int) < 60
    new = frame[~known].assign(g=lambda part: "new " + part["g"])
    if not classes:
        given = {"task": "g", "target": "y", "base": "splines", "family": "gaussian"}
        model = fit_fully(frame[known], **given)
        assert any("means" in part["name"] for part in model.results["chosen_model"]["parts"])
        said = model.predict(new)
        inside = (said["lower"] <= new["y"]) & (new["y"] <= said["upper"])
        assert 0.86 < inside.mean() < 0.96
        error = np.sqrt(np.mean((new["y"] - said["prediction"]) ** 2))
        assert said["std"].mean() == pytest.approx(error, rel=0.15)
        return
    cuts = np.quantile(frame["y"], np.arange(1, classes) / classes)
    codes = np.searchsorted(cuts, frame["y"] + 0.0 * rng.normal(size=len(frame)))
    frame["y"] = np.array(["a", "b", "c"])[codes]
    model = fit_fully(frame[known], task="g", target="y", base="splines")
    X, codes = model.encode(new)[0], np.full(len(new), -1)
    members = _members(model.state, X, codes)  # of a blend, some of which know task means
    unknown = [one.predictor.feature_covariance for one in members]
    member = members[[spread is not None and spread.any() for spread in unknown].index(True)]
    predictor, certain = member.predictor, replace(member.predictor, feature_covariance=None)
    assert predictor.feature_covariance.any()
    spread, less = (p.score_covariances(member.X, codes) for p in (predictor, certain))
    coef = np.diff(predictor.coef[-1], axis=0)  # contrasts of classes
    gap = coef @ predictor.feature_covariance @ coef.T
    basis = np.diff(Multinomial(classes).basis, axis=0)
    np.testing.assert_allclose(basis @ (spread - less)[0] @ basis.T, gap, rtol=1e-6)


def test_means_of_a_split_do_not_know_its_test_rows():
    frame = grouped(tasks=12)
    codes = frame["g"].str[1:].astype(int).to_numpy()
    rows = Rows(frame[["x", "size"]].to_numpy(), frame["y"].to_numpy(), codes, 12)
    splits = divide(codes, 4, 0)
    train, test = splits.parts[1]
    other = Rows(rows.X.copy(), rows.y, codes, 12)
    other.X[test, 0] = rows.X[np.roll(test, 1), 0]  # mean, spread and knots stay
    one, two = (Bases(own, splits, "auto", "gaussian", 0) for own in (rows, other))
    assert (one.blocks["means"] == "means").sum() == 1  # sizes do not vary within tasks
    np.testing.assert_allclose(one.of("means", 1).X[train], two.of("means", 1).X[train])
    assert np.abs(one.of("means", None).X - two.of("means", None).X)[train].max() > 0.1


def test_means_that_are_the_same_in_all_tasks_are_no_features():
    frame = grouped(tasks=12)
    codes = frame["g"].str[1:].astype(int).to_numpy()
    year = frame.groupby("g").cumcount().to_numpy(dtype=float)  # as in a balanced panel
    rows = Rows(np.column_stack([frame["x"], year]), frame["y"].to_numpy(), codes, 12)
    bases = Bases(rows, divide(codes, 4, 0), "auto", "gaussian", 0)
    assert bases.of("means", None).X.shape == (len(frame), 3)
    assert np.isfinite(fitted(CrossBayesianRidge(), bases.of("means", None)).log_evidence_)


@pytest.mark.slow
def test_levels_that_depend_on_task_means(tmp_path):
    frame, rest = grouped(), grouped(between=0.0)
    train, test = frame[:180], frame[180:]
    model = fit_fully(train, task="g", target="y", base="splines")
    assert "cross-splines-means" in {
        part["name"] for part in model.results["chosen_model"]["parts"]
    }
    linear = fit_fully(train, task="g", target="y", base="linear")
    assert model.score(test).score < 0.95 * linear.score(test).score
    # New tasks: the effect of x, and of the mean that x lets expect.
    new = pd.DataFrame({"x": [-1.0, 1.0], "size": 3.0, "g": "new"})
    expected = 2.0 * np.polyfit(train["x"], train["y"], 1)[0]
    assert np.diff(model.predict(new)["prediction"])[0] == pytest.approx(expected, rel=0.1)
    model.save(tmp_path / "model")
    loaded = TableModel.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict(test), model.predict(test))
    names = {one["name"] for one in fit_fully(rest, task="g", target="y").results["models"]}
    assert "cross-splines" in names
    assert not [name for name in names if "means" in name]
