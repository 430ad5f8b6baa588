"""Models in files: what is saved comes back, anything else is refused with a reason."""

import datetime as dt
import json
import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import GroupKFold

from crosslearning.linear import (
    CrossLogisticRegression,
    CrossLogisticRegressionCV,
    CrossRidge,
    CrossRidgeCV,
)
from tests.support.linear_laws import random_data

INF = np.inf
FAST = {"n_epsilons": 3, "cv": 2, "alphas": [1.0]}
MODELS = {
    "ridge": (CrossRidge(0.3), 0),
    "ridge by block": (CrossRidge({"coef": 0.3, "intercept": INF}, stiffness=0.1), 0),
    "binary": (CrossLogisticRegression(0.3), 2),
    "multinomial": (CrossLogisticRegression({"coef": 0.3}), 3),
    "ridge cv": (CrossRidgeCV(**FAST), 0),
    "ridge cv of springs": (CrossRidgeCV(**FAST, metric="standard", tether="spring"), 0),
    "logistic cv": (CrossLogisticRegressionCV(**FAST), 2),
}
LABELS = {
    "strings": ["a", "b", "c"],
    "integers": [3, 1, 2],
    "tuples": [("a", 1), ("a", 2), ("b", 1)],
    "mixed": ["a", 1, ("b", 1)],
    "dates": [dt.date(2020, 1, day) for day in (1, 2, 3)],
    "times": [dt.datetime(2020, 1, day, 12, 30) for day in (1, 2, 3)],
    "timestamps": list(pd.date_range("2020-01-01", periods=3)),
}
models = pytest.mark.parametrize(("model", "classes"), MODELS.values(), ids=MODELS.keys())


def fitted(model, classes=0, labels=("a", "b", "c")):
    """A fitted copy of the model, its features and its task labels."""
    data = random_data(0, (14, 12, 10), 2, classes)
    X = pd.DataFrame(data.X, columns=["ses", "size"])
    y = np.array(["low", "mid", "top"])[data.y] if classes else data.y
    tasks = [labels[t] for t in data.tasks]
    return pickle.loads(pickle.dumps(model)).fit(X, y, tasks=tasks), X, tasks


@pytest.fixture(scope="module")
def ridge():
    return fitted(CrossRidge(0.3))[0]


def assert_equal(ours, theirs, name):
    """Equal to the last bit, through dicts and tables."""
    assert type(ours) is type(theirs), name
    if isinstance(ours, dict):
        assert list(ours) == list(theirs), name
        for key, value in ours.items():
            assert_equal(value, theirs[key], f"{name}[{key}]")
    elif isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype, name
        assert np.array_equal(ours, theirs), name
    elif name == "comparison_":
        pd.testing.assert_frame_equal(ours.tasks, theirs.tasks, check_exact=True)
        pd.testing.assert_frame_equal(ours.summary, theirs.summary, check_exact=True)
        assert str(ours) == str(theirs)
    else:
        assert ours == theirs, name


@models
def test_everything_comes_back(tmp_path, model, classes):
    model, X, tasks = fitted(model, classes)
    path = tmp_path / "model.skops"
    model.save(path)
    again = type(model).load(path)
    assert vars(again).keys() == vars(model).keys() - {"_ends"}
    for name, value in vars(again).items():
        assert_equal(value, getattr(model, name), name)
    assert again.feature_names_in_.tolist() == ["ses", "size"]
    for labels in (tasks, ["unseen"] * len(tasks), "center"):
        assert np.array_equal(again.predict(X, labels), model.predict(X, labels))
        if classes:
            expected = model.predict_proba(X, labels)
            assert np.array_equal(again.predict_proba(X, labels), expected)
    new = again.fit_task(X[:10], model.predict(X, tasks)[:10])
    expected = model.fit_task(X[:10], model.predict(X, tasks)[:10])
    assert np.array_equal(new.coef_, expected.coef_)
    assert [file.name for file in tmp_path.iterdir()] == ["model.skops"]


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
@pytest.mark.parametrize("kind", ["ridge", "ridge cv of springs"])
def test_labels_come_back(tmp_path, kind, labels):
    model, X, tasks = fitted(*MODELS[kind], labels)
    model.save(tmp_path / "model")
    again = type(model).load(str(tmp_path / "model"))
    assert again.tasks_.tolist() == model.tasks_.tolist()
    assert [type(label) for label in again.tasks_] == [type(label) for label in model.tasks_]
    assert np.array_equal(again.predict(X, tasks), model.predict(X, tasks))


SETTINGS = {
    "scorer": {"scoring": "neg_mean_absolute_error"},
    "splits": {"cv": [(np.arange(18), np.arange(18, 36)), (np.arange(18, 36), np.arange(18))]},
    "radii": {"epsilons": np.array([0.1, 0.5])},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_settings_come_back(tmp_path, settings):
    model, X, tasks = fitted(CrossRidgeCV(**FAST | settings))
    model.save(tmp_path / "model")
    again = CrossRidgeCV.load(tmp_path / "model")
    assert again.get_params().keys() == model.get_params().keys()
    assert np.array_equal(again.predict(X, tasks), model.predict(X, tasks))


def private(estimator, X, y):
    """A scorer that only this program has."""
    return -np.abs(y - estimator.predict(X)).mean()


class Shop:
    """A label that only this program has."""


FOREIGN = {
    "function": lambda: fitted(CrossRidgeCV(**FAST, scoring=private))[0],
    "label": lambda: fitted(CrossRidge(), labels=[Shop(), Shop(), Shop()])[0],
    "scorer": lambda: fitted(CrossRidgeCV(**FAST, scoring=make_scorer(mean_absolute_error)))[0],
    "splitter": lambda: fitted(CrossRidgeCV(**FAST | {"cv": GroupKFold(2)}))[0],
}


@pytest.mark.parametrize("model", FOREIGN.values(), ids=FOREIGN.keys())
def test_what_load_would_refuse_is_not_saved(tmp_path, model, ridge):
    path, model = tmp_path / "model", model()
    ridge.save(path)
    try:
        model.save(path)
    except ValueError:
        model = ridge
    assert np.array_equal(type(model).load(path).coef_, model.coef_)


def a_zip(path, schema=None):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("schema.json" if schema is not None else "notes.txt", schema or "hello")


def without_arrays(path):
    with zipfile.ZipFile(path) as archive:
        schema = archive.read("header.npy")
    a_zip(path, schema)


FILES = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("school,math\n1,2\n"),
    "pickle": lambda path: path.write_bytes(pickle.dumps({"coef_": 1.0})),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "all but the end": lambda path: path.write_bytes(path.read_bytes()[:-30]),
    "zip": a_zip,
    "no json": lambda path: a_zip(path, "{"),
    "empty schema": lambda path: a_zip(path, "{}"),
    "list": lambda path: a_zip(path, "[]"),
    "later version": lambda path: a_zip(path, json.dumps({"protocol": 1000})),
    "no arrays": without_arrays,
    "dictionary": lambda path: skops.io.dump({"coef_": np.ones(3)}, path),
    "other model": lambda path: skops.io.dump(Ridge().fit([[1.0], [2.0]], [1.0, 2.0]), path),
    "foreign type": lambda path: skops.io.dump(random_data(0, (3, 3), 2), path),
}


@pytest.mark.parametrize("spoil", FILES.values(), ids=FILES.keys())
def test_other_files_are_refused(tmp_path, spoil, ridge):
    path = tmp_path / "model.skops"
    ridge.save(path)
    spoil(path)
    with pytest.raises(ValueError, match=r"model\.skops") as error:
        CrossRidge.load(path)
    assert ".load" not in str(error.value)  # nothing else has one


def test_damaged_bytes_are_refused_or_harmless(tmp_path, ridge):
    path = tmp_path / "model.skops"
    ridge.save(path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(150):
        damaged = bytearray(whole)
        for place in rng.integers(len(whole), size=3):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            again = CrossRidge.load(path)
        except ValueError:
            continue
        assert np.array_equal(again.coef_, ridge.coef_)


def test_another_class_is_named(tmp_path, ridge):
    ridge.save(tmp_path / "model")
    for kind in (CrossRidgeCV, CrossLogisticRegression):
        with pytest.raises(ValueError, match=f"a CrossRidge, not a {kind.__name__}.*CrossRidge.l"):
            kind.load(tmp_path / "model")


def test_missing_file_and_missing_fit(tmp_path):
    with pytest.raises(FileNotFoundError):
        CrossRidge.load(tmp_path / "model")
    with pytest.raises(NotFittedError):
        CrossRidge().save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_failure_leaves_the_old_file(tmp_path, ridge, monkeypatch):
    path = tmp_path / "model"
    ridge.save(path)
    before = path.read_bytes()

    def full(file, **_):
        file.write(b"half a model")
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space left"):
        ridge.save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_a_folder_is_no_file_to_save_to(tmp_path, ridge):
    with pytest.raises(ValueError, match=r"is a folder\. Name a file in it"):
        ridge.save(tmp_path)
