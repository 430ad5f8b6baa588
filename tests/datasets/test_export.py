"""The packaged data as files, by the library and by the command line."""

import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from crosslearning.cli import main
from crosslearning.datasets import Pictures32, export, load_ames, load_hsb82, load_pictures32
from crosslearning.files import new_folder
from crosslearning.images import ImageDomains, split


@pytest.fixture(scope="module")
def few():
    """Every fifth picture of two categories."""
    pictures = load_pictures32()
    rows = np.flatnonzero(pictures.category_codes < 2)[::5]
    archive = files("crosslearning.datasets") / "data" / "pictures32.zip"
    return Pictures32([pictures.table[k] for k in rows], archive.read_bytes())


@pytest.fixture
def exported(few, tmp_path, monkeypatch):
    monkeypatch.setitem(export.LOADERS, "pictures32", lambda: few)
    return export.export("pictures32", tmp_path / "pictures")


def rows_of(pictures, names):
    """Which picture each of the files is."""
    stems = [Path(row["path"]).with_suffix("") for row in pictures.table]
    return [stems.index(Path(name).with_suffix("")) for name in names]


def test_the_folder_pipeline_gives_the_packaged_pictures(few, exported, tmp_path):
    data = ImageDomains(exported, cache_dir=tmp_path / "cache")
    assert len(data) == len(few)
    rows = rows_of(few, data.names)
    np.testing.assert_array_equal(data.pixels(64), few.pixels()[rows])
    assert data.domains == few.domains
    assert data.categories == few.categories
    np.testing.assert_array_equal(data.domain_codes, few.domain_codes[rows])
    np.testing.assert_array_equal(data.category_codes, few.category_codes[rows])
    np.testing.assert_array_equal(data.groups, few.groups[rows])
    test = np.sort(np.array(rows)[split(data)[1]])
    np.testing.assert_array_equal(test, split(few)[1])


def test_pictures_keep_their_notices(exported):
    names = {path.name for path in exported.iterdir() if path.is_file()}
    notices = {
        *("NOTICES.md", "pictures32_sets.csv"),
        *("LICENSE-Apache-2.0.txt", "LICENSE-OFL-1.1.txt"),
    }
    assert names == {"groups.csv", *notices}
    assert all((exported / name).stat().st_size > 1000 for name in notices)


def test_pictures_as_jpeg(few, tmp_path, monkeypatch):
    monkeypatch.setitem(export.LOADERS, "pictures32", lambda: few)
    folder = export.export("pictures32", tmp_path / "pictures", "jpeg")
    data = ImageDomains(folder, cache_dir=tmp_path / "cache")
    with Image.open(folder / data.names[0]) as image:
        assert (image.format, image.size) == ("JPEG", (64, 64))
    difference = data.pixels(64).astype(int) - few.pixels()[rows_of(few, data.names)]
    assert np.abs(difference).mean() < 2


@pytest.mark.parametrize(("name", "load"), [("hsb82", load_hsb82), ("ames", load_ames)])
@pytest.mark.parametrize("file_format", [None, "csv", "parquet"])
def test_tables(name, load, file_format, tmp_path):
    folder = tmp_path / "new" / "folder"
    path = export.export(name, folder, file_format)
    assert path == folder / f"{name}.{file_format or 'csv'}"
    read = pd.read_parquet if file_format == "parquet" else pd.read_csv
    frame = load().frame
    if file_format != "parquet":  # which has no types
        frame = frame.astype(dict.fromkeys(frame.select_dtypes("category"), "str"))
    pd.testing.assert_frame_equal(read(path).astype(frame.dtypes), frame)
    assert {file.name for file in folder.iterdir()} == {path.name, "NOTICES.md"}


def test_a_folder_is_new_in_full_or_not_at_all(tmp_path):
    path = tmp_path / "folder"
    with pytest.raises(ZeroDivisionError), new_folder(path) as temporary:
        (temporary / "half").write_text(str(1 / 0))
    assert list(tmp_path.iterdir()) == []
    path.mkdir()
    with new_folder(path) as temporary:
        (temporary / "whole").write_text("done")
    assert [file.name for file in tmp_path.rglob("*")] == ["folder", "whole"]
    with pytest.raises(ValueError, match="must be new or empty"), new_folder(path):
        raise AssertionError
    with pytest.raises(ValueError, match="must be new or empty"), new_folder(path / "whole"):
        raise AssertionError


@pytest.mark.parametrize("options", [["--format", "csv"], ["--quiet"], ["--json"]])
def test_command_export(options, tmp_path, capsys):
    assert main(["data", "export", "hsb82", str(tmp_path / "pupils"), *options]) == 0
    captured = capsys.readouterr()
    path = tmp_path / "pupils" / "hsb82.csv"
    assert path.exists()
    assert captured.err == ""
    if "--json" in options:
        assert json.loads(captured.out) == {"name": "hsb82", "path": str(path)}
    elif "--quiet" in options:
        assert captured.out == ""
    else:
        assert captured.out.startswith(f"Wrote {path}; ")


def test_command_export_of_pictures(few, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(export.LOADERS, "pictures32", lambda: few)
    assert main(["data", "export", "pictures32", str(tmp_path / "pictures")]) == 0
    assert capsys.readouterr().out.startswith(f"Wrote {tmp_path / 'pictures'}; ")
    assert len(ImageDomains(tmp_path / "pictures")) == len(few)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope", "new"], "The packaged data sets are hsb82, ames, pictures32; got 'nope'"),
        (["hsb82", "new", "--format", "png"], "must be csv or parquet; got 'png'"),
        (["pictures32", "new", "--format", "csv"], "must be png or jpeg; got 'csv'"),
        (["hsb82", "full"], "full is not. Choose another."),
        (["hsb82", "full/file"], "must be new or empty"),
        (["hsb82", "full/file/new"], "Cannot write to full/file/new: Not a directory."),
        (["hsb82"], "Missing argument"),
    ],
)
def test_errors_are_one_line_and_write_nothing(arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    assert main(["data", "export", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Error: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert len(list(tmp_path.rglob("*"))) == 2


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    load_hsb82()  # pandas has looked for pyarrow
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "crosslearning\[app\]"'):
        export.export("hsb82", tmp_path / "new", "parquet")


def test_command_list(capsys):
    assert main(["data", "list"]) == 0
    out = capsys.readouterr().out
    for text in (
        "7,185",
        "160 tasks (school)",
        "2,919",
        "25 tasks (Neighborhood)",
        "5,590",
        "4 tasks (domain)",
    ):
        assert text in out
    assert main(["data", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in listed] == ["hsb82", "ames", "pictures32"]
    assert listed[0]["licence"] == "a work of the US government"


@pytest.mark.parametrize("command", [["data"], ["data", "list"], ["data", "export"]])
def test_help_shows_an_example(command, capsys):
    assert main([*command, "--help"]) == 0
    assert "Example: crosslearning data" in capsys.readouterr().out


def test_no_command_shows_help(capsys):
    assert main(["data"]) == 0
    assert "Usage: crosslearning data" in capsys.readouterr().out


def test_nothing_heavy_is_imported_before_it_is_needed():
    code = (
        "import sys; from crosslearning.datasets import export; from crosslearning.cli import main;"
        "main(['data', '--help']);"
        "print([m for m in ('PIL', 'matplotlib', 'pandas', 'torch') if m in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert output.stdout.decode().splitlines()[-1] == "[]"


def test_the_name_of_a_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="a file name"):
        export.export("hsb82", tmp_path / "pupils.csv")
    assert not list(tmp_path.iterdir())
