"""One table in memory and in chunks: the same columns, models, predictions and notes."""

import warnings
from dataclasses import replace

import dask
import numpy as np
import pandas as pd
import pytest

from crosslearning import CrossRegressor
from crosslearning.exceptions import ConvergenceWarning
from crosslearning.frames import reading as table_files
from crosslearning.frames import survey
from crosslearning.linear._estimator import state_of
from crosslearning.tables import engines, fit_files, fit_table, pipeline
from crosslearning.tables.engines import Engine, FrameTable
from crosslearning.tables.learners.candidates import candidates
from crosslearning.tables.rows import fitted
from crosslearning.tables.schema import Schema
from crosslearning.tables.settings import FitSettings
from crosslearning.tasks.folds import deal, uniform
from tests.support.chunked_tables import written

GIVEN = {"task": "shop", "target": "sales"}
FEW = {"features": ["size", "age", "zip"]}


def shops(kind, rows=300, tasks=6, seed=3):
    """Shops with gaps, codes, rare levels, dates, weights of 0, and a target of some kind."""
    rng = np.random.default_rng(seed)
    task = rng.integers(tasks, size=rows)
    size, age = rng.normal(size=(2, rows))
    slope, level = 0.5 + 0.7 * rng.normal(size=tasks), rng.normal(size=tasks)
    score = slope[task] * size + level[task] + 0.3 * age
    chance = score + rng.logistic(size=rows)
    target = {
        "number": 10 * score + rng.normal(size=rows),
        "two": np.where(chance > 0, "high", "low"),
        "five": np.array(list("abcde"))[np.digitize(chance, [-2, -0.7, 0.7, 2])],
        "count": rng.poisson(np.exp(0.5 * score)),
    }
    frame = pd.DataFrame(
        {
            "shop": 10 + task,
            "row": np.arange(rows),
            "size": size,
            "age": np.where(rng.random(rows) < 0.1, np.nan, age),
            "zip": rng.choice([1010, 2020, 3030, 4040], size=rows, p=[0.4, 0.3, 0.29, 0.01]),
            "family": np.arange(rows) // 2 + 1000,
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(300, size=rows), "D"),
            "weight": np.where(rng.random(rows) < 0.1, 0.0, rng.uniform(0.5, 2.0, size=rows)),
            "sales": target[kind],
        }
    )
    # Four scores of 17 features are more than 60 coefficients.
    more = rng.normal(size=(rows, 7)) if kind == "five" else np.empty((rows, 0))
    return frame.join(pd.DataFrame(more).add_prefix("x"))


def and_beyond(frame):
    """The rows again: beyond their range, of a new shop, with a new code, and with a gap."""
    odd = frame.head(60).copy()
    odd["size"] *= 40
    odd.loc[:9, "shop"] = 99
    odd.loc[10:19, "zip"] = 5050
    odd.loc[20:29, "age"] = np.nan
    return pd.concat([frame, odd], ignore_index=True)


def in_memory(frame, chunks, **options):
    """The model that was chosen in chunks, fitted to rows in memory."""
    engine = Engine(FrameTable(frame))
    settings = FitSettings(**options)
    schema = Schema.of(settings, engine.survey(settings), text_labels=False)
    rows, _, _ = schema.rows_of(engine.collect(schema).kept)
    tried = candidates(schema.target.kind, schema.target.family, only=True, epsilon=np.inf)
    (same,) = [c for c in tried if c.name == chunks.results["chosen_model"]["name"]]
    state = state_of(fitted(same.estimator, rows, schema.labels))
    return replace(chunks, encoder=schema.encoder, state=state)


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("number", "csv"),
        ("two", "csv"),
        pytest.param("five", "parquet", marks=pytest.mark.slow),
        ("count", "parquet"),
    ],
)
def test_models_of_sums_and_passes_predict_as_those_of_memory(tmp_path, monkeypatch, kind, source):
    frame = shops(kind)
    family = {"number": "gaussian", "count": "poisson"}.get(kind, "auto")
    monkeypatch.setattr(table_files, "_NUMBERS", 9 * 97)
    place = written(frame, tmp_path / "shops", parts=2)
    if source == "csv":
        place = tmp_path / "shops.csv"
        frame.to_csv(place, index=False)
    options = {**GIVEN, "weights": "weight", "family": family, "folds": 2}
    options |= FEW if kind in ("two", "count") else {}
    chunks = fit_files(place, **options)
    memory = in_memory(frame, chunks, **options)
    assert chunks.encoder == memory.encoder
    ours, theirs = (model.predict(and_beyond(frame)) for model in (chunks, memory))
    tolerance = 1e-6 if kind == "number" else 1e-2  # passes stop earlier
    if chunks.classes is None:
        low, high = chunks.state["fitted"]["bounds_"]
        assert ours["prediction"].between(low, high).all()
    else:
        ours, theirs = ours.drop(columns="prediction"), theirs.drop(columns="prediction")
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def without_provenance(model):
    """Results but for when, how long, and by which lines."""
    results = {name: value for name, value in model.results.items() if name != "created"}
    for name in ("python", "provenance"):
        del results[name]
    for row in results["models"]:
        del row["seconds"]
    return results


@pytest.mark.parametrize(
    ("kind", "base"),
    [
        pytest.param("number", "splines", marks=pytest.mark.slow),
        ("number", "linear"),
        ("two", "linear"),
        pytest.param("count", "linear", marks=pytest.mark.slow),
    ],
)
def test_a_table_that_fits_into_memory_is_the_same_to_every_engine(tmp_path, kind, base):
    dd = pytest.importorskip("dask.dataframe")
    frame = shops(kind, 180, 4)
    options = {**GIVEN, "weights": "weight", "folds": 2, "base": base}
    if base == "linear":
        numbers = {"number": {"family": "gaussian"}, "count": {**FEW, "family": "poisson"}}
        options |= numbers.get(kind, {"features": ["size"]})
    memory = fit_table(frame, **options)
    frame.to_csv(tmp_path / "shops.csv", index=False)
    parquet = written(frame, tmp_path / "shops", parts=2)
    with dask.config.set(scheduler="synchronous"):
        cluster = fit_table(dd.from_pandas(frame, npartitions=3), **options)
    others = [fit_files(parquet, **options), fit_files(tmp_path / "shops.csv", **options), cluster]
    expected, results = memory.predict(and_beyond(frame)), without_provenance(memory)
    for other in others:
        assert without_provenance(other) == results
        pd.testing.assert_frame_equal(other.predict(and_beyond(frame)), expected, rtol=1e-12)


@pytest.mark.usefixtures("little_room")
def test_columns_and_notes_are_those_of_memory(tmp_path):
    frame = shops("number")
    memory = fit_table(frame, **GIVEN, family="gaussian", base="linear", folds=2)
    chunks = fit_files(written(frame, tmp_path / "shops"), **GIVEN, folds=2)
    assert any("column row left out" in note for note in chunks.results["notes"])
    columns = [model.results["provenance"]["columns"] for model in (chunks, memory)]
    assert columns[0] == columns[1]
    assert chunks.results["notes"] == memory.results["notes"]


@pytest.mark.parametrize("weight", [0.0, [-1.0, *[1.0] * 299], [np.nan, *[1.0] * 299]])
def test_weights_are_checked_as_in_memory(tmp_path, weight):
    frame = shops("number").assign(weight=weight)
    messages = []
    for fit, table in ((fit_table, frame), (fit_files, written(frame, tmp_path / "shops", 1))):
        with pytest.raises(ValueError, match="weights in 'weight' must") as caught:
            fit(table, **GIVEN, weights="weight")
        messages.append(str(caught.value))
    assert messages[1].endswith(messages[0])


def test_rows_without_weight_count_neither_for_the_guess_nor_for_intervals(tmp_path, monkeypatch):
    frame = shops("number").assign(weight=1.0)
    wild = np.arange(len(frame)) % 20 == 0
    frame.loc[wild, "weight"] = 0.0
    options = {**GIVEN, "weights": "weight", "family": "gaussian", "base": "linear", "folds": 2}
    expected = fit_table(frame, **options)
    monkeypatch.setattr(engines, "ROOM", 250)
    in_chunks = fit_files(written(frame, tmp_path / "shops"), **options)
    wide = frame.assign(sales=frame["sales"].where(~wild, 5000.0))
    memory = fit_table(wide, **options)
    baselines = [model.results["score"]["baseline"] for model in (memory, expected)]
    assert baselines[0] == pytest.approx(baselines[1])
    chunks = fit_files(written(wide, tmp_path / "shops"), **options)
    widths = [np.ptp(m.predict(frame)[["lower", "upper"]], axis=1) for m in (chunks, in_chunks)]
    np.testing.assert_allclose(*widths, rtol=1e-6)


def test_which_tasks_are_kept_does_not_depend_on_folds():
    """Both are random by the number of a task, and were the same with the seed 0."""
    codes = np.repeat(np.arange(4000), 2)
    folds, _ = deal(codes, np.zeros(4000, dtype=np.int64), 5, seed=0)
    some = uniform(codes, 0, 0, "task") < 0.1
    shares = np.bincount(folds[some], minlength=5) / some.sum()
    np.testing.assert_allclose(shares, 0.2, atol=0.06)


def test_files_that_fit_into_memory_are_recognised_from_all_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(survey, "_SAMPLE", 50)
    quick = {"base": "linear", "family": "gaussian", "folds": 2}
    model = fit_files(written(shops("number"), tmp_path / "x"), **GIVEN, **quick)
    assert not any("drawn at random" in note for note in model.results["notes"])


def test_lines_of_python_name_the_function_of_the_engine():
    dd = pytest.importorskip("dask.dataframe")
    frame, options = shops("number"), {**GIVEN, "base": "linear", "folds": 2, "family": "gaussian"}
    with dask.config.set(scheduler="synchronous"):
        cluster = fit_table(dd.from_pandas(frame, npartitions=2), **options)
    assert "from crosslearning.tables import fit_table" in cluster.results["python"]
    endless = fit_table(frame, **options, time_budget=np.inf)
    assert 'time_budget=float("inf")' in endless.results["python"]


def test_warnings_keep_their_class_and_name_the_line_of_the_caller(tmp_path, monkeypatch):
    def after_a_warning(*given):
        warnings.warn("the solver\nstopped", ConvergenceWarning, stacklevel=1)
        return fit_to_rows(*given)

    fit_to_rows, frame = pipeline.fit_to_rows, shops("number")[["shop", "size", "sales"]]
    monkeypatch.setattr(pipeline, "fit_to_rows", after_a_warning)
    first = {"base": "linear", "folds": 2, "time_budget": 1e-9}
    fits = (
        lambda: fit_table(frame, **GIVEN, **first),
        lambda: fit_files(written(frame, tmp_path / "files"), **GIVEN, **first),
        lambda: CrossRegressor(**first).fit(frame[["size"]], frame["sales"], tasks=frame["shop"]),
    )
    for fit in fits:
        with pytest.warns(ConvergenceWarning, match="the solver stopped") as caught:
            model = fit()
        assert {warning.filename for warning in caught} == {__file__}
        assert getattr(model, "model_", model).results["warnings"] == ["the solver stopped"]
