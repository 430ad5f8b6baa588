"""A table in, a model out: what it finds, predicts, saves and refuses."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest

from crosslearning.evaluation.records import from_json
from crosslearning.linear import CrossBayesianRidge
from crosslearning.linear.persistence import model_of
from crosslearning.tables import TableModel, check_folder, fit_table, predict_table
from crosslearning.tables.findings import Findings
from crosslearning.tables.learners.features import Rotation
from crosslearning.tables.parameters import coefficient_table
from crosslearning.tables.splits import splits_of
from crosslearning.tables.spread import spread
from tests.support.tables import shops

FILES = ["coefficients.csv", "model.npz", "results.json"]


def classes(names):
    """The shops with sales in that many classes."""
    frame = shops()
    frame["sales"] = pd.qcut(frame["sales"], len(names), labels=names).astype(str)
    return frame


@pytest.fixture(scope="module")
def regression():
    return fit_table(shops(), task="shop", target="sales", base="linear", command="a command")


@pytest.fixture(scope="module")
def binary():
    return fit_table(classes(["few", "many"]), task="shop", target="sales", base="linear")


def test_results_say_what_was_found(regression):
    found = regression.results
    assert found == json.loads(json.dumps(found, allow_nan=False))
    assert (found["kind"], found["version"], found["title"]) == ("table", 3, "sales by shop")
    assert (found["target_kind"], found["target_rule"]) == ("regression", "numbers with decimals")
    methods = [row["method"] for row in found["comparison"]["overall"]]
    assert methods == ["pooled", "separate", "cross"]
    assert [row["task"] for row in found["tasks"]] == ["s0", "s1", "s2", "s3"]
    assert "chosen" not in found  # no bound was given
    assert found["score"]["baseline"] > found["comparison"]["overall"][0]["score"] > 0
    assert len(found["notes"]) == 4
    provenance = found["provenance"]
    assert (provenance["rows"], provenance["dropped"], provenance["seed"]) == (120, 0, 0)
    assert found["command"] == provenance["command"] == "a command"
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


def test_headline_list_and_saved_model_agree(regression):
    """One number for the model that is saved, wherever it is told."""
    found = regression.results
    scores = [model["score"] for model in found["models"]]
    assert scores == sorted(scores)
    chosen = found["models"][0]
    assert chosen["chosen"]
    assert sum(model["chosen"] for model in found["models"]) == 1
    assert chosen["name"] == found["chosen_model"]["name"]
    assert found["score"]["nested"] == pytest.approx(found["comparison"]["overall"][-1]["score"])
    assert chosen["score"] == pytest.approx(found["typical_error"]["value"] ** 2)
    structure = {"cross": "auto"}.get(chosen["name"], chosen["name"])
    assert regression.state["parameters"]["covariance"] == structure
    assert found["chosen_model"]["parts"][0] == {
        "name": chosen["name"],
        "label": chosen["label"],
        "weight": 1.0,
    }
    ends = {"pooled", "cross", "separate"}
    assert ends | {"levels"} | {f"{end}-robust" for end in ends} == {
        m["name"] for m in found["models"]
    } - {"blend"}
    assert "choosing the model without the rows" in found["score"]["explanation"]


def tasks_alike(seed, tasks=12, rows=20):
    """Tasks that do not differ at all."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=tasks * rows)
    y = x + rng.normal(size=len(x))
    return pd.DataFrame({"x": x, "y": y, "g": np.arange(len(x)) % tasks})


def test_labels_that_mean_nothing_do_not_help():
    """At most one in twenty of such tables may say that sharing helps beyond one model."""
    wrong = 0
    for seed in range(40):
        base = "linear" if seed % 4 else "splines"  # which take longer
        found = fit_table(tasks_alike(seed), task="g", target="y", base=base).results
        wrong += found["comparison"]["effect"] in ("helps", "differ")
    assert wrong <= 2


def test_curves_in_a_wide_table_are_not_credited_to_random_groups():
    """With 14 columns curves have more coefficients than tasks are tried with by themselves."""
    wrong = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(200, 14))
        y = 20 * (X[:, 0] - 0.5) ** 2 + 3 * np.sin(6 * X[:, 1]) + X[:, 2] + rng.normal(size=200)
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(14)]).assign(y=y)
        frame["g"] = rng.integers(12, size=200).astype(str)
        results = fit_table(frame, task="g", target="y", base="splines").results
        assert results["beyond_linear"].startswith("With curves")
        wrong += results["comparison"]["effect"] in ("helps", "differ")
    assert wrong <= 1


def test_pooled_is_saved_where_it_is_best():
    for seed in range(10):
        model = fit_table(tasks_alike(seed), task="g", target="y", base="linear")
        if model.results["chosen_model"]["name"] == "pooled":
            break
    frame = tasks_alike(seed)
    assert model.results["sentence"].startswith("One model for all is best here")
    said = model.predict(frame.head(1).assign(g=[0]))["prediction"]
    other = model.predict(frame.head(1).assign(g=[5]))["prediction"]
    assert said[0] == pytest.approx(other[0], abs=1e-12)


def test_tasks_that_have_nothing_in_common_have_models_of_their_own():
    rng = np.random.default_rng(7)
    frame = tasks_alike(0, tasks=4, rows=80)
    slopes = np.array([30.0, -1.0, 0.0, -0.3])[frame["g"]]
    frame["y"] = slopes * frame["x"] + 0.1 * rng.normal(size=len(frame))
    model = fit_table(frame, task="g", target="y", base="none")
    coef = model.estimator.coef_[:, 0]
    np.testing.assert_allclose(coef, [30.0, -1.0, 0.0, -0.3], atol=0.05)


def test_coefficients_are_those_of_standardised_features(regression):
    found, model = regression.results["coefficients"], regression.estimator
    X = regression.encoder.encode(shops())
    standardised = (X - model.feature_mean_) / model.feature_scale_
    (predictor,) = found["predictors"]
    tasks = np.array(predictor["tasks"])[np.arange(120) % 4]
    intercepts = np.array(predictor["intercept"]["tasks"])[np.arange(120) % 4]
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
    model = fit_table(frame, task="shop", target="sales", base="linear", epsilon=1.0)
    assert model.coefficients["class"].unique().tolist() == ["few", "many", "some"]
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.normal(size=(40, 50))).add_prefix("x")
    wide = wide.assign(y=wide["x0"], g=np.repeat(list("ab"), 20))
    model = fit_table(wide, task="g", target="y", base="linear", epsilon=10.0)
    own = _listed(model).loc[wide["g"]].to_numpy()
    said = np.sum(model.encoder.encode(wide) * own[:, :-1], axis=1) + own[:, -1]
    np.testing.assert_allclose(said, model.predict(wide)["prediction"], rtol=1e-8, atol=1e-8)
    assert model.coefficients["standard_deviation"].isna().all()


def test_a_million_coefficients_are_not_listed(regression, monkeypatch):
    monkeypatch.setattr("crosslearning.tables.parameters._MOST_LINES", 20)
    names = regression.encoder.feature_names
    assert coefficient_table(regression.estimator, names) is None


def test_predictions_are_those_of_the_estimator(regression, binary):
    frame = shops()
    new = pd.concat([frame.head(8), frame.head(2).assign(shop="new")])
    X, codes = regression.encode(new)
    assert (codes < 0).tolist() == [False] * 8 + [True] * 2
    labels = new["shop"].to_numpy()
    mean, sd = regression.estimator.predict(X, tasks=labels, return_std=True)
    said = regression.predict(new)
    np.testing.assert_allclose(said["prediction"], mean)
    seen = codes >= 0
    np.testing.assert_allclose(said["std"], regression.residuals.std(mean, sd, seen))
    np.testing.assert_allclose(said["std"], sd, rtol=0.05)  # which is right in this table
    assert said["std"].iloc[8] > said["std"].iloc[0]  # how much tasks differ is added
    X = binary.encode(new)[0]
    parts = binary.state.get("parts", [(1.0, None, binary.state)])  # a blend, or one model
    shares = sum(weight * model_of(s).predict_proba(X, tasks=labels) for weight, _, s in parts)
    np.testing.assert_allclose(binary.predict(new).iloc[:, 1:], shares, atol=1e-12)


def test_intervals_hold_as_often_as_they_say():
    rng = np.random.default_rng(3)
    tasks = np.arange(3000) % 30
    x = rng.normal(size=3000)
    y = x + rng.normal(size=30)[tasks] + rng.standard_t(4, size=3000)
    frame = pd.DataFrame({"x": x, "y": y, "g": tasks})
    model = fit_table(frame.iloc[:1500], task="g", target="y", base="linear")
    for coverage in (0.5, 0.9):
        said = model.predict(frame.iloc[1500:], coverage=coverage)
        inside = (said["lower"] <= y[1500:]) & (y[1500:] <= said["upper"])
        assert inside.mean() == pytest.approx(coverage, abs=0.03)
    for point in model.results["calibration"]:
        assert point["observed"] == pytest.approx(point["nominal"], abs=0.03)
    with pytest.raises(ValueError, match="`coverage` must lie between 0 and 1; got 90"):
        model.predict(frame, coverage=90)


def test_the_spread_of_tasks_is_recovered():
    rng = np.random.default_rng(1)
    tasks = np.repeat(np.arange(100), 30)
    x, z = rng.normal(size=(2, 3000))
    slope = 1 + 0.5 * rng.normal(size=100)
    y = slope[tasks] * x + z + 2 * rng.normal(size=100)[tasks] + rng.normal(size=3000)
    frame = pd.DataFrame({"x": x, "z": z, "y": y, "g": tasks})
    found = fit_table(frame, task="g", target="y", base="linear")
    told = found.results["spread"]
    features = {row["feature"]: row for row in told["features"]}
    assert told["level"]["low"] < 2 < told["level"]["high"]
    assert features["x"]["low"] < 0.5 < features["x"]["high"]
    assert features["z"]["sd"] < 0.1
    assert told["noise"]["sd"] == pytest.approx(1, abs=0.05)
    assert [row["what"] for row in told["shown"][:2]] == ["level", "x"]
    assert told["unit"] == "y"
    assert told["epsilon"] is None
    effects = {effect["feature"]: effect for effect in found.results["effects"]}
    line = np.polyfit(effects["x"]["grid"], effects["x"]["center"], 1)
    assert line[0] == pytest.approx(1, abs=0.2)
    assert len(effects["x"]["tasks"]) <= 60


def test_a_variance_that_columns_share_is_told_once():
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(30), 20)
    X = rng.normal(size=(600, 3))
    slopes = rng.normal(size=(30, 3))[tasks]
    X[:, 2] = tasks  # constant within tasks
    y = np.sum(slopes[:, :2] * X[:, :2], axis=1) + 2 * slopes[:, 2] + rng.normal(size=600)
    model = CrossBayesianRidge(covariance="block").fit(X, y, tasks=tasks)
    found = spread(model, ["a", "b", "c"], None, "y", ["c"])
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
    found = spread(model, ["x"], None, "y", [])
    assert found.level.sd > 0
    assert (found.level.low, found.level.high) == (None, None)
    assert [row.what for row in found.shown] == ["level"]


def test_a_bound_counts_standard_deviations_of_the_tasks():
    rng = np.random.default_rng(1)
    tasks = np.repeat(np.arange(60), 12)
    x = rng.normal(size=720)
    slope = 1 + 0.7 * rng.normal(size=60)
    y = slope[tasks] * x + 2 * rng.normal(size=60)[tasks] + 2 * rng.normal(size=720)
    frame = pd.DataFrame({"x": x, "y": y, "g": tasks})
    found = fit_table(frame, task="g", target="y", epsilon=2.0, base="linear").results
    assert found["chosen_model"]["name"] in ("cross", "robust")
    assert found["chosen"]["all"]["epsilon"] == found["spread"]["epsilon"] == 2.0
    assert max(task["distance"]["all"] for task in found["tasks"]) <= 2.0 + 1e-6


def guess_of_shares(frame):
    """Log loss, mean over shops, of the shares of the classes among the rows learned from."""
    y, codes = frame["sales"].to_numpy(), frame["shop"].str[1:].astype(int).to_numpy()
    losses = np.empty(len(frame))
    for train, test in splits_of(codes, 5, 0, classes=y).parts:
        shares = pd.Series(y[train]).value_counts(normalize=True)
        losses[test] = -np.log(shares[y[test]])
    return pd.Series(losses).groupby(codes).mean().mean()


def test_two_classes(binary):
    found = binary.results
    assert (found["target_kind"], found["estimator"]) == (
        "classification",
        "CrossBayesianLogisticRegression",
    )
    assert found["score"]["name"] == "log loss"
    assert found["score"]["baseline"] == pytest.approx(guess_of_shares(classes(["few", "many"])))
    assert [part["class"] for part in found["coefficients"]["predictors"]] == ["many"]
    assert found["typical_error"]["what"] == "percent correct"
    assert 50 < found["typical_error"]["value"] <= 100
    predicted = binary.predict(shops())
    assert list(predicted) == ["prediction", "probability_few", "probability_many"]
    np.testing.assert_allclose(predicted.iloc[:, 1:].sum(axis=1), 1)
    likely = np.where(predicted["probability_many"] > 0.5, "many", "few")
    assert predicted["prediction"].tolist() == likely.tolist()


def test_three_classes():
    frame = classes(["a", "b", "c"])
    given = {"task": "shop", "target": "sales", "features": ["price"]}
    found = fit_table(frame, **given, base="linear").results
    assert [part["class"] for part in found["coefficients"]["predictors"]] == ["a", "b", "c"]
    centers = [part["center"] for part in found["coefficients"]["predictors"]]
    np.testing.assert_allclose(np.sum(centers, axis=0), 0, atol=1e-9)


def test_counts_are_counts():
    frame = shops()
    rng = np.random.default_rng(0)
    frame["sales"] = rng.poisson(np.exp(0.5 * frame["price"].fillna(0)))
    model = fit_table(frame, task="shop", target="sales", features=["price"], base="linear")
    assert model.results["family"] == "poisson"
    assert {"cross", "cross-poisson"} <= {m["name"] for m in model.results["models"]}
    asked = fit_table(frame, task="shop", target="sales", features=["price"], family="poisson")
    assert all("poisson" in m["name"] for m in asked.results["models"])
    said = asked.predict(frame)
    assert (said["lower"] >= 0).all()
    assert (said["lower"] % 1 == 0).all()


@pytest.mark.parametrize(
    ("metric", "words"), [("mae", "mean absolute error"), ("gamma-deviance", "gamma deviance")]
)
def test_metrics_of_numbers(metric, words):
    frame = shops()
    frame["sales"] = np.exp(0.1 * frame["sales"])
    found = fit_table(frame, task="shop", target="sales", metric=metric).results
    assert found["score"]["name"] == words
    assert found["models"][0]["score"] > 0


@pytest.mark.parametrize("metric", ["accuracy", "auc"])
def test_metrics_of_classes(metric):
    frame = classes(["few", "many"])
    found = fit_table(frame, task="shop", target="sales", metric=metric, base="linear").results
    assert found["score"]["greater_is_better"]
    scores = [model["score"] for model in found["models"]]
    assert scores == sorted(scores, reverse=True)
    assert 0.5 < scores[0] <= 1


def drifting():
    """A panel whose level moves on."""
    rng = np.random.default_rng(0)
    year, firm = np.repeat(np.arange(1980, 2000), 10), np.tile(np.arange(10), 20)
    walk = np.cumsum(rng.normal(size=(20, 10)), axis=0)
    return pd.DataFrame({"year": year, "firm": firm, "y": walk[year - 1980, firm]})


def test_time_is_noticed_and_can_be_respected():
    frame = drifting()
    random = fit_table(frame, task="firm", target="y", base="linear")
    assert any("column year looks like a time" in note for note in random.results["notes"])
    later = fit_table(frame, task="firm", target="y", time="year", base="linear")
    assert not any("looks like a time" in note for note in later.results["notes"])
    words = "with a later year than the training rows, by at most 3"
    assert words in later.results["score"]["explanation"]
    assert later.results["horizon"] == {
        "column": "year",
        "date": False,
        "reach": "3",
        "until": 2002,
    }
    new = frame.tail(10).assign(year=[1999, 2000, 2001, 2002] + [2003] * 6)
    assert later.untested(new) == {"rows": 6, "column": "year", "until": "2002"}
    assert later.untested(frame) is None
    assert random.untested(new) is None
    assert later.results["models"][0]["score"] > 1.5 * random.results["models"][0]["score"]


def test_a_bound_leaves_the_rivals_as_they_are():
    scores = {}
    for epsilon in (0.0, np.inf):
        found = fit_table(
            shops(), task="shop", target="sales", base="linear", features=["price"], epsilon=epsilon
        ).results
        scores[epsilon] = {model["name"]: model["score"] for model in found["models"]}
    for name in ("pooled", "levels", "separate"):
        assert scores[0.0][name] == scores[np.inf][name]
    assert scores[0.0]["cross"] == pytest.approx(scores[0.0]["pooled"], rel=0.05)


def test_a_guess_knows_no_more_than_the_models():
    frame = drifting()
    found = fit_table(frame, task="firm", target="y", time="year", base="linear").results
    splits = splits_of(np.zeros(len(frame), dtype=int), 5, 0, time=frame["year"])
    errors = pd.Series(np.nan, index=frame.index)
    for train, test in splits.parts:
        errors.iloc[test] = (frame["y"].iloc[test] - frame["y"].iloc[train].mean()) ** 2
    expected = errors.groupby(frame["firm"]).mean().mean()
    assert found["score"]["baseline"] == pytest.approx(expected)


def test_few_rows_of_noise_do_no_worse_than_class_frequencies():
    """However many columns there are to be misled by; separate models suffer most."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(72, 8))).add_prefix("x")
    frame = frame.assign(g=np.arange(72) % 6, y=rng.choice(list("abc"), 72))
    found = fit_table(frame, task="g", target="y", base="linear").results
    scores = {model["name"]: model["score"] for model in found["models"]}
    assert found["models"][0]["score"] < 1.01 * found["score"]["baseline"]
    assert scores["separate"] < 1.15 * found["score"]["baseline"]
    assert "does not help beyond" in found["sentence"]


def test_nothing_to_learn_is_said():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(30, 3))).add_prefix("x").assign(g=np.arange(30) % 3)
    frame["y"] = rng.normal(size=30)
    found = fit_table(frame, task="g", target="y", base="linear").results
    assert found["models"][0]["score"] > found["score"]["baseline"]
    assert found["sentence"].startswith("No model is better than predicting the training mean, ")


def test_a_slip_in_a_target_of_numbers_is_named():
    frame = shops()
    frame["sales"] = frame["sales"].astype(object)
    frame.loc[4, "sales"] = "many"
    with pytest.raises(ValueError, match="'many' in 1 row: 5"):
        fit_table(frame, task="shop", target="sales", features=["price"], base="linear")


def test_splits_by_time_never_look_ahead():
    dates = pd.Series(pd.date_range("2020", periods=100)).dt.strftime("%d.%m.%Y").sample(frac=1)
    when = pd.to_datetime(dates, dayfirst=True).to_numpy()
    splits = splits_of(np.arange(100) % 5, 5, 0, time=dates)
    assert len(splits.parts) == 5
    for train, test in splits.parts:
        assert when[train].max() < when[test].min()
    assert sorted(np.concatenate([test for _, test in splits.parts])) == sorted(
        np.flatnonzero(when >= np.sort(when)[49])
    )


def test_groups_are_left_out_as_a_whole():
    group = pd.Series([f"g{i % 13}" for i in range(130)], name="team")
    splits = splits_of(np.arange(130) % 5, 5, 0, group=group)
    for train, test in splits.parts:
        assert not set(group[train]) & set(group[test])
    assert sum(len(test) for _, test in splits.parts) == 130
    found = fit_table(shops().assign(team=group[:120]), task="shop", target="sales", group="team")
    assert "team" not in found.encoder.columns
    assert "rows with a held-out team" in found.results["score"]["explanation"]


def test_rows_of_another_table_score_every_model(regression):
    other = shops(80, 5, seed=1)
    model = fit_table(shops(), task="shop", target="sales", base="linear", held_out=other)
    found, folds = model.results, {row["name"]: row for row in regression.results["models"]}
    assert found["holdout"]["rows"] == 80
    said = model.predict(other)["prediction"]
    errors = ((other["sales"] - said) ** 2).groupby(other["shop"]).mean()
    for row in found["models"]:
        assert row["score"] == found["holdout"]["scores"][row["name"]]
        assert row["folds"] == folds[row["name"]]["score"]
    (chosen,) = (row for row in found["models"] if row["chosen"])
    assert chosen["name"] == regression.results["chosen_model"]["name"]
    assert chosen["score"] == pytest.approx(errors.mean())
    assert chosen["score"] == pytest.approx(found["typical_error"]["value"] ** 2)
    assert [row["task"] for row in found["comparison"]["tasks"]] == sorted(errors.index)
    assert "n the held-out table, " in found["sentence"]
    assert "on the 80\N{NO-BREAK SPACE}rows of the held-out table" in found["score"]["explanation"]


def test_a_held_out_table_is_weighted_if_it_has_the_weights():
    frame, other = shops().assign(w=1.0), shops(80, 5, seed=1)
    given = {"task": "shop", "target": "sales", "features": ["price"], "base": "linear"}
    weights = np.random.default_rng(0).uniform(size=80)
    plain, equal, weighted = (
        fit_table(frame, **given, weights="w", held_out=table)
        for table in (other, other.assign(w=3.0), other.assign(w=weights))
    )
    note = "the held-out table has no column w: its rows have equal weights"
    assert [note in model.results["notes"] for model in (plain, equal, weighted)] == [1, 0, 0]
    assert equal.results["holdout"]["scores"] == pytest.approx(plain.results["holdout"]["scores"])
    errors = weights * (other["sales"] - weighted.predict(other)["prediction"]) ** 2
    sums = pd.DataFrame({"e": errors, "w": weights}).groupby(other["shop"]).sum()
    scores, name = weighted.results["holdout"]["scores"], weighted.results["chosen_model"]["name"]
    assert scores[name] == pytest.approx((sums["e"] / sums["w"]).mean())
    assert weighted.results["holdout"]["rows"] == 80
    told, few = frame.assign(w=["1.000,5", "2.000,0"] * 60), {"3.125": 3.125, "20": 0.02}
    written, read = (
        fit_table(told, **given, weights="w", held_out=other.assign(w=list(values) * 40)).results
        for values in (few, few.values())
    )
    assert written["holdout"]["scores"] == pytest.approx(read["holdout"]["scores"])
    with pytest.raises(ValueError, match="weights in 'w' must be at least 0 in every row"):
        fit_table(frame, **given, weights="w", held_out=other.assign(w=-1.0))


def test_a_held_out_table_that_cannot_be_scored_is_named():
    frame = shops().assign(sold=lambda table: np.where(table["sales"] > 0, "much", "little"))
    given = {"task": "shop", "features": ["price"], "base": "linear"}
    with pytest.raises(ValueError, match=r"squared error: it has 0.rows with a target. Hold"):
        fit_table(frame, **given, target="sales", held_out=frame.assign(sales=np.nan))
    with pytest.raises(ValueError, match=r"held-out table .* under the curve.* too few classes"):
        fit_table(
            frame, **given, target="sold", metric="auc", held_out=frame[frame["sold"] == "much"]
        )


def test_weights_count_rows():
    frame = shops().fillna({"price": 0.0, "kind": "tea"})
    twice = fit_table(frame.assign(w=1.0 + (frame["shop"] == "s0")), task="shop", target="sales",
                      features=["price"], weights="w", base="linear")  # fmt: skip
    plain = fit_table(frame, task="shop", target="sales", features=["price"], base="linear")
    assert twice.estimator.noise_sd_ != pytest.approx(plain.estimator.noise_sd_, rel=1e-6)
    with pytest.raises(ValueError, match="weights in 'w' must be at least 0 in every row"):
        fit_table(frame.assign(w=-1.0), task="shop", target="sales", weights="w")


def test_blanks_around_labels_do_not_make_tasks():
    frame = shops()
    frame.loc[frame.index[::7], "shop"] += " "
    model = fit_table(frame, task="shop", target="sales", base="linear")
    assert len(model.results["tasks"]) == 4
    assert model.unknown_tasks(frame) == {}


def test_rows_without_a_label_can_be_dropped():
    frame = shops()
    frame.loc[[3, 9], "shop"] = None
    found = fit_table(
        frame, task="shop", target="sales", drop_unlabelled=True, base="linear"
    ).results
    assert found["provenance"]["dropped"] == 2


def test_more_columns_than_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 400))
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(400)])
    frame["g"] = np.arange(60) % 3
    frame["y"] = 3 * X[:, 0] + frame["g"] + 0.1 * rng.normal(size=60)
    model = fit_table(frame, task="g", target="y", epsilon=100.0)  # one model, no blend
    assert model.rotation is not None
    found = model.results
    (part,) = found["coefficients"]["predictors"]
    assert len(part["center"]) == len(found["spread"]["features"]) == 400
    again = model.predict(frame.head(3))
    Z = (model.encoder.encode(frame.head(3)) - model.rotation.mean) / model.rotation.scale
    expected = [Z[i] @ np.array(part["tasks"])[i] + part["intercept"]["tasks"][i] for i in range(3)]
    np.testing.assert_allclose(again["prediction"], expected, rtol=1e-6, atol=1e-6)


def test_axes_are_exact_where_tasks_differ_alike():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(30, 40)), np.arange(30) % 3
    y = X[:, 0] + tasks + rng.normal(size=30)
    rotation = Rotation.of(X)
    new = X[:5] * 0.7
    plain = CrossBayesianRidge(covariance="block").fit(X, y, tasks=tasks)
    turned = CrossBayesianRidge(covariance="block", standardize=False)
    turned.fit(rotation.apply(X), y, tasks=tasks)
    np.testing.assert_allclose(
        turned.predict(rotation.apply(new), tasks[:5]), plain.predict(new, tasks[:5]), atol=1e-3
    )


def test_rows_without_a_target_are_left_out_and_counted(regression):
    frame = shops()
    gaps = pd.concat([frame, frame.head(7).assign(sales=np.nan, shop=None)])
    found = fit_table(gaps, task="shop", target="sales", base="linear").results
    assert found["notes"][0] == "7 rows without a target left out"
    assert found["provenance"]["dropped"] == 7
    same = regression.results
    assert found["chosen_model"] == same["chosen_model"]
    assert found["provenance"]["fingerprint"] == same["provenance"]["fingerprint"]


def test_a_task_with_one_row():
    frame = shops()
    frame.loc[0, "shop"] = "lonely"
    model = fit_table(frame, task="shop", target="sales", base="linear")
    rows = {task["task"]: task for task in model.results["comparison"]["tasks"]}
    assert rows["lonely"]["rows"] == 1
    assert np.isfinite(rows["lonely"]["separate"])


def test_labels_of_any_kind_can_be_told_and_saved(tmp_path):
    frame = shops()
    frame["shop"] = pd.to_datetime("2024-01-01") + pd.to_timedelta(np.arange(120) % 4, unit="D")
    model = fit_table(frame, task="shop", target="sales", base="linear")
    assert model.results["tasks"][0]["task"] == "2024-01-01 00:00:00"
    model.save(tmp_path / "fit")
    assert TableModel.load(tmp_path / "fit").unknown_tasks(frame) == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "shops"}, "no column 'shops' for the task. Did you mean 'shop'"),
        ({"target": "sale"}, "no column 'sale' for the target"),
        ({"target": "shop"}, "Task and target must be two columns; got 'shop' for both"),
        ({"target": "day"}, "dates"),
        ({"epsilon": -1.0}, "`epsilon` is a distance and must be at least 0; got -1"),
        ({"epsilon": float("nan")}, "got nan"),
        ({"folds": 1}, "`folds` must be at least 2; got 1"),
        ({"metric": "log-loss"}, "`metric` must be one of mse, mae, .* for regression"),
        ({"time": "when"}, "no column 'when' for the time"),
        ({"time": "one"}, "at least 2 values to test on later rows"),
        ({"group": "one"}, "at least 2 values to hold groups out"),
        ({"time": "row", "group": "kind"}, "by time or by group; got 'row' and 'kind'"),
        ({"seed": -1}, "`seed` must be at least 0; got -1"),
        ({"jobs": 0}, "`jobs` must be at least 1, or -1 for one per core; got 0"),
    ],
)
def test_settings_that_are_refused(change, message):
    settings = {"task": "shop", "target": "sales"} | change
    with pytest.raises(ValueError, match=message):
        fit_table(shops(), **settings)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (shops().head(9), "at least 10 rows with a target; 'sales' has a value in 9 of 9 rows"),
        (shops().rename(columns={"day": 0}), "Column names must be strings; got 0"),
        (shops().rename(columns={"day": "note"}), "must differ; got 'note' twice"),
        (shops().assign(shop=["a", None] * 60), "none in 60 rows: 2, 4, 6, 8, 10, … "),
        (shops().replace({"price": {np.nan: np.inf}}), "finite numbers; got inf in 2 rows: 4, 51"),
    ],
)
def test_tables_that_are_refused(frame, message):
    with pytest.raises(ValueError, match=message):
        fit_table(frame, task="shop", target="sales", base="linear")


def test_predictions_keep_the_index_and_need_no_target(regression):
    frame = shops().drop(columns=["sales", "day", "note"]).sample(frac=1, random_state=0)
    predicted = regression.predict(frame)
    assert predicted.index.equals(frame.index)
    again = regression.predict(shops())["prediction"]
    pd.testing.assert_series_equal(predicted["prediction"].sort_index(), again)


def test_the_centre_predicts_for_tasks_never_seen(regression):
    frame = shops().head(4)
    frame["shop"] = ["s0", "s9", None, "s9"]
    assert regression.unknown_tasks(frame) == {"s9": 2, None: 1}
    predicted = regression.predict(frame)["prediction"]
    X = regression.encoder.encode(frame)
    expected = regression.estimator.predict(X, "center")
    np.testing.assert_allclose(predicted[1:], expected[1:])
    assert predicted[0] != pytest.approx(expected[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"price": None, "kind": None}, "no column 'price', 'kind' for the model"),
        ({"shop": None}, "no column 'shop' for the model"),
        ({"price": np.inf}, "'price' must hold finite numbers; got inf in 4 rows: 1, 2, 3, 4 "),
    ],
)
def test_tables_that_cannot_be_predicted(regression, change, message):
    frame = shops().head(4).assign(**change)
    absent = [name for name, value in change.items() if value is None]
    with pytest.raises(ValueError, match=message):
        regression.predict(frame.drop(columns=absent))


def test_predictions_are_put_beside_the_table_as_it_is_written(regression, tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("id,shop,price,kind\n007,s0,1.50,tea\n008,s7,NA,\n")
    for source in (path, path.open("rb")):
        predicted = predict_table(regression, source, verbatim=True)
        assert predicted.table["id"].tolist() == ["007", "008"]
        assert predicted.table["price"].tolist() == ["1.50", "NA"]
        assert list(predicted.table)[-4:] == ["prediction", "lower", "upper", "std"]
        assert predicted.unknown == {"s7": 1}
        assert predicted.score is None
        if source is not path:
            source.close()
    assert predict_table(regression, path).table["id"].tolist() == ["007", "008"]
    path.write_text("shop,price,kind,prediction\ns0,1,tea,2\n")
    with pytest.raises(ValueError, match="already has a column 'prediction'"):
        predict_table(regression, path)


def test_labels_that_look_like_numbers_stay_what_they_were(tmp_path):
    frame = shops()
    frame["shop"] = frame["shop"].map({"s0": "01", "s1": "02", "s2": "03", "s3": "x"})
    frame["kind"] = frame["kind"].replace({"tea": "1", "milk": "2"})
    model = fit_table(frame, task="shop", target="sales", base="linear")
    path = tmp_path / "new.csv"
    frame[frame["shop"] != "x"].head(6).to_csv(path, index=False)
    predicted = predict_table(model, path)
    assert predicted.unknown == {}
    expected = model.predict(frame[frame["shop"] != "x"].head(6))["prediction"]
    np.testing.assert_allclose(predicted.table["prediction"], expected)


@pytest.mark.parametrize(
    ("written", "unknown"),
    [
        (["0", "1", "new", "3"], {"new": 1}),
        (["0", "1.0", "02", ""], {None: 1}),
        (["0", "1", "9007199254740993", "7"], {"9007199254740993": 1, "7": 1}),
    ],
)
def test_one_odd_label_leaves_the_others_their_tasks(written, unknown, tmp_path):
    frame = shops()
    frame["shop"] = np.where(np.arange(120) % 5, np.arange(120) % 4, 9007199254740992)
    model = fit_table(frame, task="shop", target="sales", base="linear")
    new = frame.iloc[1:5].assign(shop=written)
    new.to_csv(tmp_path / "new.csv", index=False)
    predicted = predict_table(model, tmp_path / "new.csv")
    assert predicted.unknown == unknown
    known = [label not in (*unknown, "") for label in written]
    right = new[known].assign(shop=[int(float(label)) for label in np.array(written)[known]])
    found = predicted.table["prediction"][known]
    np.testing.assert_allclose(found, model.predict(right)["prediction"])
    np.testing.assert_allclose(found, model.predict(right.astype({"shop": float}))["prediction"])
    np.testing.assert_allclose(found, model.predict(new)["prediction"][known])


def test_numbers_may_stand_for_labels_of_text():
    frame = shops()
    frame["shop"] = frame["shop"].str.removeprefix("s")
    model = fit_table(frame, task="shop", target="sales", base="linear")
    assert model.unknown_tasks(frame.astype({"shop": int}).replace({"shop": {3: 8}})) == {8: 30}


@pytest.mark.parametrize(
    "label", [lambda k: k, str, lambda k: f"0{k}", lambda k: k + 0.5, lambda k: f"2024-01-0{k}"]
)
def test_labels_of_another_type_are_recognised(label):
    frame = shops()
    labels = 1 + np.arange(120) % 4
    frame["shop"] = [label(k) for k in labels]
    if label(1) == "2024-01-01":
        frame["shop"] = pd.to_datetime(frame["shop"])
    model = fit_table(frame, task="shop", target="sales", base="linear", folds=2)
    expected = model.predict(frame)
    others = [frame["shop"].astype(object), frame["shop"].astype(str)]
    if not isinstance(label(1), str) or label(1).isdigit():
        others += [frame["shop"].astype(float), frame["shop"].astype(float).astype(object)]
    for other in others:
        pd.testing.assert_frame_equal(model.predict(frame.assign(shop=other)), expected)


def test_labels_that_cannot_be_tasks_are_warned_of(regression):
    new = shops().head(4)
    with pytest.warns(UserWarning, match=r"No label in 'shop' .* got 1.0, where tasks are"):
        model = regression.predict(new.assign(shop=[1, 2, 3, None]))
    pd.testing.assert_frame_equal(model, regression.predict(new.assign(shop="new")))


@pytest.mark.parametrize("name", ["regression", "binary"])
def test_what_is_saved_comes_back(name, tmp_path, request):
    model = request.getfixturevalue(name)
    folder = tmp_path / "deep" / "fit"
    for _ in range(2):  # an earlier fit is written anew
        model.save(folder)
        assert sorted(path.name for path in folder.iterdir()) == FILES
    stored = json.loads((folder / "results.json").read_text())
    assert stored == model.results
    assert from_json(Findings, stored) == model.findings
    (folder / "results.json").unlink()  # a model needs none to predict
    for place in (folder, folder / "model.npz"):
        again = TableModel.load(place)
        assert again.results == {}
        pd.testing.assert_frame_equal(again.predict(shops()), model.predict(shops()))
    again.save(folder)
    assert [path.name for path in folder.iterdir()] == ["model.npz"]


def test_nothing_foreign_is_overwritten(regression, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"not empty and holds no fit of a table. Choose another"):
        regression.save(tmp_path)
    with pytest.raises(ValueError, match=r"notes.txt is a file. Choose a folder"):
        regression.save(tmp_path / "notes.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    check_folder(tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failing_save_leaves_what_was_there(regression, tmp_path, monkeypatch, error):
    regression.save(tmp_path / "old")
    before = {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()}

    def fails(*_, **__):
        raise error

    monkeypatch.setattr(np, "savez_compressed", fails)
    for name in ("old", "new"):
        with pytest.raises(type(error)) as caught:
            regression.save(tmp_path / name)
        assert isinstance(error, KeyboardInterrupt) or "Cannot write to" in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    after = {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()}
    assert after == before


def cut(path):
    path.write_bytes(path.read_bytes()[:-30])


def pickled(path):
    path.write_bytes(pickle.dumps({"a": 1}))


def pickled_array(path):
    np.savez(path, header=np.array([{"a": 1}], dtype=object))


@pytest.mark.parametrize("damage", [cut, pickled, pickled_array])
def test_damage_is_refused(regression, tmp_path, damage):
    regression.save(tmp_path)
    damage(tmp_path / "model.npz")
    with pytest.raises(ValueError, match=r"is not a crosslearning table model, or it is damaged"):
        TableModel.load(tmp_path)


def test_other_files_are_refused(regression, tmp_path):
    with pytest.raises(ValueError, match=r"holds no fit of a table: it has no file model\.npz"):
        TableModel.load(tmp_path)
    regression.estimator.save(tmp_path / "model.npz")
    with pytest.raises(ValueError, match="is a linear model, but a table model is needed"):
        TableModel.load(tmp_path)
    header = np.frombuffer(b'{"format": "crosslearning 9", "kind": "table model"}', dtype=np.uint8)
    np.savez(tmp_path / "model.npz", header=header)
    with pytest.raises(ValueError, match="written by another version: crosslearning 9"):
        TableModel.load(tmp_path)


def test_progress_is_told():
    said = []
    fit_table(shops(), task="shop", target="sales", progress=lambda *told: said.append(told))
    texts, shares = zip(*said, strict=True)
    assert texts[:2] == ("Looking at the columns", "Trying one pooled model")
    assert texts[-1].startswith("Fitting the best model")
    assert list(shares) == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)


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
    assert ("Trying models", 0.1) in said


def test_a_table_with_the_target_is_scored(regression, binary):
    frame = shops(seed=5)
    found = regression.score(frame)
    said = regression.predict(frame)["prediction"]
    by_task = ((said - frame["sales"]) ** 2).groupby(frame["shop"]).mean()
    assert found["score"] == pytest.approx(by_task.mean())
    assert (found["metric"], found["rows"]) == ("mean squared error", 120)
    assert regression.score(frame.drop(columns="sales")) is None
    assert binary.score(classes(["few", "many"]))["metric"] == "log loss"
    with pytest.raises(ValueError, match="must be one of few, many to be scored; got 'none'"):
        binary.score(frame.assign(sales="none"))


def test_categories_never_seen_are_counted(regression):
    frame = shops().head(3).assign(kind=["tea", "cocoa", "cocoa"])
    assert regression.unknown_categories(frame) == {"kind": {"cocoa": 2}}


def test_numbers_outside_the_range_of_the_fit_are_counted(regression):
    """The ends belong to it, and gaps are no numbers."""
    frame = shops()
    assert regression.encoder.outside(frame) == (0, {})
    low, high = frame["price"].min(), frame["price"].max()
    values = [low, high, np.nan, low - 1e-6, high + 1e-6]
    assert regression.encoder.outside(frame.head(5).assign(price=values)) == (2, {"price": 2})
