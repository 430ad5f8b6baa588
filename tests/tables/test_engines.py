"""One table in memory and in chunks: the same columns, models, predictions and notes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from crosslearning.tables import fit_files, fit_table
from crosslearning.tables.final import state_to_keep
from crosslearning.tables.learners.candidates import candidates
from crosslearning.tables.prepared import prepared
from crosslearning.tables.reading import files as table_files
from crosslearning.tables.rows import fitted
from tests.support.chunked_tables import written

GIVEN = {"task": "shop", "target": "sales"}
ROLES = {"weights": "weight", "time": None, "group": None}


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
            "row": 7 * np.arange(rows),
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


def in_memory(frame, chunks):
    """The model that was chosen in chunks, fitted to rows in memory; and the encoder."""
    found = chunks.results
    family = found["family"] or "auto"
    data = prepared(
        frame, **GIVEN, features=None, types={}, kind="auto", family=family, metric=None,
        roles=ROLES, folds=2, drop=False, seed=0,
    )  # fmt: skip
    rows = data.rows
    tried = candidates(
        data.goal.kind, data.goal.family, rows.X.shape, only=True, epsilon=np.inf,
        n_scores=rows.n_scores,
    )  # fmt: skip
    (same,) = [c for c in tried if c.name == found["chosen_model"]["name"]]
    model = fitted(same.estimator, rows, data.labels)
    return replace(chunks, encoder=data.encoder, state=state_to_keep(model))


@pytest.mark.parametrize(
    ("kind", "source"),
    [("number", "csv"), ("two", "csv"), ("five", "parquet"), ("count", "parquet")],
)
def test_predictions_are_those_of_memory(tmp_path, monkeypatch, kind, source):
    frame = shops(kind)
    family = {"number": "gaussian", "count": "poisson"}.get(kind, "auto")
    monkeypatch.setattr(table_files, "_NUMBERS", 9 * 97)
    monkeypatch.setattr(table_files, "_BLOCK", 9000)
    place = written(frame, tmp_path / "shops", parts=2)
    if source == "csv":
        place = tmp_path / "shops.csv"
        frame.to_csv(place, index=False)
    chunks = fit_files(place, **GIVEN, weights="weight", family=family, folds=2)
    memory = in_memory(frame, chunks)
    assert chunks.encoder == memory.encoder
    ours, theirs = (model.predict(and_beyond(frame)) for model in (chunks, memory))
    if chunks.classes is None:
        low, high = chunks.state["fitted"]["bounds_"]
        assert ours["prediction"].between(low, high).all()
    else:
        assert ours.pop("prediction").tolist() == theirs.pop("prediction").tolist()
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


def test_columns_and_notes_are_those_of_memory(tmp_path):
    frame = shops("number")
    memory = fit_table(frame, **GIVEN, family="gaussian", base="linear", folds=2)
    chunks = fit_files(written(frame, tmp_path / "shops"), **GIVEN, folds=2)
    for name in ("row", "family"):
        assert any(f"column {name} " in note for note in chunks.results["notes"])
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
