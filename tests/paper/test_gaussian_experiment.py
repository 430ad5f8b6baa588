"""Figure 1 of the paper: what is computed, stored and drawn."""

import json
import math
import re
import subprocess
import sys
from itertools import combinations
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from crosslearning.files import replacing
from crosslearning.paper.gaussian import experiment, mse
from crosslearning.paper.gaussian.experiment import GaussianConfig, run
from crosslearning.report import draw

SMALL = GaussianConfig(realizations=2_000)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_defaults_are_the_paper():
    config = GaussianConfig()
    grid = config.grid()
    assert (config.gap, config.sigma_m, config.realizations) == (2, 1, 100_000)
    assert (grid[0], grid[-1], len(grid)) == (0, 6, 61)


@pytest.mark.parametrize("gap", [0.0, 1e-6, 1.0, 3.9, 4.1, 30.0, 1e6, 1e18])
@pytest.mark.parametrize("sigma", [0.01, 1.0])
def test_the_grid_shows_the_whole_curve_for_any_gap(gap, sigma):
    grid = GaussianConfig(gap, sigma, samples=4).grid()
    assert grid[0] == 0
    assert grid[-1] >= gap
    assert (np.diff(grid) > 0).all()
    assert len(grid) <= 81


def test_run_stores_what_it_returns(tmp_path):
    result = run(SMALL, tmp_path / "new" / "folder")
    folder = tmp_path / "new" / "folder"
    assert names(folder) == ["gaussian.csv", "gaussian.json"]
    header, *rows = (folder / "gaussian.csv").read_text().splitlines()
    assert header == "max_gap,mse,monte_carlo,standard_error"
    table = np.array([[float(cell) for cell in row.split(",")] for row in rows])
    np.testing.assert_array_equal(table[:, 1], mse(SMALL.grid(), 2.0, 1.0))
    assert (np.abs(table[:, 2] - table[:, 1]) < 4 * table[:, 3]).all()

    stored = json.loads((folder / "gaussian.json").read_text())
    assert stored["config"]["realizations"] == 2_000
    assert stored["minimum"] == result.minimum == pytest.approx(0.74781, abs=5e-6)
    assert stored["at_gap"] == result.at_gap == pytest.approx(0.74785, abs=5e-6)
    assert stored["beneficial_from"] == result.beneficial_from == pytest.approx(0.767, abs=5e-4)
    assert [claim["holds"] for claim in stored["claims"]] == [True, True]
    assert result.monte_carlo_deviation < 4


def test_claim_2_fails_for_equal_means_only(tmp_path):
    for gap in (0.0, 1e-60, 1e-9, 1e3, 1e18, 1e60):
        result = run(GaussianConfig(gap, realizations=1_000), tmp_path)
        assert [claim.holds for claim in result.claims] == [True, gap > 0]
        assert result.monte_carlo_deviation < 4


def test_same_seed_same_files(tmp_path):
    for name in ("a", "b"):
        run(SMALL, tmp_path / name)
        draw(tmp_path / name, ["png"])
    for name in ("gaussian.csv", "gaussian.json", "gaussian.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize(
    "config",
    [
        GaussianConfig(realizations=100),
        GaussianConfig(gap=0, realizations=100),
        GaussianConfig(gap=math.sqrt(2), realizations=100),
        GaussianConfig(gap=50, samples=9, realizations=100),
    ],
)
def test_draw_reads_only_the_files(config, tmp_path, monkeypatch):
    run(config, tmp_path)
    monkeypatch.setattr(experiment, "gaussian", None)
    png, pdf = draw(tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
    assert len(names(tmp_path)) == 4


def labels(svg):
    """Texts of a picture with the boxes around them, about 0.6 of the height per letter."""
    boxes = []

    def walk(element, x, y):
        moved = re.match(r"translate\(([-\d.e]+),([-\d.e]+)\)", element.get("transform", ""))
        x, y = (x + float(moved[1]), y + float(moved[2])) if moved else (x, y)
        size, text = float(element.get("font-size", "12").removesuffix("px")), element.text
        if element.tag.endswith("text") and (text or "").strip():
            width = 0.6 * size * len(text)
            left = x - {"middle": width / 2, "end": width}.get(element.get("text-anchor"), 0)
            boxes.append((text, left, y - 0.8 * size, left + width, y + 0.2 * size))
        for child in element:
            walk(child, x, y)

    walk(ET.fromstring(svg), 0.0, 0.0)
    return boxes


@pytest.mark.parametrize("gap", [0.0, 0.1, 0.5, 1.0, math.sqrt(2), 1.45, 2.0, 3.2, 3.3, 8.0, 1e3])
def test_labels_do_not_overlap(gap, tmp_path):
    run(GaussianConfig(gap, realizations=10), tmp_path)
    (path,) = draw(tmp_path, ["svg"])
    boxes = labels(path.read_text())
    texts = " ".join(text for text, *_ in boxes)
    for words in ("lowest: ", "separate means 1.00", f"true gap {gap:g}", "Line: closed form."):
        assert words in texts
    for (_, *a), (_, *b) in combinations(boxes, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (a, b)


def test_draw_without_results_says_which_file_is_missing(tmp_path):
    with pytest.raises(ValueError, match=r"have neither results\.json nor gaussian\.json"):
        draw(tmp_path)
    assert names(tmp_path) == []


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def fail(error):
        with replacing(path) as temporary:
            temporary.write_text("ha")
            raise error

    for error in (OSError, KeyboardInterrupt):
        with pytest.raises(error):
            fail(error)
    assert names(tmp_path) == ["file"]
    assert path.read_text() == "old"
    with replacing(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new"


def test_importing_is_cheap():
    code = (
        "import sys, crosslearning.paper.gaussian.experiment;"
        "print([m for m in ('altair', 'scipy') if m in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert output.stdout.decode().strip() == "[]"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gap": -1.0}, "`gap`.*at least 0; got -1.0"),
        ({"gap": math.nan}, "`gap`.*got nan"),
        ({"sigma": 0.0}, "`sigma`.*positive; got 0.0"),
        ({"samples": 0}, r"`samples` must be at least 1 and .*; got 0. The default is 1."),
        ({"samples": 10**400}, "`samples` must be at least 1 and below"),
        ({"realizations": 1}, "`realizations` must be at least 2 and .*; got 1"),
        ({"seed": -1}, "`seed` must be at least 0 and .*; got -1"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        GaussianConfig(**settings)
