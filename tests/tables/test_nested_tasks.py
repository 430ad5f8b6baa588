"""Tables with several task columns: groups within groups."""

import numpy as np
import pandas as pd
import pytest

import crosslearning
from crosslearning import CrossBayesianRidge, CrossClassifier, CrossRegressor
from crosslearning.frames.encoder import TaskLevels
from crosslearning.tables import TableModel, fit_files, fit_table
from crosslearning.tables.settings import FitSettings

COLUMNS = ["district", "school"]
PLAIN = {"base": "linear", "family": "gaussian", "folds": 2}


def pupils(n_districts=8, n_schools=4, n_rows=10):
    """Return schools, numbered anew in each district; districts differ most."""
    rng = np.random.default_rng(0)
    district, school = np.divmod(np.arange(n_districts * n_schools), n_schools)
    level = (3 * rng.normal(size=n_districts))[district] + 0.5 * rng.normal(size=len(school))
    code = np.repeat(np.arange(len(school)), n_rows)
    x = rng.normal(size=len(code))
    return pd.DataFrame(
        {
            "district": np.array([f"d{k}" for k in range(n_districts)])[district[code]],
            "school": school[code] + 1,
            "x": x,
            "y": 10 + x + level[code] + rng.normal(size=len(code)),
        }
    )


@pytest.fixture(scope="module")
def model():
    return fit_table(pupils(), task=COLUMNS, target="y", **PLAIN)


def test_equal_names_in_two_groups_are_two_tasks(model):
    assert model.results["size"]["tasks"] == 32
    assert model.results["tasks"][0]["task"] == "d0 / 1"
    assert model.tasks.tolist()[:5] == [("d0", k) for k in (1, 2, 3, 4)] + [("d1", 1)]
    assert model.results["title"] == "y by school in district"
    assert set(model.coefficients["task"]) >= {"d0 / 1", "d1 / 1", "(centre)"}


def test_nested_models_are_compared_with_models_of_one_level(model):
    scores = {one["name"]: one["score"] for one in model.results["models"]}
    assert scores["nested"] < scores["cross"] < scores["pooled"]
    assert (
        next(one for one in model.results["models"] if one["name"] == "nested")["kind"] == "cross"
    )


def test_how_much_each_level_differs(model):
    found = model.results["differences"]
    outer, inner = found["levels"]
    assert (outer["name"], outer["units"]) == ("district", 8)
    assert outer["level"]["low"] < 3 < outer["level"]["high"]
    assert inner["level"]["low"] < 0.5 < inner["level"]["high"]
    assert [level["name"] for level in found["levels"]] == COLUMNS
    slope, intercept = model.results["center"]
    assert (slope["feature"], intercept["feature"]) == ("x", "(intercept)")
    assert slope["low"] < 1 < slope["high"]
    assert intercept["between"][0][0] > intercept["between"][1][0]


def test_new_schools_are_predicted_by_their_district_and_new_districts_by_the_centre(model):
    rows = pd.DataFrame(
        {"district": ["d0", "d0", "new", "d0", None], "school": [1, 9, 1, None, 1], "x": 0.0}
    )
    known, school, district, unnamed, nowhere = model.predict(rows).itertuples()
    assert known.std < school.std < district.std
    level = pupils().query("district == 'd0'")["y"].mean()
    assert abs(school.prediction - level) < 0.5 < abs(district.prediction - level)
    assert unnamed[1:] == school[1:]
    assert nowhere[1:] == district[1:]
    new = model.unknown_tasks(rows)
    assert new == {"d0 / 9": 1, "new / 1": 1, "d0 / no label": 1, None: 1}


def test_a_saved_model_recognises_labels_however_they_are_written(model, tmp_path):
    rows = pupils().head(30)
    model.save(tmp_path)
    again = TableModel.load(tmp_path)
    expected = model.predict(rows)
    pd.testing.assert_frame_equal(again.predict(rows), expected)
    for labels in (rows["school"].astype(str), rows["school"].astype(float)):
        pd.testing.assert_frame_equal(again.predict(rows.assign(school=labels)), expected)
    assert again.text_columns == COLUMNS
    assert again.score(rows).rows == 30


def test_the_lines_of_python_repeat_the_fit(model):
    assert "task=['district', 'school']," in model.results["python"]
    one = FitSettings(task="school", target="y")
    assert "task=['school']," in one.python("fit_table", "T", None, "")


def test_the_estimator_inside_has_the_labels():
    nested = fit_table(pupils(), task=COLUMNS, target="y", **PLAIN, epsilon=100.0)
    rows, estimator = pupils().head(4), nested.estimator
    assert estimator.groups_[0].tolist() == [(f"d{k}",) for k in range(8)]
    said = estimator.predict(rows[["x"]].to_numpy(), tasks=rows[COLUMNS])
    np.testing.assert_allclose(said, nested.predict(rows)["prediction"], rtol=1e-8)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"task": ["school", "school"]}, "at least one column, each once; got"),
        ({"task": []}, "at least one column"),
        ({"task": ["y", "school"]}, "Task and target must be two columns; got 'y' for both"),
        ({"task": COLUMNS, "group": "district"}, "Option group must not name the task"),
        ({"task": ["same", "district"]}, "Groups by 'same' must .*each holds one"),
        ({"task": ["one", "school"]}, "Groups by 'one' must be several.*there is only one"),
        ({"task": ["distric", "school"]}, "no column 'distric' for the task. Did you mean"),
        ({"task": "district,school"}, "for the task. Name each column with its own --task"),
        ({"task": COLUMNS, "features": ["district"]}, "Option features must not name the task"),
        ({"task": COLUMNS, "family": "quantile"}, "family=quantile is for one task column"),
        ({"task": 1}, "Option task must be a list of names"),
    ],
)
def test_bad_task_columns_are_refused(wrong, message):
    table = pupils().assign(one=1, same=lambda frame: frame["district"])
    with pytest.raises(ValueError, match=message):
        fit_table(table, **{"target": "y", **wrong})


def test_rows_without_a_label_are_refused_or_dropped():
    frame = pupils()
    frame.loc[[3, 5], "district"] = None
    with pytest.raises(ValueError, match="The task column 'district' must have a label in every"):
        fit_table(frame, task=COLUMNS, target="y")
    model = fit_table(frame, task=COLUMNS, target="y", **PLAIN, drop_unlabelled=True)
    assert model.results["size"]["rows"] == len(frame) - 2


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize("engine", ["csv", "dask"])
def test_tables_larger_than_memory_are_fitted_from_sums(model, tmp_path, engine):
    frame = pupils()
    if engine == "dask":
        dask, dd = pytest.importorskip("dask"), pytest.importorskip("dask.dataframe")
        with dask.config.set(scheduler="synchronous"):
            parts = dd.from_pandas(frame, npartitions=3)
            chunks = fit_table(parts, task=COLUMNS, target="y", family="gaussian")
    else:
        frame.to_csv(tmp_path / "pupils.csv", index=False)
        chunks = fit_files(tmp_path / "pupils.csv", task=COLUMNS, target="y", family="gaussian")
    assert chunks.results["chosen_model"]["name"] == "nested"
    assert chunks.tasks.tolist() == model.tasks.tolist()
    chunks.save(tmp_path / "fit")
    new = pd.DataFrame({"district": ["d3", "d3", "new"], "school": [1, 9, 9], "x": 0.5})
    alone = CrossBayesianRidge().fit(frame[["x"]], frame["y"], tasks=frame[COLUMNS])
    expected = alone.predict(new[["x"]], new[COLUMNS])
    for one in (chunks, TableModel.load(tmp_path / "fit")):
        np.testing.assert_allclose(one.predict(new)["prediction"], expected, rtol=1e-6)
    ours, theirs = (one.results["differences"]["levels"] for one in (chunks, model))
    assert ours[0]["level"]["low"] == pytest.approx(theirs[0]["level"]["low"], rel=1e-3)


@pytest.mark.usefixtures("little_room")
def test_other_models_of_tables_larger_than_memory_are_refused(tmp_path):
    pupils().to_csv(tmp_path / "pupils.csv", index=False)
    with pytest.raises(ValueError, match="Groups within groups need all rows in memory"):
        fit_files(tmp_path / "pupils.csv", task=COLUMNS, target="y", metric="mae")


def test_files_that_fit_into_memory(model, tmp_path):
    pupils().to_csv(tmp_path / "pupils.csv", index=False)
    read = fit_files(tmp_path / "pupils.csv", task=COLUMNS, target="y", **PLAIN)
    assert read.tasks.tolist() == model.tasks.tolist()


def test_estimators_take_columns_or_a_frame(model, tmp_path):
    frame = pupils()
    by_column = CrossRegressor(task_column=COLUMNS, **PLAIN)
    by_column.fit(frame[[*COLUMNS, "x"]], frame["y"])
    expected = model.predict(frame)["prediction"]
    np.testing.assert_allclose(by_column.predict(frame[[*COLUMNS, "x"]]), expected, rtol=1e-9)
    by_frame = CrossRegressor(**PLAIN).fit(frame[["x"]], frame["y"], tasks=frame[COLUMNS])
    turned = frame[COLUMNS[::-1]]  # matched by name
    np.testing.assert_allclose(by_frame.predict(frame[["x"]], turned), expected, rtol=1e-9)
    center = by_frame.predict(frame[["x"]].head(1), "center")
    assert center == pytest.approx(
        by_frame.predict(frame[["x"]].head(1), pd.DataFrame([["new", 1]], columns=COLUMNS))
    )
    assert by_frame.tasks_.tolist() == model.tasks.tolist()
    assert list(by_frame.comparison_.labels[:1]) == [("d0", 1)]
    by_column.save(tmp_path)
    loaded = crosslearning.load(tmp_path)
    np.testing.assert_allclose(loaded.predict(frame[[*COLUMNS, "x"]]), expected, rtol=1e-9)
    with pytest.raises(ValueError, match="must not be columns of X; got 'district' in both"):
        by_frame.fit(frame[["district", "x"]], frame["y"], tasks=frame[COLUMNS])


def test_classes_in_groups():
    frame = pupils(4, 3)
    y = frame["y"] > frame["y"].median()
    model = CrossClassifier(task_column=COLUMNS, base="linear", folds=2)
    model = model.fit(frame[[*COLUMNS, "x"]], y)
    assert "nested" in set(model.candidates_["name"])
    assert len(model.model_.results["center"]) == 2


def test_trees_know_groups_and_tasks(tmp_path):
    frame = pupils()
    model = fit_table(frame, task=COLUMNS, target="y", base="boosting", family="gaussian", folds=2)
    assert {"nested", "cross-trees"} <= {one["name"] for one in model.results["models"]}
    model.save(tmp_path)
    rows = pd.concat([frame.head(3), frame.head(3).assign(school=9)])
    pd.testing.assert_frame_equal(TableModel.load(tmp_path).predict(rows), model.predict(rows))


def test_three_levels_and_names_that_look_alike():
    frame = pd.DataFrame(
        {"a": ["1", "1", "1 / 2", "x"], "b": ["2 / 3", "y", "3", "y"], "c": [1, 1, 1, 2]}
    )
    positions = np.column_stack([pd.factorize(frame[name], sort=True)[0] for name in frame])
    positions = positions[np.lexsort(positions.T[::-1])]
    labels = [np.unique(frame[name].to_numpy(dtype=object)) for name in frame]
    levels = TaskLevels(list(frame), labels, positions)
    assert len(set(levels.names)) == 4
    assert levels.codes(frame).tolist() == [0, 1, 2, 3]
    new = pd.DataFrame({"a": ["x", "x", "x", "z"], "b": ["y", "y", "z", "y"], "c": [1, 2, 2, 1]})
    # Task 3 is ("x", "y", 2); after 4 tasks come 3 groups of the first level and 4 of the second.
    assert levels.codes(new).tolist() == [4 + 3 + 3, 3, 4 + 2, -1]
