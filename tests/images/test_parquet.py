"""Images in Parquet files, as data hubs offer them."""

import io
import json
import sys

import numpy as np
import pytest

from crosslearning import report
from crosslearning.cli import main
from crosslearning.images import ImageDomains, split

pa = pytest.importorskip("pyarrow", reason="the extra `app` is not installed")
parquet = pytest.importorskip("pyarrow.parquet")
Image = pytest.importorskip("PIL.Image", reason="the extra `torch` is not installed")

DOMAINS, KINDS = ("Art", "Real World"), ("bed", "cup")


def png(level):
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), (level, 0, 0)).save(stream, "PNG")
    return stream.getvalue()


def columns(each=4):
    """Images whose level of red is the number of the row, as columns of a table."""
    labels = [(d, k) for d in DOMAINS for k in range(len(KINDS)) for _ in range(each)]
    return {
        "image": [{"bytes": png(row), "path": f"{row}.png"} for row in range(len(labels))],
        "domain": [domain for domain, _ in labels],
        "label": [kind for _, kind in labels],
    }


def write(path, values, names=None):
    """Write columns as a Parquet file, with names of classes as Hugging Face stores them."""
    table = pa.table(values)
    if names is not None:
        about = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(about)})
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, path, row_group_size=3)
    return path


def reds(data):
    return data.pixels(8)[:, 0, 0, 0].tolist()


def test_a_file_with_names_of_classes(tmp_path):
    data = ImageDomains(write(tmp_path / "a.parquet", columns(), KINDS), cache_dir=tmp_path)
    assert (data.domains, data.categories) == (DOMAINS, KINDS)
    assert data.counts().to_numpy().tolist() == [[4, 4], [4, 4]]
    assert reds(data) == list(range(16))
    assert data.names[3] == "a.parquet/000003"


@pytest.mark.parametrize("label", [-1, 2])
def test_numbers_without_a_name_are_refused(tmp_path, label):
    values = columns()
    values["label"][5] = label
    with pytest.raises(ValueError, match=rf"row 5 of .*a\.parquet has {label}\."):
        ImageDomains(write(tmp_path / "a.parquet", values, KINDS), cache_dir=tmp_path)


def test_a_folder_of_files_with_raw_bytes_text_and_groups(tmp_path):
    values = columns()
    values["image"] = [image["bytes"] for image in values["image"]]
    values["category"] = [KINDS[code] for code in values.pop("label")]
    values["group"] = [row % 4 for row in range(16)]
    for number, rows in enumerate((slice(0, 10), slice(10, 16))):
        part = {name: column[rows] for name, column in values.items()}
        write(tmp_path / "hub" / "data" / f"train-{number}.parquet", part)
    (tmp_path / "hub" / "README.md").write_text("about")
    data = ImageDomains(tmp_path / "hub", cache_dir=tmp_path)
    assert data.categories == KINDS
    assert reds(data) == list(range(16))
    assert data.groups.tolist() == values["group"]
    train, test = split(data)
    assert not set(data.groups[train]) & set(data.groups[test])
    other = write(tmp_path / "hub" / "data" / "train-2.parquet", part)
    assert len(ImageDomains(tmp_path / "hub")) == 22
    assert ImageDomains(other).fingerprint != data.fingerprint


def test_unreadable_images_are_named_or_skipped(tmp_path):
    values = columns()
    values["image"][1]["bytes"] = b"no image"
    values["image"][6] = None
    file = write(tmp_path / "a.parquet", values)
    with pytest.raises(ValueError, match=r"2 of 16 are not: a.parquet/000001"):
        ImageDomains(file, cache_dir=tmp_path).pixels(8)
    data = ImageDomains(file, cache_dir=tmp_path, skip_unreadable=True)
    assert data.skipped == ("a.parquet/000001", "a.parquet/000006")
    assert reds(data) == [row for row in range(16) if row not in (1, 6)]


def test_images_in_folders_come_first(tmp_path):
    (tmp_path / "art" / "bed").mkdir(parents=True)
    (tmp_path / "art" / "bed" / "1.png").write_bytes(png(1))
    write(tmp_path / "features.parquet", {"x": [1.0]})
    data = ImageDomains(tmp_path)
    assert len(data) == 1


@pytest.mark.parametrize("name", ["image", "domain", "label"])
def test_columns_that_are_missing(name, tmp_path):
    values = columns(1)
    del values[name]
    file = write(tmp_path / "a.parquet", values)
    with pytest.raises(ValueError, match=rf"the columns image, .* {file} has .*Rename its columns"):
        ImageDomains(file)


def test_labels_that_are_missing(tmp_path):
    values = columns(1)
    values["label"][2] = None
    with pytest.raises(ValueError, match=r"must have a label; row 2 of .* has none"):
        ImageDomains(write(tmp_path / "a.parquet", values))


def test_files_that_are_no_parquet(tmp_path):
    (tmp_path / "a.parquet").write_text("no table")
    with pytest.raises(ValueError, match=r"must be readable; .*a.parquet is not"):
        ImageDomains(tmp_path)


def test_without_pyarrow_there_is_advice(tmp_path, monkeypatch):
    file = write(tmp_path / "a.parquet", columns(1))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "crosslearning\[app\]"'):
        ImageDomains(file)


@pytest.mark.parametrize("command", [["train"], ["reproduce", "office-home", "--data"]])
def test_commands(command, tmp_path, capsys, monkeypatch):
    pytest.importorskip("torch", reason="the extra `torch` is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("draw", "write"):  # which takes seconds
        monkeypatch.setattr(report, name, lambda _: None)
    file = write(tmp_path / "pictures.parquet", columns(10), KINDS)
    fast = ["--model", "small_cnn", "--image-size", "8", "--epochs", "1", "--seed", "0"]
    fast += ["--epsilon", "0", "--seeds", "1"]
    out = tmp_path / "out"
    assert main([*command, str(file), *fast, "--batch", "4", "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["images"] == 40
    results = json.loads((out / "results.json").read_text())
    assert np.shape(results["path"]) == (1,)
