"""What a fit finds: results, coefficients, and how much tasks differ."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from crosslearning.convex.sums.columns import Rotation
from crosslearning.linear import CrossBayesianRidge
from crosslearning.tables import TableModel, fit_table
from crosslearning.tables.differences import coefficient_table, task_differences
from tests.support.tables import classes, shops


def test_results_say_what_was_found(regression):
    found = regression.results
    assert found == json.loads(json.dumps(found, allow_nan=False))
    assert (found["kind"], found["version"], found["title"]) == ("table", 6, "sales by shop")
    assert (found["target_kind"], found["target_rule"]) == ("regression", "numbers with decimals")
    comparison = found["comparison"]
    assert comparison["methods"] == ["pooled", "separate", "cross"]
    assert comparison["labels"] == ["s0", "s1", "s2", "s3"]
    assert [row["task"] for row in found["tasks"]] == ["s0", "s1", "s2", "s3"]
    assert "epsilon" not in found  # no bound was given
    assert found["score"]["baseline"] > -np.mean(comparison["scores"][0]) > 0
    assert len(found["notes"]) == 4
    provenance = found["provenance"]
    assert (found["size"]["rows"], provenance["dropped"], provenance["seed"]) == (120, 0, 0)
    assert provenance["command"] == "a command"
    assert provenance["columns"] == [
        {"name": "price", "type": "number", "levels": 0, "missing": 2},
        {"name": "kind", "type": "category", "levels": 4, "missing": 3},
    ]


def test_a_model_is_shown_in_a_line(regression, tmp_path):
    regression.save(tmp_path / "fit")
    line = repr(regression)
    assert line.startswith("TableModel(target='sales', task='shop', class='")
    assert line.endswith(", n_tasks=4, n_columns=2)")
    assert len(line) < 120
    assert repr(TableModel.load(tmp_path / "fit")) == line


def test_coefficients_are_those_of_standardised_features(regression):
    found, model = regression.results["coefficients"], regression.estimator
    X = regression.encoder.encode(shops())
    standardised = (X - model.feature_mean_) / model.feature_scale_
    (predictor,) = found["predictors"]
    tasks = np.array(predictor["tasks"])[np.arange(120) % 4]
    intercepts = np.array(predictor["intercepts"])[np.arange(120) % 4]
    expected = np.einsum("ij,ij->i", standardised, tasks) + intercepts
    predicted = regression.predict(shops())["prediction"]
    np.testing.assert_allclose(predicted, expected, rtol=1e-6)
    assert len(found["features"]) == len(predictor["center"]) == X.shape[1]


def _listed(model):
    """Listed coefficients, one row per task."""
    listed = model.coefficients.pivot_table("coefficient", "task", "feature")
    return listed[[*model.encoder.feature_names, "(intercept)"]]


def test_listed_coefficients_are_in_the_units_of_the_table(regression):
    """Encoded columns times coefficients plus intercept are predictions, the centre's as well."""
    rows = shops().assign(shop=["unheard of", *shops()["shop"][1:]])
    X = regression.encoder.encode(rows)
    own = _listed(regression).loc[["(centre)", *rows["shop"][1:]]].to_numpy()
    said = np.sum(X * own[:, :-1], axis=1) + own[:, -1]
    np.testing.assert_allclose(said, regression.predict(rows)["prediction"], rtol=1e-10)
    deviations = regression.coefficients["standard_deviation"].to_numpy().reshape(5, -1)
    assert np.isnan(deviations[:, -1]).all()
    estimator = regression.estimator
    np.testing.assert_array_equal(deviations[:-1, :-1], estimator.coef_sd_)
    spread = np.sqrt(np.diag(estimator.center_covariance_))[:-1] / estimator.feature_scale_
    np.testing.assert_allclose(deviations[-1, :-1], spread, rtol=1e-10)


def test_listed_coefficients_of_classes_and_of_axes():
    """Each class has its own; those of a wide table are of its columns, not of their axes."""
    frame = classes(["few", "some", "many"])
    quick = {"base": "linear", "folds": 2, "features": ["price"]}
    model = fit_table(frame, task="shop", target="sales", **quick, epsilon=1.0)
    assert model.coefficients["class"].unique().tolist() == ["few", "many", "some"]
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.normal(size=(40, 50))).add_prefix("x")
    wide = wide.assign(y=wide["x0"], g=np.repeat(list("ab"), 20))
    quick = {"base": "linear", "folds": 2, "family": "gaussian"}
    model = fit_table(wide, task="g", target="y", **quick, epsilon=10.0)
    own = _listed(model).loc[wide["g"]].to_numpy()
    said = np.sum(model.encoder.encode(wide) * own[:, :-1], axis=1) + own[:, -1]
    np.testing.assert_allclose(said, model.predict(wide)["prediction"], rtol=1e-8, atol=1e-8)
    assert model.coefficients["standard_deviation"].isna().all()


def test_a_million_coefficients_are_not_listed(regression, monkeypatch):
    monkeypatch.setattr("crosslearning.tables.differences._MOST_LINES", 20)
    names = regression.encoder.feature_names
    assert coefficient_table(regression.estimator, names) is None


def test_the_spread_of_tasks_is_recovered():
    rng = np.random.default_rng(1)
    tasks = np.repeat(np.arange(100), 30)
    x, z = rng.normal(size=(2, 3000))
    slope = 1 + 0.5 * rng.normal(size=100)
    y = slope[tasks] * x + z + 2 * rng.normal(size=100)[tasks] + rng.normal(size=3000)
    frame = pd.DataFrame({"x": x, "z": z, "y": y, "g": tasks})
    given = {"base": "linear", "family": "gaussian", "folds": 2}
    found = fit_table(frame, task="g", target="y", **given)
    told = found.results["differences"]
    (tasks_differ,) = told["levels"]
    level, x, *others = tasks_differ["shown"]
    assert (tasks_differ["name"], tasks_differ["units"]) == ("g", 100)
    assert level == tasks_differ["level"]
    assert level["low"] < 2 < level["high"]
    assert x["low"] < 0.5 < x["high"]
    assert all(row["sd"] < 0.1 for row in others)
    assert told["noise"] == pytest.approx(1, abs=0.05)
    assert (level["what"], x["what"]) == ("level", "x")
    assert told["unit"] == "y"
    effects = {effect["feature"]: effect for effect in found.results["effects"]}
    line = np.polyfit(effects["x"]["grid"], effects["x"]["center"], 1)
    assert line[0] == pytest.approx(1, abs=0.2)
    assert len(effects["x"]["tasks"]) <= 60


def table_of(*columns):
    """A table with these columns of numbers, as far as differences between tasks need it."""
    encoder = SimpleNamespace(feature_names=list(columns))
    return SimpleNamespace(encoder=encoder, rotation=None, task="g", task_columns=["g"])


def test_a_variance_that_columns_share_is_told_once():
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(30), 20)
    X = rng.normal(size=(600, 3))
    slopes = rng.normal(size=(30, 3))[tasks]
    X[:, 2] = tasks  # constant within tasks
    y = np.sum(slopes[:, :2] * X[:, :2], axis=1) + 2 * slopes[:, 2] + rng.normal(size=600)
    model = CrossBayesianRidge(covariance="block").fit(X, y, tasks=tasks)
    (found,) = task_differences(model, table_of("a", "b", "c"), "y", ["c"]).levels
    level, shared = found.shown
    assert (level.what, shared.what) == ("level", "the effect of every column")
    assert shared.columns == ("a", "b")
    assert shared.low < 1 < shared.high < 1.4  # more certain than one column alone


def test_few_tasks_give_no_interval():
    rng = np.random.default_rng(0)
    tasks = np.repeat([0, 1], 30)
    x = rng.normal(size=60)
    y = x + 5 * tasks + rng.normal(size=60)
    model = CrossBayesianRidge(covariance="levels").fit(x[:, None], y, tasks=tasks)
    (found,) = task_differences(model, table_of("x"), "y", []).levels
    assert found.level.sd > 0
    assert (found.level.low, found.level.high) == (None, None)
    assert [row.what for row in found.shown] == ["level"]


def test_more_columns_than_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 400))
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(400)])
    frame["g"] = np.arange(60) % 3
    frame["y"] = 3 * X[:, 0] + frame["g"] + 0.1 * rng.normal(size=60)
    given = {"task": "g", "target": "y", "folds": 2, "family": "gaussian"}
    model = fit_table(frame, **given, epsilon=100.0)  # one model, no blend
    assert model.rotation is not None
    found = model.results
    (part,) = found["coefficients"]["predictors"]
    assert len(part["center"]) == 400
    again = model.predict(frame.head(3))
    Z = (model.encoder.encode(frame.head(3)) - model.rotation.mean) / model.rotation.scale
    expected = [Z[i] @ np.array(part["tasks"])[i] + part["intercepts"][i] for i in range(3)]
    np.testing.assert_allclose(again["prediction"], expected, rtol=1e-6, atol=1e-6)


def test_axes_are_exact_where_tasks_differ_alike():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(30, 40)), np.arange(30) % 3
    y = X[:, 0] + tasks + rng.normal(size=30)
    rotation = Rotation.of(X, np.ones(30))
    new = X[:5] * 0.7
    plain = CrossBayesianRidge(covariance="block").fit(X, y, tasks=tasks)
    turned = CrossBayesianRidge(covariance="block", standardize=False)
    turned.fit(rotation.apply(X), y, tasks=tasks)
    np.testing.assert_allclose(
        turned.predict(rotation.apply(new), tasks[:5]), plain.predict(new, tasks[:5]), atol=1e-3
    )


def test_axes_count_the_weights_of_rows():
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(200, 400)), rng.integers(0, 4, 200).astype(float)
    X[:, 7] = np.where(weights > 0, 0.1, 50.0)  # constant in the rows that count
    again = Rotation.of(np.repeat(X, weights.astype(int), axis=0), np.ones(int(weights.sum())))
    other = X * np.where(weights > 0, 1.0, 100.0)[:, None]
    for rotation in (Rotation.of(X, weights), Rotation.of(other, weights)):
        np.testing.assert_allclose(rotation.mean, again.mean, rtol=1e-12)
        np.testing.assert_allclose(rotation.scale, again.scale, rtol=1e-12)
        signs = np.sign(np.sum(rotation.axes * again.axes, axis=0))
        np.testing.assert_allclose(signs * rotation.axes, again.axes, atol=1e-9)


def test_rows_without_weight_do_not_turn_the_axes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 80))
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(80)])
    frame = frame.assign(g=np.arange(60) % 3, w=1.0, fold=np.arange(60) // 3 % 3)
    frame["y"] = X[:, :9].sum(axis=1) + frame["g"] + rng.normal(size=60)
    other = frame.assign(w=0.0, y=0.0)
    other.iloc[:, :40] *= 100.0
    given = {"task": "g", "target": "y", "weights": "w", "group": "fold", "family": "gaussian"}
    alone, both = (
        fit_table(table, **given).predict(frame)
        for table in (frame, pd.concat([frame, other], ignore_index=True))
    )
    np.testing.assert_allclose(both, alone, atol=1e-3)


def test_progress_is_told():
    said = []
    quick = {"folds": 2, "family": "gaussian"}
    fit_table(
        shops(), task="shop", target="sales", **quick, progress=lambda *told: said.append(told)
    )
    texts, shares = zip(*said, strict=True)
    assert texts[:2] == ("Looking at the columns", "Trying one pooled model")
    assert texts[-1].startswith("Fitting the best model")
    assert list(shares) == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)


@pytest.mark.slow
def test_processes_find_the_same(regression):
    """With a bar that moves, although other processes do the work."""
    said = []
    model = fit_table(
        shops(), task="shop", target="sales", base="linear", jobs=2,
        progress=lambda *told: said.append(told),
    )  # fmt: skip
    scores = [{m["name"]: m["score"] for m in fit.results["models"]} for fit in (model, regression)]
    assert scores[0] == scores[1]
    assert "jobs=2" in model.results["python"]
    assert ("Trying common slopes, a level per task", 0.1) in said
