"""Curves and boosted trees on tables, and what there is no time for."""

import subprocess
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest

from crosslearning.tables import TableModel, fit_table
from crosslearning.tables.learners.search import Bases, CrossValidation
from crosslearning.tables.rows import NotFittedError, Rows
from crosslearning.tasks.folds import divide

# However busy the machine is: what there is no time for is not tried.
fit_fully = partial(fit_table, time_budget=np.inf)


def curved(seed=0, tasks=8, rows=40, step=False):
    """Tasks with one bend in common; an interaction that no curve has, if asked for."""
    rng = np.random.default_rng(seed)
    n = tasks * rows
    x, z, g = rng.uniform(-2, 2, n), rng.uniform(-2, 2, n), np.arange(n) % tasks
    y = (4.0 * ((x > 0) ^ (z > 0)) if step else x**2) + 0.3 * g + 0.3 * rng.normal(size=n)
    return pd.DataFrame({"x": x, "z": z, "g": [f"t{k}" for k in g], "y": y})


def test_the_deviance_of_counts_implies_models_of_counts():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"g": np.arange(100) % 5, "x": rng.normal(size=100)})
    frame["y"] = rng.poisson(np.exp(4.0 + 0.3 * frame["x"]))  # large: not taken for counts
    given = {"task": "g", "target": "y", "base": "linear", "folds": 2}
    usual = fit_table(frame, **given).results
    asked = fit_table(frame, **given, metric="poisson-deviance").results
    assert not any("poisson" in one["name"] for one in usual["models"])
    families = ("poisson", "negative-binomial", "blend")
    assert all(one["name"].endswith(families) for one in asked["models"])
    assert asked["target_rule"] == "poisson, as the metric implies"


@pytest.mark.parametrize(
    ("metric", "family", "y", "problem"),
    [
        ("poisson-deviance", "auto", [-1, 2, 3], "metric poisson-deviance needs targets at least"),
        ("poisson-deviance", "gaussian", [-1, 2, 3], "has -1. Choose another metric"),
        ("gamma-deviance", "auto", [0, 2, 3], "gamma-deviance needs targets above 0"),
        (None, "gamma", [0, 2, 3], "A gamma model needs targets above 0"),
        ("poisson-deviance", "auto", ["a", "b", "c"], "log-loss.*is for regression"),
    ],
)
def test_targets_that_a_metric_has_no_value_for_are_refused(metric, family, y, problem):
    frame = pd.DataFrame({"g": np.arange(30) % 5, "x": np.arange(30.0), "y": y * 10})
    with pytest.raises(ValueError, match=problem):
        fit_table(frame, task="g", target="y", metric=metric, family=family)


@pytest.mark.parametrize(
    "step",
    [pytest.param(False, id="curves"), pytest.param(True, id="trees")],
)
@pytest.mark.slow
def test_what_is_not_linear_is_learned_saved_and_loaded(tmp_path, step):
    frame, new = curved(step=step), curved(1, step=step)
    linear = fit_fully(frame, task="g", target="y", base="linear")
    model = fit_fully(frame, task="g", target="y")
    bases = {
        name.split("-")[-1] for name in (p["name"] for p in model.results["chosen_model"]["parts"])
    }
    assert bases & ({"trees"} if step else {"splines"})
    assert model.score(new).score < 0.5 * linear.score(new).score
    said = model.predict(new)
    inside = (said["lower"] <= new["y"]) & (new["y"] <= said["upper"])
    assert inside.mean() == pytest.approx(0.9, abs=0.06)
    model.save(tmp_path / "model")
    loaded = TableModel.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict(new), said)
    code = f"""
import sys
from crosslearning.tables import TableModel
import pandas as pd
model = TableModel.load({str(tmp_path / "model")!r})
print(len(model.predict(pd.DataFrame({{"x": [0.1], "z": [9.0], "g": ["new"]}}))))
unneeded = {{"skops", "torch"}} if {step} else {{"lightgbm", "sklearn", "skops", "torch"}}
assert not unneeded & set(sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "1\n"


def test_no_model_extrapolates_wildly(tmp_path):
    frame = curved()
    model = fit_fully(frame, task="g", target="y", base="splines", family="gaussian", folds=2)
    far = pd.DataFrame({"x": [1e3, -1e3], "z": [2.0, 2.0], "g": ["t1", "new"]})
    half = 0.5 * np.ptp(frame["y"])
    said = model.predict(far)
    np.testing.assert_allclose(said["prediction"], frame["y"].max() + half)
    model.save(tmp_path / "model")
    pd.testing.assert_frame_equal(TableModel.load(tmp_path / "model").predict(far), said)


def test_what_there_is_no_time_for_is_not_tried():
    found = fit_table(curved(), task="g", target="y", time_budget=1e-9).results
    names = {model["name"] for model in found["models"]}
    assert names == {"pooled"}
    (note,) = (note for note in found["notes"] if note.startswith("no time for"))
    assert note.startswith("no time for common slopes, a level per task (and ")
    nothing = "Nothing can be said about sharing: no model that shares was fitted."
    assert found["sentence"].endswith(nothing)
    assert note.endswith("a larger option time_budget tries them")
    for budget in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="Option time_budget must be a positive"):
            fit_table(curved(), task="g", target="y", time_budget=budget)
    with pytest.raises(ValueError, match="Option base must be one of auto, linear, splines"):
        fit_fully(curved(), task="g", target="y", base="trees")


@pytest.mark.slow
@pytest.mark.parametrize("labels", [["a", "b"], ["a", "b", "c"]])
def test_classes_on_trees(labels, tmp_path):
    frame = curved(rows=60, step=True)
    cut = np.quantile(frame["y"], np.linspace(0, 1, len(labels) + 1)[1:-1])
    frame["y"] = np.array(labels)[np.searchsorted(cut, frame["y"])]
    model = fit_fully(frame, task="g", target="y", base="boosting")
    linear = fit_fully(frame, task="g", target="y", base="linear")
    assert model.results["models"][0]["score"] < 0.8 * linear.results["models"][0]["score"]
    said = model.predict(frame.drop(columns="y"))
    shares = said[[f"probability_{label}" for label in labels]]
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    model.save(tmp_path / "model")
    pd.testing.assert_frame_equal(TableModel.load(tmp_path / "model").predict(frame), said)


@pytest.mark.slow
def test_time_and_groups_with_trees():
    frame = curved(step=True).assign(year=np.repeat(np.arange(2000, 2010), 32))
    fast = {"task": "g", "target": "y", "base": "boosting", "folds": 3}
    later = fit_fully(frame, **fast, time="year").results
    assert later["models"][0]["score"] < 1.0
    wards = fit_fully(frame.rename(columns={"year": "ward"}), **fast, group="ward")
    assert wards.results["models"][0]["score"] < 1.0


@pytest.mark.slow
def test_counts_on_trees_and_a_held_out_table():
    rng = np.random.default_rng(0)
    frame, new = curved(step=True), curved(1, step=True)
    for part in (frame, new):
        part["y"] = rng.poisson(np.exp(0.5 * part["y"].clip(upper=5.0)))
    fast = {"metric": "poisson-deviance", "base": "boosting", "folds": 3}
    model = fit_fully(frame, task="g", target="y", **fast, held_out=new)
    score = model.results["holdout"]["score"]
    assert score == pytest.approx(model.score(new).score, rel=1e-6)
    linear = fit_fully(frame, task="g", target="y", **fast | {"base": "linear"})
    assert score < 0.9 * linear.score(new).score


def test_a_model_that_cannot_be_fitted_is_left_out_and_a_note_says_why(monkeypatch):
    fit = CrossValidation._model

    def failing(self, candidate, *rest):
        if candidate.base == "splines":
            raise NotFittedError("it is tired")
        return fit(self, candidate, *rest)

    monkeypatch.setattr(CrossValidation, "_model", failing)
    quick = {"folds": 2, "family": "gaussian"}
    results = fit_fully(curved(), task="g", target="y", base="splines", **quick).results
    assert all("splines" not in model["name"] for model in results["models"])
    (note,) = (note for note in results["notes"] if note.startswith("left out"))
    assert note.startswith("left out, since it is tired: one pooled model with curves (and 2 more)")


def test_two_folds_are_enough_for_trees():
    quick = {"folds": 2, "family": "gaussian", "base": "boosting"}
    results = fit_fully(curved(step=True), task="g", target="y", **quick).results
    assert any("trees" in model["name"] for model in results["models"])


def test_a_bound_is_kept_by_what_is_kept():
    given = {"task": "g", "target": "y", "base": "linear", "family": "gaussian", "folds": 2}
    for epsilon in (0.0, 0.1):
        results = fit_fully(curved(), **given, epsilon=epsilon).results
        (chosen,) = (model for model in results["models"] if model["chosen"])
        assert chosen["kind"] in ("pooled", "cross")
        assert {"separate", "levels"} <= {model["kind"] for model in results["models"]}


def test_other_errors_are_not_hidden(monkeypatch):
    def failing(*_):
        raise ValueError("a fault")

    monkeypatch.setattr(CrossValidation, "_model", failing)
    with pytest.raises(ValueError, match="a fault"):
        fit_fully(curved(), task="g", target="y", base="linear")


def test_bases_that_would_take_long_are_not_tried_unless_asked_for():
    rng = np.random.default_rng(0)
    codes, X = np.arange(900) % 60, rng.normal(size=(900, 4))
    rows = Rows(X, rng.integers(0, 5, 900), codes, 60, None, np.arange(5))
    splits = divide(codes, 3, 0)
    tried, asked = (Bases(rows, splits, base, "gaussian", 0) for base in ("auto", "splines"))
    assert "means" in tried.blocks
    assert "splines" not in tried.blocks
    assert list(asked.blocks) == ["splines", "splines-means"]
