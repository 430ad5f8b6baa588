"""Tables on many machines: the same numbers as from memory, whoever adds up, and whoever dies."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
import dask.dataframe as dd  # noqa: E402

from crosslearning.cli import main  # noqa: E402
from crosslearning.tables import (  # noqa: E402
    TableModel,
    engines,
    fit_files,
    fit_table,
)
from crosslearning.tables import dask as cluster  # noqa: E402
from tests.support.chunked_tables import assert_same, damaged, scores, shops, sold, written  # noqa: E402

pytestmark = pytest.mark.usefixtures("little_room")
FAST = ["--task", "shop", "--target", "sales"]


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
            silence_logs=50,
        ) as local,
        distributed.Client(local) as found,
    ):
        yield found


def load(part, folder, deadly):
    """Read a partition; the second time, that is while rows are summed, kill the worker."""
    mark = Path(folder) / "looked"
    if deadly and mark.exists() and not (Path(folder) / "killed").exists():
        (Path(folder) / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if deadly:
        mark.touch()
    return part


def partitioned(frame, folder, deadly=None, parts=5):
    chunks = [frame.iloc[part] for part in np.array_split(np.arange(len(frame)), parts)]
    delayed = [
        dask.delayed(load)(piece, str(folder), k == deadly) for k, piece in enumerate(chunks)
    ]
    return dd.from_delayed(delayed, meta=frame.iloc[:0], verify_meta=False)


@pytest.mark.slow
def test_a_cluster_gives_what_chunks_give_though_a_worker_is_killed(tmp_path, client, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = shops().drop(columns="day")
    chunks = fit_files(written(frame, tmp_path / "data"), task="shop", target="sales")
    monkeypatch.setattr(engines, "_RANGE", 500)  # several ranges of tasks
    model = fit_table(partitioned(frame, tmp_path, deadly=2), task="shop", target="sales")
    assert (tmp_path / "killed").exists()
    assert_same(chunks, model)
    assert scores(model) == pytest.approx(scores(chunks), rel=1e-8)
    for name in ("predictions", "sds", "errors"):
        ours, theirs = (getattr(m.residuals, name) for m in (model, chunks))
        np.testing.assert_allclose(np.hstack(ours), np.hstack(theirs), rtol=1e-6)
    address = client.scheduler_info()["address"]
    assert main(["fit", str(tmp_path / "data"), *FAST, "--scheduler", address, "--quiet"]) == 0
    assert_same(chunks, TableModel.load("crosslearning-data"))


@pytest.mark.parametrize(("parts", "kind"), [(1, "number"), (20, "number"), (7, "class")])
def test_partitions_do_not_matter(tmp_path, parts, kind):
    frame = shops(300, 6) if kind == "number" else sold("two", 200, 4)
    given = {"task": "shop", "target": "sales", "folds": 2, "features": ["size", "age"]}
    chunks = fit_files(written(frame, tmp_path / "data"), **given)
    with dask.config.set(scheduler="synchronous"):
        model = fit_table(partitioned(frame, tmp_path, parts=parts), **given)
    assert_same(chunks, model, 1e-8 if kind == "number" else 1e-6)
    assert scores(model) == pytest.approx(scores(chunks), rel=1e-8)


def test_empty_files_do_not_matter(tmp_path):
    frame = sold("two", 120, 3)
    folder = written(frame, tmp_path / "data")
    given = {"task": "shop", "target": "sales", "folds": 2, "features": ["size"]}
    chunks = fit_files(folder, **given)
    frame.iloc[:0].to_parquet(folder / "empty.parquet")
    with dask.config.set(scheduler="synchronous"):
        assert_same(chunks, cluster.fit_files(folder, **given), 1e-6)
    assert cluster.fit_table is fit_table


def test_errors_name_the_part(tmp_path):
    frame = shops().drop(columns="day")
    parts = [frame.iloc[:300], frame.iloc[300:].drop(columns="size")]
    lacking = dd.from_delayed(
        [dask.delayed(p) for p in parts], meta=frame.iloc[:0], verify_meta=False
    )
    bad = frame.assign(size=frame["size"].where(frame.index != 599, np.inf))
    unlabelled = frame.assign(shop=frame["shop"].where(frame.index != 599))
    with dask.config.set(scheduler="synchronous"):
        with pytest.raises(ValueError, match=r"Partition 1: All partitions must have.* no 'size'"):
            fit_table(lacking, task="shop", target="sales")
        with pytest.raises(
            ValueError, match=r"Partition 4: .*finite numbers; got inf in 1 row: 120"
        ):
            fit_table(partitioned(bad, tmp_path), task="shop", target="sales")
        with pytest.raises(ValueError, match=r"Partition 4: .* it has none in 1 row: 120"):
            fit_table(partitioned(unlabelled, tmp_path), task="shop", target="sales")
        folder = damaged(shops(), tmp_path / "x", "infinite")
        with pytest.raises(ValueError, match=r"part-2.parquet: .* got inf in 1 row: 200"):
            fit_files(folder, task="shop", target="sales", scheduler="current")


@pytest.mark.parametrize("error", [OSError, ValueError])
def test_a_scheduler_that_does_not_answer_is_named(tmp_path, monkeypatch, error):
    def refuse(*_, **__):
        raise error("as Dask says it")

    monkeypatch.setattr(distributed, "Client", refuse)
    folder = written(shops(), tmp_path / "data")
    with pytest.raises(OSError, match=r"No scheduler answers at foo\. An address is such as tcp:"):
        fit_files(folder, task="shop", target="sales", scheduler="foo")
