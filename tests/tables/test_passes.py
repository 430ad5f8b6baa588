"""Large tables of classes and counts, by time and by group: as in memory, however divided."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from crosslearning.cli import main
from crosslearning.frames import reading as table_files
from crosslearning.tables import TableModel, engines, fit_files, fit_table, schema
from crosslearning.tables.rows import bounded
from tests.support.chunked_tables import assert_same, scores, shops, sold, written

GIVEN = {"task": "shop", "target": "sales"}
FEW_FOLDS = GIVEN | {"folds": 2}
FEW = {"features": ["size", "age"]}


@pytest.mark.parametrize("kind", ["two", pytest.param("classes", marks=pytest.mark.slow), "count"])
def test_chunks_give_the_model_that_memory_gives(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(engines, "ROOM", 300)  # fewer than there are rows
    frame = sold(kind)
    folder, weighted = written(frame.assign(w=1.0), tmp_path / "x", parts=2), {"weights": "w"}
    family = FEW | ({"family": "poisson"} if kind == "count" else {})
    chosen = "CrossBayesianGLM" if kind == "count" else "CrossBayesianLogisticRegression"
    steps = []
    model = fit_files(
        folder, **FEW_FOLDS, **family, **weighted, progress=lambda text, _: steps.append(text)
    )
    assert model.results["estimator"] == chosen
    passes = {text.split()[1] for text in steps if text.startswith("Pass ")}
    assert 4 <= len(passes) <= 20
    estimator = model.estimator
    parameters = estimator.get_params() | {"tol": 1e-10}
    expected = type(estimator)(**parameters).fit(
        model.encoder.encode(frame), frame["sales"], tasks=frame["shop"]
    )
    np.testing.assert_allclose(estimator.coef_, expected.coef_, atol=5e-3)
    np.testing.assert_allclose(estimator.covariance_, expected.covariance_, atol=5e-3)
    if kind == "count":
        assert estimator.largest_mean_ == expected.largest_mean_
        assert estimator.bounds_.tolist() == bounded(expected, frame["sales"]).bounds_.tolist()
    monkeypatch.setattr(table_files, "_NUMBERS", 6 * 61)
    chunks = fit_files(folder, **FEW_FOLDS, **family)
    assert_same(model, chunks, 1e-6)
    assert scores(chunks) == pytest.approx(scores(model), rel=1e-6)
    assert model.predict(frame.head(9)).shape[1] == {"two": 3, "classes": 4, "count": 4}[kind]


def test_models_are_compared_as_in_memory(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = sold("two", 200, 4)
    written(frame, tmp_path / "x")
    frame.tail(100).assign(sales=["high", None] * 50).to_csv("later.csv", index=False)
    line = ["fit", "x", "--task", "shop", "--target", "sales", "--metric", "accuracy"]
    line += ["--base", "linear", "--folds", "2", "--features", "size", "--features", "age"]
    assert main([*line, "--holdout", "later.csv"]) == 0
    assert "On the 50 rows of the held-out table: " in capsys.readouterr().out
    page = Path("crosslearning-x/report.html").read_text()
    assert "Can the predictions be trusted?" in page
    assert "On the 50 rows of the held-out table, the chosen model has " in page
    model = TableModel.load("crosslearning-x")
    large = json.loads(Path("crosslearning-x/results.json").read_text())
    memory = fit_table(frame, **FEW_FOLDS, **FEW, metric="accuracy", base="linear")
    assert {row["name"]: row["score"] for row in large["models"]} == scores(memory)
    assert sum(row["count"] for row in large["reliability"]["bins"]) == len(frame)
    held = large["holdout"]
    assert held["rows"] == 50
    known = pd.read_csv("later.csv").dropna(subset="sales")
    assert held["score"] == pytest.approx(model.score(known).score)
    assert "held_out='later.csv'" in large["python"]


@pytest.mark.usefixtures("little_room")
def test_a_held_out_table_in_chunks_is_weighted_too(tmp_path):
    folder, later = written(shops().assign(w=1.0), tmp_path / "x"), shops(80, 5, seed=1)
    later["w"], given = np.random.default_rng(0).uniform(size=80), FEW_FOLDS | {"weights": "w"}
    model = fit_files(folder, **given, held_out=written(later, tmp_path / "weighted"))
    errors = later["w"] * (later["sales"] - model.predict(later)["prediction"]) ** 2
    sums = later.assign(e=errors).groupby("shop")[["e", "w"]].sum()
    score = model.results["holdout"]["score"]
    assert score == pytest.approx((sums["e"] / sums["w"]).mean())
    plain = written(later.drop(columns="w"), tmp_path / "plain")
    assert (
        "the held-out table has no column w: its rows have equal weights"
        in (fit_files(folder, **given, held_out=plain).results["notes"])
    )
    empty = written(later.assign(sales=np.nan), tmp_path / "empty")
    with pytest.raises(ValueError, match=r"held-out table .* has 0.rows with a target"):
        fit_files(folder, **given, held_out=empty)


def test_of_many_tasks_some_are_kept_to_compare_models_on(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "ROOM", 150)
    monkeypatch.setattr(schema, "_FEWEST_TASKS", 5)
    model = fit_files(written(sold("two"), tmp_path / "x"), **FEW_FOLDS, **FEW)
    (note,) = [note for note in model.results["notes"] if note.startswith("models were compared")]
    assert 1 <= int(note.split()[4]) < 8
    assert model.results["size"]["tasks"] == 8


@pytest.mark.parametrize("metric", ["mse", "mae"])
def test_later_rows_are_tested_on(tmp_path, monkeypatch, metric):
    frame = shops(400)
    monkeypatch.setattr(engines, "ROOM", 399)  # all but one
    frame["day"] = frame["day"].dt.strftime("%d/%m/%Y")
    asked = {**FEW_FOLDS, "time": "day", "metric": metric}
    large = fit_files(written(frame, tmp_path / "x"), **asked)
    memory = fit_table(frame, **asked, base="linear", family="gaussian")
    assert "later day" in large.results["score"]["explanation"]
    for name, score in scores(large).items():
        assert score == pytest.approx(scores(memory)[name], rel=0.02)
    with pytest.raises(ValueError, match="at least 2 values to test on later rows"):
        fit_files(written(frame.assign(day="01/02/2024"), tmp_path / "x"), **GIVEN, time="day")


@pytest.mark.usefixtures("little_room")
def test_groups_are_left_out_whole(tmp_path, monkeypatch):
    frame = shops(400).assign(week=np.random.default_rng(0).integers(30, size=400))
    model = fit_files(written(frame, tmp_path / "x"), **FEW_FOLDS, group="week")
    assert "on rows with a held-out week" in model.results["score"]["explanation"]
    assert "week" not in model.encoder.columns
    monkeypatch.setattr(table_files, "_NUMBERS", 300)
    chunks = fit_files(tmp_path / "x", **FEW_FOLDS, group="week")
    assert scores(chunks) == pytest.approx(scores(model))


@pytest.mark.usefixtures("little_room")
def test_fewer_groups_than_folds(tmp_path):
    frame = sold("two", 200, 4).assign(week=np.arange(200) % 2)
    model = fit_files(written(frame, tmp_path / "x"), **GIVEN, **FEW, group="week")
    assert np.isfinite(list(scores(model).values())).all()
    with pytest.raises(ValueError, match="Testing on rows with a held-out week leaves nothing"):
        fit_files(written(frame.assign(week=1), tmp_path / "y"), **GIVEN, group="week")


@pytest.mark.usefixtures("little_room")
def test_days_come_first_in_every_chunk_if_they_do_in_one(tmp_path, monkeypatch):
    frame = shops(400)
    dates = frame["day"].dt
    frame["day"] = dates.strftime("%d/%m/%Y")
    frame = (
        frame.assign(late=dates.day > 12).sort_values("late", kind="stable").drop(columns="late")
    )
    frame.to_csv(tmp_path / "shops.csv", index=False)
    expected = fit_table(
        frame.reset_index(drop=True), **FEW_FOLDS, family="gaussian", base="linear"
    )
    monkeypatch.setattr(table_files, "_NUMBERS", 300)
    model = fit_files(tmp_path / "shops.csv", **FEW_FOLDS)
    assert model.encoder == expected.encoder
    assert model.encoder.day_first == ["day"]
    alone = frame[frame["day"].str[:2].astype(int) <= 12].head(1)
    day = pd.to_datetime(alone["day"], format="%d/%m/%Y")
    column = model.encoder.feature_names.index("day days")
    assert model.encoder.encode(alone)[0, column] == (day - pd.Timestamp(1970, 1, 1)).dt.days.item()


@pytest.mark.usefixtures("little_room")
def test_a_class_that_is_rare_is_one(tmp_path, monkeypatch):
    frame = sold("two", 120, 2)
    frame.loc[119, "sales"] = "never"
    monkeypatch.setattr("crosslearning.frames.survey._SAMPLE", 50)
    model = fit_files(written(frame, tmp_path / "x"), **FEW_FOLDS, features=["size"])
    assert model.classes.tolist() == ["high", "low", "never"]
    flags = frame.assign(sales=frame["sales"] == "high")
    model = fit_files(written(flags, tmp_path / "x"), **FEW_FOLDS, features=["size"])
    assert model.classes.tolist() == [False, True]


@pytest.mark.usefixtures("little_room")
def test_counts_are_recognised(tmp_path):
    counts = sold("count", 200, 4)
    given = FEW_FOLDS | FEW | {"metric": "poisson-deviance"}
    model = fit_files(written(counts, tmp_path / "x"), **given)
    assert model.results["family"] == "poisson"
    assert any("poisson" in name for name in scores(model))
