"""The packaged tables: their sizes, their columns, their notices."""

import subprocess
import sys
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest

from crosslearning.datasets import load_ames, load_hsb82

loaders = pytest.mark.parametrize("load", [load_hsb82, load_ames])


@pytest.mark.parametrize(
    ("load", "n_rows", "n_tasks", "smallest", "largest"),
    [(load_hsb82, 7185, 160, 14, 67), (load_ames, 2919, 25, 10, 443)],
)
def test_sizes(load, n_rows, n_tasks, smallest, largest):
    data = load()
    assert len(data.X) == len(data.y) == len(data.tasks) == len(data.frame) == n_rows
    sizes = data.tasks.value_counts()
    assert (len(sizes), sizes.min(), sizes.max()) == (n_tasks, smallest, largest)


@loaders
def test_tables_fit_together(load):
    data = load()
    index = pd.RangeIndex(len(data.frame))
    for table in (data.X, data.y, data.tasks, data.frame):
        pd.testing.assert_index_equal(table.index, index)
        assert not table.isna().to_numpy().any()
    pd.testing.assert_frame_equal(data.X, data.frame[list(data.X)])
    pd.testing.assert_series_equal(data.tasks, data.frame[data.tasks.name])
    assert not {data.tasks.name, data.y.name, "Sale_Price"} & set(data.X)
    assert np.isfinite(data.y).all()


@loaders
def test_every_call_returns_tables_of_its_own(load):
    data, untouched = load(), load()
    column = data.X.select_dtypes("number").columns[0]
    data.X.loc[0, column] = 10**6
    data.y.loc[0] = 10.0**6
    data.tasks.loc[0] = data.tasks.iloc[-1]
    pd.testing.assert_frame_equal(data.frame, untouched.frame)
    data.frame.loc[:, data.tasks.name] = data.tasks.iloc[-1]
    again = load()
    for name in ("X", "frame"):
        pd.testing.assert_frame_equal(getattr(again, name), getattr(untouched, name))
    for name in ("y", "tasks"):
        pd.testing.assert_series_equal(getattr(again, name), getattr(untouched, name))


def test_hsb82_columns():
    data = load_hsb82()
    assert list(data.X) == ["minority", "female", "ses"]
    assert (data.y.name, data.tasks.name) == ("math", "school")
    assert data.tasks.dtype.kind == "i"
    X = load_hsb82(school_features=True).X
    assert list(X) == ["minority", "female", "ses", "meanses", "catholic"]
    schools = X[["meanses", "catholic"]].assign(school=data.tasks).drop_duplicates()
    assert len(schools) == 160


def test_ames_columns():
    data = load_ames()
    assert (data.y.name, data.tasks.name) == ("log_sale_price", "Neighborhood")
    np.testing.assert_allclose(np.exp(data.y), data.frame["Sale_Price"], rtol=1e-12)
    assert list(data.X.select_dtypes("category")) == ["Overall_Cond", "House_Style", "Central_Air"]
    assert data.X["Overall_Cond"].min() == "Very_Poor"
    assert data.X["Overall_Cond"].max() == "Excellent"
    numeric = load_ames(numeric_only=True).X
    pd.testing.assert_frame_equal(numeric, data.X.select_dtypes("number"))
    assert numeric.shape[1] == data.X.shape[1] - 3


def test_ames_is_as_its_docstring_says():
    frame = load_ames().frame
    assert (frame["Lot_Frontage"] == 0).sum() == 486
    assert set(frame["BsmtFin_SF_1"]) <= set(range(8))
    area = frame["Total_Bsmt_SF"] - frame["BsmtFin_SF_2"] - frame["Bsmt_Unf_SF"]
    assert area.min() == 0
    assert area.max() > 1000


@loaders
def test_origin_and_licence_are_stated(load):
    data = load()
    assert "Origin: " in data.description
    assert "Licence: " in data.description
    assert "\n" not in data.description
    assert repr(data) == f"TableData(name='{data.name}')"
    directory = files("crosslearning.datasets") / "data"
    assert f"`{data.name}.csv.gz`" in (directory / "NOTICES.md").read_text(encoding="utf-8")


def test_every_packaged_file_has_a_notice():
    directory = files("crosslearning.datasets") / "data"
    notices = (directory / "NOTICES.md").read_text(encoding="utf-8")
    packaged = {path.name for path in directory.iterdir()} - {"NOTICES.md"}
    assert packaged >= {"hsb82.csv.gz", "ames.csv.gz"}
    assert all(f"`{name}`" in notices for name in packaged)
    assert "Copyright (c) 2023 modeldata authors" in notices


def test_import_is_light():
    code = "import sys, crosslearning.datasets; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"pandas", "sklearn", "torch"} & set(loaded)
