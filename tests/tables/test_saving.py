"""Fitted tables in folders: saved, loaded, never half, and never unpickled."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest

from crosslearning.archive import from_json, to_json
from crosslearning.tables import TableModel, check_folder
from crosslearning.tables.findings import Findings
from tests.support.tables import shops

FILES = ["coefficients.csv", "model.npz", "results.json"]


@pytest.mark.parametrize("name", ["regression", "binary"])
def test_what_is_saved_comes_back(name, tmp_path, request):
    model = request.getfixturevalue(name)
    folder = tmp_path / "deep" / "fit"
    for _ in range(2):  # an earlier fit is written anew
        model.save(folder)
        assert sorted(path.name for path in folder.iterdir()) == FILES
    stored = json.loads((folder / "results.json").read_text())
    assert stored == model.results
    assert to_json(from_json(Findings, stored)) == stored
    (folder / "results.json").unlink()  # a model needs none to predict
    for place in (folder, folder / "model.npz"):
        again = TableModel.load(place)
        assert again.results == {}
        pd.testing.assert_frame_equal(again.predict(shops()), model.predict(shops()))
    again.save(tmp_path / "alone")
    assert [path.name for path in (tmp_path / "alone").iterdir()] == ["model.npz"]


def test_what_belongs_to_another_model_is_removed(regression, binary, tmp_path):
    regression.save(tmp_path / "fit")
    (tmp_path / "fit" / "report.html").write_text("of the regression")
    binary.save(tmp_path / "fit")
    assert sorted(path.name for path in (tmp_path / "fit").iterdir()) == FILES


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
        with pytest.raises(type(error)):
            regression.save(tmp_path / name)
    assert not any((tmp_path / "new").iterdir())
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


def test_a_loaded_model_saved_where_it_was_leaves_its_results(regression, tmp_path):
    regression.save(tmp_path / "fit")
    TableModel.load(tmp_path / "fit").save(tmp_path / "fit")
    assert sorted(path.name for path in (tmp_path / "fit").iterdir()) == FILES
