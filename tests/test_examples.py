"""Every example runs by itself, in silence but for its result, and the result is right."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
needs_torch = pytest.mark.skipif(not find_spec("torch"), reason="the extra torch is missing")


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def number(text: str, name: str) -> float:
    """First number after a name at the beginning of a line."""
    return float(re.search(rf"^ *{re.escape(name)} +(-?[\d.]+)", text, re.M)[1])


def test_every_example_is_tested():
    tested = set(re.findall(r'run\("(\w+\.py)"', Path(__file__).read_text()))
    assert tested == {path.name for path in EXAMPLES.glob("*.py")}


def test_gaussian_means():
    out = run("gaussian_means.py")
    assert number(out, "best bound") < 0.75 * number(out, "separate") + 1e-3  # Claim 1
    assert number(out, "epsilon 0.25") < number(out, "epsilon 0.0") < number(out, "epsilon inf")
    assert "Best radius: 0.25" in out


def test_scikit_learn():
    out = run("scikit_learn.py")
    assert number(out, "cross-learned") < 0.95 * number(out, "one model for all")
    assert "Sharing helps" in out
    assert 11 < number(out, "A new neighbourhood is predicted by the centre:") < 13


@needs_torch
def test_torch_loop():
    out = run("torch_loop.py")
    cross = number(out, "cross-learned")
    assert cross < 0.8 * number(out, "separate")
    assert cross < 0.8 * number(out, "pooled")
    assert "farthest from centre 1.00" in out


@needs_torch
def test_images():
    out = run("images.py")
    pooled, cross, separate = (number(out, epsilon) for epsilon in ("0.0", "0.3", "inf"))
    assert min(pooled, cross) > separate + 0.1
    assert separate > 2 / 8  # of eight things, chance gets one


def test_table():
    out = run("table.py")
    assert out.startswith("These 25 tasks cannot tell whether sharing helps beyond one model")
    names = ("one pooled model", "separate models", "cross-learned")
    scores = [number(out, f"{name:32} mean squared error") for name in names]
    assert min(scores) == scores[2]
    files = ["coefficients.csv", "model.npz", "results.json"]
    assert f"Files: {files}\nReport: report.html" in out
    assert "Predicted by the centre: {'a new one': 1}" in out
