"""Labels, rows and settings that a fit accepts, and those that it refuses."""

import numpy as np
import pandas as pd
import pytest

from crosslearning.tables import TableModel, fit_files, fit_table
from crosslearning.tables.learners.search import CrossValidation
from tests.support.tables import shops

GIVEN = {"task": "shop", "target": "sales", "base": "linear", "folds": 2}
QUICK = {**GIVEN, "family": "gaussian"}


def test_blanks_around_labels_do_not_make_tasks():
    frame = shops()
    frame.loc[frame.index[::7], "shop"] += " "
    model = fit_table(frame, **QUICK)
    assert len(model.results["tasks"]) == 4
    assert model.unknown_tasks(frame) == {}


def test_rows_without_a_label_can_be_dropped():
    frame = shops()
    frame.loc[[3, 9], "shop"] = None
    found = fit_table(frame, **QUICK, drop_unlabelled=True).results
    assert found["provenance"]["dropped"] == 2


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
    model = fit_table(frame, **QUICK)
    found = model.results["comparison"]
    task, method = found["labels"].index("lonely"), found["methods"].index("separate")
    assert found["rows"][task] == 1
    assert np.isfinite(found["scores"][method][task])


def test_labels_of_any_kind_can_be_told_and_saved(tmp_path):
    frame = shops()
    frame["shop"] = pd.to_datetime("2024-01-01") + pd.to_timedelta(np.arange(120) % 4, unit="D")
    model = fit_table(frame, **QUICK)
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
        ({"epsilon": -1.0}, "Option epsilon must be a distance of at least 0 .* got -1"),
        ({"epsilon": float("nan")}, "got nan"),
        ({"folds": 1}, "Option folds must be at least 2; got 1"),
        ({"metric": "log-loss"}, "Option metric must be one of mse, mae, .* for regression"),
        ({"time": "when"}, "no column 'when' for the time"),
        ({"categories": ["size"]}, "no column 'size' for numbers and categories"),
        (
            {"categories": ["kind"], "numbers": ["kind"]},
            "got both for 'kind'",
        ),
        ({"group": "sales"}, "Option group must not name the task or the target"),
        ({"weights": "sales"}, "Option weights must not name the task or the target; got 'sales'"),
        ({"weights": "shop"}, "Option weights must not name the task or the target; got 'shop'"),
        ({"folds": "3"}, "Option folds must be a whole number; got '3'"),
        ({"folds": 2.5}, "Option folds must be a whole number; got 2.5"),
        ({"epsilon": None}, "Option epsilon must be a number; got None"),
        ({"held_out": shops().drop(columns="sales")}, "held-out table has no column 'sales'"),
        ({"held_out": shops().drop(columns="price")}, "no column 'price' for the model"),
        ({"time": "one"}, "at least 2 values to test on later rows"),
        ({"group": "one"}, "at least 2 values to hold some out"),
        ({"time": "row", "group": "kind"}, "by time or by group; got 'row' and 'kind'"),
        ({"seed": -1}, "Option seed must be at least 0; got -1"),
        ({"jobs": 0}, "Option jobs must be at least 1, or -1 for one per core; got 0"),
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


@pytest.mark.parametrize("gap", [None, np.nan])
def test_groups_without_a_label_are_refused(gap, tmp_path):
    frame = shops().assign(team=["a", gap, "b", "c", gap] * 24)
    frame.loc[1, "sales"] = np.nan  # which is left out anyway
    message = r"group column 'team' must have a label .* in 47 rows: 5, 7, 10.* these rows\.$"
    frame.to_csv(tmp_path / "shops.csv", index=False)
    for fit, table in ((fit_table, frame), (fit_files, tmp_path / "shops.csv")):
        with pytest.raises(ValueError, match=message):
            fit(table, **QUICK, group="team")


def test_a_slip_in_a_target_of_numbers_is_named():
    frame = shops()
    frame["sales"] = frame["sales"].astype(object)
    frame.loc[4, "sales"] = "many"
    with pytest.raises(ValueError, match="'many' in 1 row: 5"):
        fit_table(frame, task="shop", target="sales", features=["price"], base="linear")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", None, "b", None] * 5, "it has none in 10 rows: 2, 4, 6, 8, 10, … "),
        (["a"] * 20, "at least 2 labels; got one, 'a'"),
        (np.arange(20) + 0.5, "must repeat; got 20 different labels"),
    ],
)
def test_tasks_that_are_refused(labels, message):
    frame = pd.DataFrame({"shop": labels, "price": np.arange(20.0), "sales": np.arange(20) % 7})
    with pytest.raises(ValueError, match=message):
        fit_table(frame, task="shop", target="sales")


def test_rows_that_no_model_can_be_fitted_to(monkeypatch):
    monkeypatch.setattr(CrossValidation, "within", lambda *_: "its equations cannot be solved")
    message = r"these rows: its equations cannot be solved\. Leave out columns, or choose another"
    with pytest.raises(ValueError, match=message):
        fit_table(shops(), **QUICK)


def test_one_feature_needs_no_list():
    model = fit_table(shops(), **QUICK, features="price")
    assert model.encoder.columns == ["price"]


def test_options_and_tables_that_are_none():
    with pytest.raises(TypeError, match="There is no option 'foldz'"):
        fit_table(shops(), task="shop", target="sales", foldz=3)
    with pytest.raises(TypeError, match="Option target is missing"):
        fit_table(shops(), task="shop")
    with pytest.raises(TypeError, match="takes a DataFrame; got str"):
        fit_table("shops.csv", task="shop", target="sales")


def test_a_bound_of_0_is_the_pooled_model():
    found = fit_table(shops(), **GIVEN, epsilon=0.0).results
    assert not any(model["kind"] == "cross" for model in found["models"])
    assert found["verdict"]["effect"] == "nothing"
    assert ": no model that shares was fitted. One pooled model is " in found["sentence"]
