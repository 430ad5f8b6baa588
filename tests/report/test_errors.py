"""Results that are missing, damaged or foreign; the command that meets them."""

import json

import pytest

from crosslearning.cli import main
from crosslearning.paper.gaussian import experiment as gaussian
from crosslearning.report import page, write
from tests.support.report_results import images_results, save, table_results


def changed(content, path, value):
    """Set a field deep inside, or delete it."""
    *outer, last = path
    inner = content
    for key in outer:
        inner = inner[key]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return content


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ["kind"],
            "poem",
            "results of 'table', version 6 or 'images', version 2; got 'poem', version 6.",
        ),
        (["kind"], ["table"], "got ['table'], version 6"),
        (["kind"], ..., "got None, version 6"),
        (["version"], 3, "got 'table', version 3"),
        (["version"], ..., "got 'table', version None"),
        (["sentence"], ..., "missing 1 required keyword-only argument: 'sentence'"),
        (["score", "name"], ..., "missing 1 required keyword-only argument: 'name'"),
        (["score", "colour"], "red", "KeyError: 'colour'"),
        (["differences"], [], "AttributeError"),
        (["tasks"], 0.1, "TypeError"),
        (["coefficients", "predictors", 0, "tasks", 5], [1.0], "(ValueError: zip()"),
        (["coefficients", "predictors", 0, "intercepts"], [1.0], "zip()"),
    ],
)
def test_results_that_are_not_ours_are_one_line(tmp_path, path, value, message):
    folder = save(tmp_path, changed(table_results("bound"), path, value))
    with pytest.raises(ValueError, match=r"results\.json.* Create the results again") as caught:
        write(folder)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(tmp_path))
    assert not (folder / "report.html").exists()


@pytest.mark.parametrize(
    ("path", "value"),
    [(["path", 1, "test"], 0.5), (["categories", 0, "accuracy"], [0.5]), (["path"], ...)],
)
def test_images_that_are_not_ours_are_one_line(tmp_path, path, value):
    folder = save(tmp_path, changed(images_results(), path, value))
    with pytest.raises(ValueError, match="does not contain valid images results"):
        write(folder)


@pytest.mark.parametrize(
    "text", ["{", "", "[1, 2]", "null", '"table"', "\x00", '{"kind": "table", "version": 1']
)
def test_a_damaged_file(tmp_path, text, capsys):
    (tmp_path / "results.json").write_text(text)
    assert main(["report", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"Error: {tmp_path / 'results.json'}")
    assert captured.err.count("\n") == 1


def test_a_file_that_is_no_text(tmp_path):
    (tmp_path / "results.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is damaged"):
        write(tmp_path)


def test_gaussian_files_that_are_damaged(tmp_path):
    gaussian.run(gaussian.GaussianConfig(realizations=50), tmp_path)
    curve = tmp_path / "gaussian.csv"
    whole = curve.read_text()
    curve.write_text(whole.replace("1.5,", ",", 1))
    with pytest.raises(ValueError, match=r"gaussian\.csv cannot be read: .* not a finite number"):
        write(tmp_path)
    curve.write_text(whole)
    curve.write_text(curve.read_text().replace("1.5,", "one,", 1))
    with pytest.raises(ValueError, match=r"gaussian\.csv cannot be read: could not convert"):
        write(tmp_path)
    curve.unlink()
    with pytest.raises(ValueError, match=r"gaussian\.csv cannot be read"):
        write(tmp_path)
    (tmp_path / "gaussian.json").write_text("[]")
    with pytest.raises(ValueError, match="must be a JSON object; got list"):
        write(tmp_path)


def test_a_folder_without_results(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"Error: {tmp_path} and its subfolders have neither results.json")
    assert error.count("\n") == 1
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert "There is no folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_cannot_be_written(tmp_path, capsys):
    folder = save(tmp_path / "results", table_results("bound"))
    (tmp_path / "file").write_text("mine")
    assert main(["report", str(folder), "--out", str(tmp_path / "file" / "page.html")]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"Error: Cannot write to {tmp_path / 'file' / 'page.html'}: ")
    assert error.endswith("Choose another file with --out.\n")
    assert (tmp_path / "file").read_text() == "mine"


def test_the_command_says_where_the_page_is(tmp_path, capsys, monkeypatch):
    folder = save(tmp_path, table_results("bound"))
    assert main(["report", str(folder)]) == 0
    assert capsys.readouterr() == (f"Report  {folder / 'report.html'}\n", "")
    assert main(["report", str(folder), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    opened = []
    monkeypatch.setattr("typer.launch", opened.append)
    assert main(["report", str(folder), "--json", "--open"]) == 0
    assert json.loads(capsys.readouterr().out) == {"report": str(folder / "report.html")}
    assert opened == [(folder / "report.html").resolve().as_uri()]


def test_help_shows_an_example(capsys):
    assert main(["report", "--help"]) == 0
    assert "Example: crosslearning report" in capsys.readouterr().out


def test_the_script_of_charts_is_kept(tmp_path, monkeypatch):
    """In the cache if that can be written to, and it is not made again."""
    bundle, made = page._bundle.__wrapped__, []
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda *a: made.append(a) or "a script")
    for home, times in ((tmp_path, 1), (tmp_path, 1), (tmp_path / "file", 2)):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(home))
        assert bundle() == "a script"
        assert len(made) == times
    assert [path.suffix for path in (tmp_path / "crosslearning").iterdir()] == [".js"]
