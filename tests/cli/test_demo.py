"""The demo: what it prints and writes, and that the commands in its report repeat its results."""

import json
from math import inf
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="the extra `torch` is not installed")

from crosslearning import datasets
from crosslearning.cli import main
from tests.support.report_results import shops
from tests.support.tinted_squares import TintedSquares


@pytest.fixture
def few_epochs(monkeypatch):
    """Pictures of fewer pixels, a part of them, and one epoch."""
    settings = {"image_size": 16, "epochs": 1, "train_fraction": 0.2}
    monkeypatch.setattr("crosslearning.cli.demo._SETTINGS", settings)
    monkeypatch.setattr("crosslearning.cli.demo._RADII", (0.0, 0.3, inf))


@pytest.fixture
def tiny_data(monkeypatch):
    """Six schools that differ clearly, and squares instead of pictures."""
    frame = shops(6, 90).rename(columns={"shop": "school", "spending": "math"})
    monkeypatch.setattr(datasets, "load_hsb82", lambda: SimpleNamespace(frame=frame))
    monkeypatch.setattr(datasets, "load_pictures32", TintedSquares)


@pytest.mark.usefixtures("few_epochs", "tiny_data")
def test_demo_says_what_was_learned_and_where_the_page_is(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "demo"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    page = tmp_path / "demo" / "report.html"
    assert printed["report"] == str(page)
    stored = [tmp_path / "demo" / folder / "results.json" for folder in ("1-schools", "2-pictures")]
    schools, pictures = (json.loads(path.read_text()) for path in stored)
    assert printed["schools"].startswith(schools["sentence"])
    shares = [f"{100 * row['test']['mean']:.0f}" for row in pictures["comparison"]]
    pooled, cross, separate = shares
    for text in (f"names {pooled} correctly", f"each kind {separate},", f"centre {cross},"):
        assert text in printed["pictures"]
    for results in (schools, pictures):
        assert results["provenance"]["command"] in page.read_text().replace("&amp;", "&")
    assert "two means" in page.read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("few_epochs")
def test_commands_in_the_report_of_the_demo_repeat_its_results(tmp_path, capsys, monkeypatch):
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    schools = json.loads((tmp_path / "demo" / "1-schools" / "results.json").read_text())
    lead = schools["remarks"][0]["lead"]
    assert lead in printed
    assert schools["sentence"] in printed
    export, fit = schools["provenance"]["command"].split(" && ")
    monkeypatch.chdir(tmp_path)
    assert main(export.split()[1:]) == 0
    assert main([*fit.split()[1:], "--out", "again", "--quiet"]) == 0
    again = json.loads((tmp_path / "again" / "results.json").read_text())
    assert again["models"][0]["score"] == schools["models"][0]["score"]
    for name in ("fingerprint", "seed"):
        assert again["provenance"][name] == schools["provenance"][name]
    assert again["size"] == schools["size"]
    pictures = json.loads((tmp_path / "demo" / "2-pictures" / "results.json").read_text())
    train = pictures["provenance"]["command"].split()[1:]
    assert main([*train, "--out", "pictures", "--quiet"]) == 0
    repeated = json.loads((tmp_path / "pictures" / "results.json").read_text())
    assert repeated["path"] == pictures["path"]
    page = (tmp_path / "demo" / "report.html").read_text()
    for found in (schools["sentence"], lead, "pictures32", "two means"):
        assert found in page
