"""Tables that are read in chunks: the same models as from memory, and errors that say where."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosslearning import report
from crosslearning.cli import main
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.frames import reading as table_files
from crosslearning.frames.reading import Files, is_large
from crosslearning.linear import CrossBayesianRidge
from crosslearning.tables import fit_files, fit_table, predict_files, read_table
from crosslearning.tables.learners.candidates import candidates
from crosslearning.tables.learners.search import compare_by_sums
from crosslearning.tables.rows import Rows
from crosslearning.tasks.folds import deal
from tests.support.chunked_tables import assert_same, damaged, scores, shops, written


@pytest.mark.usefixtures("little_room")
def test_chunks_give_the_model_that_memory_gives(tmp_path, monkeypatch):
    frame = shops()
    whole = fit_files(
        written(frame, tmp_path / "one", parts=1), task="shop", target="sales", folds=2
    )
    memory = fit_table(
        frame, task="shop", target="sales", folds=2, family="gaussian", base="linear"
    )
    assert whole.results["chosen_model"]["name"] == "cross"
    estimator = CrossBayesianRidge().fit(
        memory.encoder.encode(frame), frame["sales"], tasks=frame["shop"]
    )
    np.testing.assert_allclose(whole.estimator.coef_, estimator.coef_, rtol=1e-8, atol=1e-8)
    assert whole.encoder == memory.encoder
    monkeypatch.setattr(table_files, "_NUMBERS", 6 * 57)
    pieces = fit_files(tmp_path / "one", task="shop", target="sales", folds=2)
    assert_same(whole, pieces)
    assert scores(pieces) == pytest.approx(scores(whole), rel=1e-8)
    several = fit_files(written(frame, tmp_path / "some"), task="shop", target="sales", folds=2)
    assert_same(whole, several)
    assert scores(several) == pytest.approx(scores(whole), rel=1e-8)
    for name in ("predictions", "sds", "errors"):
        ours, theirs = (getattr(m.residuals, name) for m in (several, whole))
        np.testing.assert_allclose(np.hstack(ours), np.hstack(theirs), rtol=1e-6)


@pytest.mark.usefixtures("little_room")
def test_csv_is_understood_as_in_memory(tmp_path, monkeypatch):
    frame = shops().drop(columns="day").assign(shop=lambda f: f["shop"].str[1:].astype(int))
    frame.loc[5, "sales"] = np.nan
    text = frame.to_csv(index=False, sep=";", decimal=",").replace(";a\n", "; a\n")
    (tmp_path / "shops.csv").write_text(text)
    monkeypatch.setattr(table_files, "_NUMBERS", 1000)
    model = fit_files(tmp_path / "shops.csv", task="shop", target="sales", folds=2)
    parquet = fit_files(written(frame, tmp_path / "some"), task="shop", target="sales", folds=2)
    assert model.state["fitted"]["tasks_"].tolist() == list(range(12))
    assert_same(model, parquet)
    assert "1 row without a target left out" in model.results["notes"]
    assert model.results["size"]["rows"] == 599


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize("target", ["sales", "kind"])  # by sums, and by rows
def test_no_further_model_is_tried_after_the_time_budget(target, tmp_path):
    folder = written(shops(), tmp_path / "x")
    given = {"task": "shop", "target": target, "features": ["size"], "folds": 2}
    first, every = (fit_files(folder, **given, time_budget=t).results for t in (1e-9, np.inf))
    names = [[model["name"] for model in found["models"]] for found in (first, every)]
    assert names[0] == ["pooled"]
    assert sorted(names[1]) == ["cross", "levels", "pooled", "separate"]
    notes = [[n for n in found["notes"] if "option time_budget" in n] for found in (first, every)]
    assert notes[0][0].startswith("no time for common slopes, a level per task (and 2 more), ")
    assert notes[1] == []


def test_scores_of_sums_are_those_of_rows():
    rng = np.random.default_rng(1)
    X, codes = rng.normal(size=(300, 2)), rng.integers(5, size=300)
    y = X[:, 0] * codes + rng.normal(size=300)
    folds, _ = deal(codes, np.zeros(5, dtype=np.int64), 3, seed=0)
    sums = Statistics.of(X, y, codes, folds=folds)
    tried = candidates("regression", "gaussian", only=True, epsilon=np.inf)
    kept, ends = Rows(X, y, codes, 5, folds=folds), np.array([y.min(), y.max()])
    parts = [([k for k in range(3) if k != s], s) for s in range(3)]
    trials, *_ = compare_by_sums(tried, sums, kept, ends, parts, 100, lambda _: None)
    for m, candidate in enumerate(tried):
        for s in range(3):
            train, test = folds != s, folds == s
            model = candidate.estimator.fit(X[train], y[train], tasks=codes[train])
            squares = (model.predict(X[test], tasks=codes[test]) - y[test]) ** 2
            own = [-squares[codes[test] == task].mean() for task in range(5)]
            np.testing.assert_allclose(trials.scores.values[m, s], own, rtol=1e-8)  # noqa: PD011
    guess = [(y[folds == s] - y[folds != s].mean()) ** 2 for s in range(3)]
    squares = np.concatenate(guess)
    order = np.concatenate([codes[folds == s] for s in range(3)])
    expected = -np.mean([squares[order == task].mean() for task in range(5)])
    assert trials.baseline == pytest.approx(expected)


@given(
    st.lists(st.integers(0, 4), max_size=60),
    st.integers(2, 6),
    st.integers(0, 3),
    st.integers(0, 60),
)
def test_folds_are_even_and_do_not_depend_on_chunks(tasks, n_folds, seed, cut):
    codes = np.array(tasks, dtype=np.intp)
    folds, keys = deal(codes, np.zeros(5, dtype=np.int64), n_folds, seed)
    counts = np.zeros((5, n_folds), dtype=int)
    np.add.at(counts, (codes, folds), 1)
    assert np.ptp(counts, axis=1).max() <= 1
    seen = np.zeros(5, dtype=np.int64)
    parts = [deal(part, seen, n_folds, seed) for part in (codes[:cut], codes[cut:])]
    np.testing.assert_array_equal(np.concatenate([part[0] for part in parts]), folds)
    np.testing.assert_array_equal(np.concatenate([part[1] for part in parts]), keys)
    assert np.all((keys >= 0) & (keys <= 1))


def test_folds_begin_anywhere():
    codes = np.zeros(100_000, dtype=np.intp)
    folds, keys = deal(codes, np.zeros(1, dtype=np.int64), 5, seed=0)
    shares = np.bincount(folds[::5], minlength=5) / 20_000
    np.testing.assert_allclose(shares, 0.2, atol=0.02)
    np.testing.assert_allclose(np.quantile(keys, [0.1, 0.5, 0.9]), [0.1, 0.5, 0.9], atol=0.01)


@pytest.mark.usefixtures("little_room")
def test_columns_are_recognised_from_a_sample(tmp_path, monkeypatch):
    frame = shops(3000).assign(number=np.arange(3000))
    frame.loc[1234, "kind"] = "seldom"
    monkeypatch.setattr("crosslearning.frames.survey._SAMPLE", 200)
    model = fit_files(written(frame, tmp_path / "x"), task="shop", target="sales", folds=2)
    assert "column number left out: it numbers the rows" in model.results["notes"]
    assert model.encoder.levels["kind"] == ["a", "b", "c"]
    note = "columns were recognised from 200 rows drawn at random, and medians in place of gaps"
    assert note in model.results["notes"]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("truncated", "part-2.parquet: "),
        ("schema", "Failed to parse string: 'large'"),
        ("lacking", "must have the same columns; it lacks 'size'"),
        ("label", "it has none in 1 row: 200 (the first below the header is 1)"),
        ("infinite", "'size' must hold finite numbers; got inf in 1 row: 200 "),
    ],
)
def test_an_error_names_the_file_and_nothing_is_written(tmp_path, capsys, how, said):
    folder, out = damaged(shops(), tmp_path / "data", how), tmp_path / "out"
    assert main(["fit", str(folder), "--task", "shop", "--target", "sales", "--out", str(out)])
    message = " ".join(capsys.readouterr().err.split())
    assert "part-2.parquet" in message
    assert said in message
    assert not out.exists()


def test_text_among_numbers_is_missing_as_in_memory(tmp_path, monkeypatch):
    lines = ["shop,size,sales", *(f"s{k % 3},{k}.5,{k * k % 7}" for k in range(500))]
    lines[400] = "s1,many,3"
    (tmp_path / "shops.csv").write_text("\n".join(lines) + "\n")
    options = {"task": "shop", "target": "sales", "family": "gaussian", "base": "linear"}
    memory = fit_table(read_table(tmp_path / "shops.csv"), **options)
    monkeypatch.setattr(table_files, "_HEAD", 1000)
    monkeypatch.setattr(table_files, "_NUMBERS", 300)
    chunks = fit_files(tmp_path / "shops.csv", **options)
    assert chunks.encoder.numbers == memory.encoder.numbers
    assert chunks.encoder.flagged == ["size"]
    note = "column size: values that are not numbers count as missing: 'many'"
    assert note in chunks.results["notes"]


@pytest.mark.usefixtures("little_room")
def test_what_needs_all_rows_is_refused(tmp_path):
    frame = shops().assign(sales=lambda f: np.exp(f["sales"] / 9))
    folder, given = written(frame, tmp_path / "x"), {"task": "shop", "target": "sales"}
    with pytest.raises(ValueError, match="Option family=gamma needs all rows in memory"):
        fit_files(folder, **given, family="gamma")
    with pytest.raises(ValueError, match="by time or by group"):
        fit_files(folder, **given, time="day", group="kind")
    with pytest.raises(ValueError, match="no area under the curve"):
        fit_files(folder, task="shop", target="kind", metric="auc", held_out=folder)
    with pytest.raises(ValueError, match="No Parquet or CSV file matches"):
        fit_files(tmp_path / "*.parquet", **given)


@pytest.mark.usefixtures("little_room")
def test_the_command_reads_patterns_in_chunks(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(shops(), tmp_path / "data")
    assert main(["fit", "data/*.parquet", "--task", "shop", "--target", "sales"]) == 0
    assert "Sharing helps" in capsys.readouterr().out
    assert (tmp_path / "crosslearning-data" / "report.html").stat().st_size < 3e6
    assert main(["fit", "data", "--task", "shop", "--target", "sales", "--base", "splines"])
    assert "Option base=splines needs all rows in memory" in " ".join(
        capsys.readouterr().err.split()
    )


def test_large_files_are_read_in_chunks(tmp_path, monkeypatch):
    frame = shops()
    written(frame, tmp_path / "data", parts=1)
    frame.to_csv(tmp_path / "a.csv")
    paths = [str(tmp_path / "data/part-0.parquet"), str(tmp_path / "a.csv")]
    assert [is_large(path) for path in paths] == [False, False]
    assert is_large(str(tmp_path / "data"))
    monkeypatch.setattr(table_files, "_LARGE", 1000)
    assert [is_large(path) for path in paths] == [True, True]


def test_files_may_differ_in_the_size_of_numbers(tmp_path):
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), tmp_path / "0.parquet")
    pq.write_table(
        pa.table({"a": pa.array([3.0], pa.float32()), "b": ["z"]}), tmp_path / "1.parquet"
    )
    read = Files.of(str(tmp_path)).each(["a"], lambda _, frame: frame["a"].tolist())
    assert list(read) == [[1, 2], [3]]


@pytest.mark.usefixtures("little_room")
def test_of_many_tasks_the_ends_and_some_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr("crosslearning.tables.describe._MOST_TASKS", 60)
    monkeypatch.setattr("crosslearning.tables.describe._AT_ENDS", 5)
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(300), 6)
    x = rng.normal(size=1800)
    y = x * rng.normal(1.0, 0.5, size=300)[task] + rng.normal(size=1800)
    frame = pd.DataFrame({"task": task, "x": x, "y": y})
    model = fit_files(written(frame, tmp_path / "data"), task="task", target="y", folds=2)
    found = model.results
    assert found["size"] == {
        "tasks": 300,
        "rows": 1800,
        "smallest": 6,
        "largest": 6,
        "compared": 300,
    }
    listed = [row["task"] for row in found["tasks"]]
    assert 40 < len(listed) <= 60
    assert found["comparison"]["labels"] == listed
    (predictor,) = found["coefficients"]["predictors"]
    assert len(predictor["tasks"]) == len(predictor["intercepts"]) == len(listed)
    model.save(tmp_path / "out")
    page = report.write(tmp_path / "out").read_text()
    assert "300\xa0tasks: a model" in page
    assert "tasks in the middle are omitted here." in page
    assert len(model.predict(frame.head(7))) == 7


@pytest.fixture(scope="module")
def model():
    quick = {"base": "linear", "family": "gaussian", "folds": 2}
    return fit_table(shops().drop(columns="day"), task="shop", target="sales", **quick)


@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz", ".parquet"])
@pytest.mark.parametrize("source", ["parquet", "csv"])
def test_predictions_in_chunks_are_those_in_memory(tmp_path, monkeypatch, suffix, source, model):
    frame = shops().drop(columns="day")
    frame.loc[3, "shop"], frame.loc[4, "kind"], frame.loc[5, "sales"] = "new", "z", np.nan
    frame.loc[[6, 500], "size"] = -99.0
    frame.insert(0, "note", [f"{k:03d}, odd" for k in range(600)])
    if source == "csv":
        path = tmp_path / "shops.csv"
        frame.to_csv(path, index=False, na_rep="NA")
    else:
        path = written(frame, tmp_path / "data", parts=2)
    monkeypatch.setattr(table_files, "_NUMBERS", 6 * 91)
    out = tmp_path / f"out{suffix}"
    predicted = predict_files(model, path, out)
    expected = model.predict(frame)
    result = read_table(out, text=["note"])
    assert list(result.columns) == [*frame.columns, *expected.columns]
    np.testing.assert_allclose(result[expected.columns], expected, rtol=1e-12)
    assert result["note"].tolist() == frame["note"].tolist()
    if source == suffix[1:] == "csv":
        rows = pd.read_csv(out, dtype=str, keep_default_na=False)[frame.columns]
        pd.testing.assert_frame_equal(rows, pd.read_csv(path, dtype=str, keep_default_na=False))
    assert predicted.rows == 600
    assert predicted.unknown == {"new": 1}
    assert predicted.categories == {"kind": {"z": 1}}
    assert (predicted.outside_rows, predicted.outside) == (2, {"size": 2})
    assert predicted.score[1:] == pytest.approx(model.score(frame)[1:])


@pytest.mark.usefixtures("little_room")
def test_predictions_are_written_in_full_or_not_at_all(tmp_path, capsys, monkeypatch):
    frame = shops()
    model = fit_files(written(frame, tmp_path / "data"), task="shop", target="sales", folds=2)
    model.save(tmp_path / "fit")
    out = tmp_path / "predicted.parquet"
    assert main(["predict", str(tmp_path / "fit"), str(tmp_path / "data"), "--out", str(out)]) == 0
    assert "600 predictions in" in capsys.readouterr().out
    assert pq.read_metadata(out).num_rows == 600
    out.unlink()
    damaged(frame, tmp_path / "data", "infinite")
    monkeypatch.setattr(table_files, "_NUMBERS", 600)
    assert main(["predict", str(tmp_path / "fit"), str(tmp_path / "data"), "--out", str(out)])
    assert "part-2.parquet: Column 'size' must hold" in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in tmp_path.iterdir()].count("predicted.parquet") == 0
    assert not list(tmp_path.glob(".predicted*"))
    taken = written(frame.assign(std=1.0), tmp_path / "taken")
    with pytest.raises(ValueError, match="has a column 'std', as predictions do"):
        predict_files(model, taken, out)
    with pytest.raises(OSError, match="Cannot write"):
        predict_files(model, tmp_path / "taken", tmp_path / "none" / "x.csv")


def test_truth_values_in_chunks_of_text_are_numbers(tmp_path):
    frame = shops().drop(columns="day").assign(open=lambda f: f["size"] > 0)
    quick = {"base": "linear", "family": "gaussian", "folds": 2}
    model = fit_table(frame, task="shop", target="sales", **quick)
    frame.to_csv(tmp_path / "new.csv", index=False)
    predicted = predict_files(model, tmp_path / "new.csv", tmp_path / "out.csv")
    assert not predicted.unread
    result = read_table(tmp_path / "out.csv")["prediction"]
    np.testing.assert_allclose(result, model.predict(frame)["prediction"], rtol=1e-12)
