"""The command `predict`: what it adds to a table, and how it fails."""

import io
import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from crosslearning.cli import main
from crosslearning.frames import reading as table_files
from crosslearning.tables import fit_table
from tests.support.cli import check_failure
from tests.support.tables import shops

NEW = (
    "id,kind,shop,price,extra\n"
    "007,tea,s1,1.50,2024-01-01\n"
    "008,salt,s9,NA,\n"
    "009,milk,,0.1,NA\n"
    "010,pepper,s9,-20,x y\n"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fits") / "fit"
    fit_table(shops(), task="shop", target="sales", base="linear", folds=2).save(folder)
    return folder


@pytest.fixture
def new(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text(NEW)
    return path


def test_the_table_comes_back_with_predictions(folder, new, capsys):
    assert main(["predict", str(folder), str(new)]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0] == "id,kind,shop,price,extra,prediction,lower,upper,std"
    for line, old in zip(lines[1:], NEW.splitlines()[1:], strict=True):
        assert line.startswith(old + ",")
        mean, lower, upper, sd = map(float, line.split(",")[-4:])
        assert lower < mean < upper
        assert sd > 0
    assert captured.err.splitlines() == [
        "3 rows belong to no known task; predicted by the centre: s9 (2), no label (1)",
        "Unknown values of kind: pepper (1)",
        "1 row with values outside the range of the fit: price (1)",
    ]


def test_a_table_with_the_target_is_scored_and_intervals_are_as_wide_as_asked(
    folder, tmp_path, capsys
):
    shops(60, seed=3).to_csv(tmp_path / "new.csv", index=False)
    widths = []
    for coverage in ("0.5", "0.99"):
        options = ["--coverage", coverage, "-o", str(tmp_path / "out.csv")]
        assert main(["predict", str(folder), str(tmp_path / "new.csv"), *options]) == 0
        assert "Mean squared error, mean over tasks: 0." in capsys.readouterr().err
        found = pd.read_csv(tmp_path / "out.csv")
        widths.append((found["upper"] - found["lower"]).mean())
    assert widths[1] > 2 * widths[0]


@pytest.mark.parametrize("name", ["out.csv", "out.tsv.gz", "out.parquet"])
def test_files_by_suffix(folder, new, name, tmp_path, capsys):
    assert main(["predict", str(folder), str(new), "-o", str(tmp_path / name)]) == 0
    assert capsys.readouterr().out == f"4 predictions in {tmp_path / name}\n"
    parquet = name.endswith(".parquet")
    read = pd.read_parquet if parquet else lambda path: pd.read_csv(path, sep=None, engine="python")
    frame = read(tmp_path / name)
    assert list(frame)[-4:] == ["prediction", "lower", "upper", "std"]
    assert frame["id"].astype(int).tolist() == [7, 8, 9, 10]


def test_a_summary_as_json(folder, new, tmp_path, capsys):
    out = str(tmp_path / "out.csv")
    assert main(["predict", str(folder), str(new), "-o", out, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    unknown = [{"task": "s9", "rows": 2}, {"task": None, "rows": 1}]
    assert json.loads(captured.out) == {
        "rows": 4,
        "unknown": unknown,
        "unknown_categories": {"kind": {"pepper": 1}},
        "outside_range": {"rows": 1, "columns": {"price": 1}},
        "untested": None,
        "not_numbers": {},
        "score": None,
        "file": out,
    }


def test_standard_input_and_output(folder, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(NEW.encode())))
    assert main(["predict", str(folder), "-", "--quiet"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.splitlines()[1].startswith("007,tea,s1,1.50,2024-01-01,")


def test_many_tasks_never_seen_are_named_in_part(folder, new, capsys):
    lines = ["id,kind,shop,price,extra", *(f"1,tea,new{i},1,x" for i in range(6))]
    for count, message in ((6, ", new4 (1), …\n"), (1, "1 row belongs to no known task; ")):
        new.write_text("\n".join(lines[: count + 1]))
        assert main(["predict", str(folder), str(new)]) == 0
        assert message in capsys.readouterr().err


def test_labels_are_tasks_by_value_or_as_text(tmp_path, capsys):
    frame = shops().assign(shop=lambda f: f["shop"].str[1:].astype(int))
    fit_table(frame, task="shop", target="sales", base="linear", folds=2).save(tmp_path / "fit")
    for labels, line in (("s1", "4 rows belong to no known task; predicted by "), ("1.0", "")):
        frame.head(4).drop(columns="sales").assign(shop=labels).to_csv(tmp_path / "new.csv")
        assert main(["predict", str(tmp_path / "fit"), str(tmp_path / "new.csv")]) == 0
        remarks = capsys.readouterr().err
        assert remarks.startswith(line)
        assert ("no known task" in remarks) == bool(line)


def test_order_and_index_are_kept(folder, tmp_path, capsys):
    frame = shops().drop(columns="sales").sample(frac=1, random_state=1)
    frame.to_parquet(tmp_path / "new.parquet")
    out = tmp_path / "out.parquet"
    assert main(["predict", str(folder), str(tmp_path / "new.parquet"), "-o", str(out)]) == 0
    capsys.readouterr()
    again = pd.read_parquet(out)
    pd.testing.assert_frame_equal(again[list(frame)], frame)


def test_a_reader_that_has_enough(folder, tmp_path):
    new = shops(2_000).drop(columns="sales").assign(price=0.5)
    new.to_csv(tmp_path / "new.csv", index=False)
    code = "import sys; from crosslearning.cli import main; sys.exit(main())"
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", code, "predict", str(folder), str(tmp_path / "new.csv")],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{folder}", "none.csv"], "Cannot read none.csv"),
        (
            ["none", "{new}"],
            "none holds no fit of a table: it has no file",
        ),
        (["{folder}", "{new}", "--json"], "cannot both go to standard output. Name a file"),
        (["{folder}", "{new}", "--coverage", "1"], "`coverage` must lie between 0 and 1; got 1.0."),
        (["{folder}", "{new}", "-o", "out.xls"], "must end in .csv, .tsv"),
        (["{folder}", "{new}", "-o", "none/out.csv"], "Cannot write none/out.csv"),
        (["{folder}", "{bad}"], "The table has no column 'price' for the model"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments, message, folder, new, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    bad = tmp_path / "bad.csv"
    bad.write_text(NEW.replace("price", "prise"))
    before = sorted(tmp_path.iterdir())
    filled = [text.format(folder=folder, new=new, bad=bad) for text in arguments]
    assert main(["predict", *filled]) == 2
    check_failure(message, capsys)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("large", [False, True])
def test_the_table_itself_is_not_overwritten(folder, new, tmp_path, capsys, monkeypatch, large):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(table_files, "_LARGE", 0 if large else 10**9)
    for name in (str(new), "new.csv", "../" + tmp_path.name + "/new.csv"):
        assert main(["predict", str(folder), str(new), "-o", name]) == 2
        check_failure(f"{name} is the table itself, which would be lost.", capsys)
    assert new.read_text() == NEW


def test_no_table_is_a_usage_error(folder, capsys):
    assert main(["predict", str(folder)]) == 2
    assert "missing argument 'table...'" in capsys.readouterr().err.casefold()


def test_what_is_for_images_is_refused_for_a_table(folder, new, capsys):
    assert main(["predict", str(folder), str(new), "--top", "3"]) == 2
    check_failure("--top is for images, not for tables.", capsys)
    assert main(["predict", str(folder), str(new), str(new)]) == 2
    check_failure("Only one table can be predicted at a time; got 2.", capsys)
