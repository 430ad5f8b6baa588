"""A table in, a model out: what it finds, predicts, saves and refuses."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest

from crosslearning.linear import CrossRidgeCV
from crosslearning.tables import TableModel, check_folder, fit_table, predict_table
from crosslearning.tables.encoding import TableEncoder
from tests.tables import shops

FILES = ["model.npz", "results.json"]


def classes(names):
    """The shops with sales in that many classes."""
    frame = shops()
    frame["sales"] = pd.qcut(frame["sales"], len(names), labels=names).astype(str)
    return frame


@pytest.fixture(scope="module")
def regression():
    return fit_table(shops(), task="shop", target="sales", epsilon=1.0, command="a command")


@pytest.fixture(scope="module")
def searched():
    frame = shops(60, 3).fillna({"price": 0.0})
    return fit_table(frame, task="shop", target="sales", features=["price"])


@pytest.fixture(scope="module")
def binary():
    return fit_table(classes(["few", "many"]), task="shop", target="sales", epsilon=0.5)


def test_results_say_what_was_found(regression):
    found = regression.results
    assert found == json.loads(json.dumps(found, allow_nan=False))
    assert (found["kind"], found["version"], found["title"]) == ("table", 1, "sales by shop")
    assert (found["target_kind"], found["target_rule"]) == ("regression", "numbers with decimals")
    assert found["chosen"]["all"]["epsilon"] == 1.0
    assert 0 < found["chosen"]["all"]["share"] <= 1
    assert [row["method"] for row in found["comparison"]["overall"]] == [
        "pooled",
        "separate",
        "cross",
    ]
    assert [row["task"] for row in found["tasks"]] == ["s0", "s1", "s2", "s3"]
    assert all(row["distance"]["all"] <= 1 + 1e-9 for row in found["tasks"])
    assert found["map"]["radius"] == 1.0
    assert np.linalg.norm(found["map"]["tasks"], axis=1).max() <= 1 + 1e-9
    assert found["score"]["baseline"] > found["comparison"]["overall"][0]["score"] > 0
    assert len(found["notes"]) == 4
    provenance = found["provenance"]
    assert (provenance["rows"], provenance["dropped"], provenance["seed"]) == (120, 0, 0)
    assert provenance["command"] == "a command"
    assert provenance["columns"] == [
        {"name": "price", "type": "number", "levels": 0, "missing": 2},
        {"name": "kind", "type": "category", "levels": 4, "missing": 3},
    ]


def test_gains_are_differences_of_errors(regression):
    rows = {row["method"]: row for row in regression.results["comparison"]["overall"]}
    for method in ("pooled", "separate"):
        difference = rows[method]["score"] - rows["cross"]["score"]
        assert rows[method]["gain"] == pytest.approx(difference, rel=1e-6)


def test_coefficients_are_those_of_standardised_features(regression):
    found, model = regression.results["coefficients"], regression.estimator
    X = regression.encoder.encode(shops())
    standardised = (X - model.feature_mean_) / model.feature_scale_
    tasks = np.array(found["tasks"])[np.arange(120) % 4]
    intercepts = np.array(found["intercept"]["tasks"])[np.arange(120) % 4]
    expected = np.einsum("ij,ij->i", standardised, tasks) + intercepts
    predicted = regression.predict(shops())["prediction"]
    np.testing.assert_allclose(predicted, expected, rtol=1e-6)
    assert len(found["features"]) == len(found["center"]) == X.shape[1]


def test_the_map_keeps_distances_in_the_plane(searched):
    """With one feature and an intercept there are two dimensions, and nothing is lost."""
    found = searched.results
    assert found["map"]["explained"] == pytest.approx(1)
    distances = np.linalg.norm(found["map"]["tasks"], axis=1)
    blocks = [np.hypot(*row["distance"].values()) for row in found["tasks"]]
    np.testing.assert_allclose(distances, blocks, atol=1e-6)


def test_a_search_has_a_path_per_block(searched):
    found = searched.results
    assert set(found["path"]) == set(found["chosen"]) == {"coef", "intercept"}
    for block, path in found["path"].items():
        assert [path[0]["epsilon"], path[-1]["epsilon"]] == [0.0, "inf"]
        assert found["chosen"][block]["epsilon"] in [point["epsilon"] for point in path]
        assert all(p["low"] <= p["score"] <= p["high"] for p in path)
    assert found["map"]["radius"] is None
    assert "standard error paired over 3 tasks" in found["sentence"]


def test_it_is_the_estimator_on_encoded_columns(regression):
    frame = shops()
    X = TableEncoder.of(frame, ["price"], ["kind"]).encode(frame)
    estimator = CrossRidgeCV([1.0], metric="standard").fit(X, frame["sales"], tasks=frame["shop"])
    expected = estimator.predict(X, tasks=frame["shop"])
    np.testing.assert_allclose(regression.predict(frame)["prediction"], expected)


def test_two_classes(binary):
    found = binary.results
    assert (found["target_kind"], found["estimator"]) == (
        "classification",
        "CrossLogisticRegressionCV",
    )
    assert found["score"]["name"] == "log loss"
    assert found["score"]["baseline"] == pytest.approx(np.log(2), abs=1e-3)
    assert found["coefficients"]["class"] == "many"
    predicted = binary.predict(shops())
    assert list(predicted) == ["prediction", "probability_few", "probability_many"]
    np.testing.assert_allclose(predicted.iloc[:, 1:].sum(axis=1), 1)
    likely = np.where(predicted["probability_many"] > 0.5, "many", "few")
    assert predicted["prediction"].tolist() == likely.tolist()


def test_three_classes():
    frame = classes(["a", "b", "c"])
    found = fit_table(frame, task="shop", target="sales", features=["price"], epsilon=0.5).results
    assert [part["class"] for part in found["coefficients"]["classes"]] == ["a", "b", "c"]
    centers = [part["center"] for part in found["coefficients"]["classes"]]
    np.testing.assert_allclose(np.sum(centers, axis=0), 0, atol=1e-9)


def test_rows_without_a_target_are_left_out_and_counted(regression):
    frame = shops()
    gaps = pd.concat([frame, frame.head(7).assign(sales=np.nan, shop=None)])
    found = fit_table(gaps, task="shop", target="sales", epsilon=1.0).results
    assert found["notes"][0] == "7 rows without a target left out"
    assert found["provenance"]["dropped"] == 7
    same = regression.results
    assert found["chosen"] == same["chosen"]
    assert found["provenance"]["fingerprint"] == same["provenance"]["fingerprint"]


def test_a_task_with_one_row():
    frame = shops()
    frame.loc[0, "shop"] = "lonely"
    model = fit_table(frame, task="shop", target="sales", epsilon=1.0)
    rows = {task["task"]: task for task in model.results["comparison"]["tasks"]}
    assert rows["lonely"]["rows"] == 1
    assert np.isfinite(rows["lonely"]["separate"])


def test_labels_of_any_kind_can_be_told_and_saved(tmp_path):
    frame = shops()
    frame["shop"] = pd.to_datetime("2024-01-01") + pd.to_timedelta(np.arange(120) % 4, unit="D")
    model = fit_table(frame, task="shop", target="sales", epsilon=1.0)
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
        ({"epsilon": "wide"}, "got wide"),
        ({"epsilon": 1.0, "per_block": True}, "A radius per block is chosen by"),
        ({"seed": -1}, "`seed` must be at least 0; got -1"),
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
        fit_table(frame, task="shop", target="sales")


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
        ({"price": "dear"}, "'price' must hold finite numbers; got 'dear' in 4 rows: 1, 2, 3, 4 "),
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
        assert list(predicted.table)[-1] == "prediction"
        assert predicted.unknown == {"s7": 1}
        if source is not path:
            source.close()
    assert predict_table(regression, path).table["id"].tolist() == [7, 8]
    path.write_text("shop,price,kind,prediction\ns0,1,tea,2\n")
    with pytest.raises(ValueError, match="has a column 'prediction' already"):
        predict_table(regression, path)


def test_labels_that_look_like_numbers_stay_what_they_were(tmp_path):
    frame = shops()
    frame["shop"] = frame["shop"].map({"s0": "01", "s1": "02", "s2": "03", "s3": "x"})
    frame["kind"] = frame["kind"].replace({"tea": "1", "milk": "2"})
    model = fit_table(frame, task="shop", target="sales", epsilon=1.0)
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
    model = fit_table(frame, task="shop", target="sales", epsilon=1.0)
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
    model = fit_table(frame, task="shop", target="sales", epsilon=1.0)
    assert model.unknown_tasks(frame.astype({"shop": int}).replace({"shop": {3: 8}})) == {8: 30}


@pytest.mark.parametrize("name", ["regression", "searched", "binary"])
def test_what_is_saved_comes_back(name, tmp_path, request):
    model = request.getfixturevalue(name)
    folder = tmp_path / "deep" / "fit"
    for _ in range(2):  # an earlier fit is written anew
        model.save(folder)
        assert sorted(path.name for path in folder.iterdir()) == FILES
    assert json.loads((folder / "results.json").read_text()) == model.results
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
    with pytest.raises(ValueError, match=r"model.npz is not a table model .* or it is damaged"):
        TableModel.load(tmp_path)


def test_other_files_are_refused(regression, tmp_path):
    with pytest.raises(ValueError, match=r"holds no fit of a table, which is a file model\.npz"):
        TableModel.load(tmp_path)
    regression.estimator.save(tmp_path / "model.npz")
    with pytest.raises(ValueError, match="is a linear model, and a table model is needed"):
        TableModel.load(tmp_path)
    header = np.frombuffer(b'{"format": "crosslearning 9", "kind": "table model"}', dtype=np.uint8)
    np.savez(tmp_path / "model.npz", header=header)
    with pytest.raises(ValueError, match="written by another version: crosslearning 9"):
        TableModel.load(tmp_path)


def test_progress_is_told():
    said = []
    fit_table(shops(), task="shop", target="sales", epsilon=1.0, progress=said.append)
    assert said == ["Looking at the columns", "Cross-validating models of 4 tasks on 120 rows"]
