"""Every example runs by itself, in silence but for its result, and the result is right."""

import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from crosslearning.datasets import load_ames, load_hsb82
from crosslearning.tables import fit_table

EXAMPLES = Path(__file__).parents[1] / "examples"
needs_torch = pytest.mark.skipif(not find_spec("torch"), reason="the extra torch is missing")


def run(name: str) -> str:
    """Run an example as a program; return what it printed."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def number(text: str, name: str) -> float:
    """First number after a name at the beginning of a line."""
    return float(re.search(rf"^ *{re.escape(name)} +(-?[\d.]+)", text, re.M)[1])


def first_tasks(load, count):
    """A loader of the first tasks of a table only."""

    def some(*args, **options):
        data = load(*args, **options)
        rows = data.tasks.isin(data.tasks.unique()[:count]).to_numpy()
        parts = {name: getattr(data, name)[rows] for name in ("X", "y", "tasks", "frame")}
        return replace(data, **parts)

    return some


ENDS = {"one for all": 0.0, "one for each": float("inf")}
SHORT = {
    "adapters.py": {"PRETRAINING": 2, "STEPS": 1, "DRAWS": 2, "TEST": 8, "RADII": ENDS},
    "images.py": {"EPOCHS": 1, "RADII": [0.3]},
    "scikit_learn.py": {"load_ames": first_tasks(load_ames, 4)},
    "table.py": {
        "load_hsb82": first_tasks(load_hsb82, 4),
        "fit_table": partial(fit_table, base="linear"),
    },
    "torch_loop.py": {"STEPS": 3},
}


PAGES = {  # of the gallery, and what each must print
    "control.py": r"epsilon 0\.1 .* [0-7]\.\d%",
    "counts.py": r"shared .* 0\.1\d\d",
    "epidemic.py": r"0\.01 +0\.00\d",
    "federated_means.py": r"within ε +0\.05",
    "nested_groups.py": "",
    "new_hospital.py": r"90% intervals hold 8[89]\.\d%",
    "panel.py": r"inside their intervals: \d\d% of 44",
    "projection.py": r"residual: +\de-1\d",
    "schools.py": r"school 9999: -?\d",
}


def test_every_example_is_tested():
    named = re.findall(r'(?:run|load)\("(\w+\.py)"', Path(__file__).read_text())
    assert {*named, *PAGES} == {path.name for path in EXAMPLES.glob("*.py")}


def load(name: str) -> ModuleType:
    """Import an example."""
    spec = spec_from_file_location(f"example_{name[:-3]}", EXAMPLES / name)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", SHORT)
def test_short_runs_print_a_result(name, tmp_path, capsys):
    """The examples that take seconds, with less data or fewer steps, in this process."""
    if name in ("adapters.py", "images.py", "torch_loop.py"):
        pytest.importorskip("torch", reason="the extra `torch` is not installed")
    module = load(name)
    assert vars(module).keys() >= SHORT[name].keys()
    vars(module).update(SHORT[name])
    module.main(*[tmp_path] * (name == "table.py"))
    printed = capsys.readouterr()
    assert printed.err == ""
    assert re.search(r" \d+\.\d\d", printed.out)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_pages_of_the_gallery(name, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    assert re.search(PAGES[name], run(name))


def test_gaussian_means(capsys):
    load("gaussian_means.py").main()
    out = capsys.readouterr().out
    assert number(out, "best bound") < 0.75 * number(out, "separate") + 1e-3  # Claim 1
    assert number(out, "epsilon 0.25") < number(out, "epsilon 0.0") < number(out, "epsilon inf")
    assert "Best radius: 0.25" in out


@pytest.mark.slow
def test_scikit_learn():
    out = run("scikit_learn.py")
    assert number(out, "cross-learned") < 0.95 * number(out, "one model for all")
    assert "Sharing helps" in out
    assert 11 < number(out, "A new neighbourhood is predicted by the centre:") < 13


@pytest.mark.slow
@needs_torch
def test_torch_loop():
    out = run("torch_loop.py")
    cross = number(out, "cross-learned")
    assert cross < 0.8 * number(out, "separate")
    assert cross < 0.8 * number(out, "pooled")
    assert "farthest from centre 1.00" in out


@pytest.mark.slow
@needs_torch
def test_adapters():
    out = run("adapters.py")
    both, frozen = out.split("A shared and frozen")
    for part in (both, frozen):
        within = number(part, "within 1")
        assert within > number(part, "one for all") + 0.02
        assert within > number(part, "one for each") + 0.01


@pytest.mark.slow
@needs_torch
def test_images():
    out = run("images.py")
    pooled, cross, separate = (number(out, epsilon) for epsilon in ("0.0", "0.3", "inf"))
    assert cross > max(pooled, separate) + 0.01
    assert min(pooled, separate) > 2 / 8  # of eight things, chance gets one


@pytest.mark.slow
def test_table():
    out = run("table.py")
    assert out.startswith("These 25 tasks cannot tell whether sharing helps beyond one model")
    names = ("one pooled model", "separate models", "cross-learned")
    scores = [number(out, f"{name:32} mean squared error") for name in names]
    assert min(scores) == scores[2]
    files = ["coefficients.csv", "model.npz", "results.json"]
    assert f"Files: {files}\nReport: report.html" in out
    assert "Predicted by the centre: {'a new one': 1}" in out
