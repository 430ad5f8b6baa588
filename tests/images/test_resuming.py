"""A training that goes on: from finished runs, after an interruption, in a folder of its own."""

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.image_training import SMALL, Squares, files, run_files, train


def program(name, *arguments):
    """Run a module of tests.support as a process."""
    command = [sys.executable, "-W", "error", "-m", f"tests.support.{name}", *map(str, arguments)]
    root = Path(__file__).parents[2]
    return subprocess.run(command, capture_output=True, cwd=root, text=True, timeout=300)


def test_no_finished_run_is_trained_twice(finished, tmp_path, monkeypatch):
    folder = shutil.copytree(finished[0], tmp_path / "copy")
    results = finished[1]
    monkeypatch.setattr("crosslearning.nn._sweep_runs.fit", None)
    again = train(SMALL, Squares(), folder, name="squares", command="typed")
    varying = {"created": None, "provenance": None}
    assert again | varying == results | varying


def test_more_seeds_and_radii_may_follow(finished, tmp_path):
    folder = shutil.copytree(finished[0], tmp_path / "copy")
    results = finished[1]
    seen = []
    more = train(replace(SMALL, seeds=(0, 1, 2)), Squares(), folder, progress=seen.append)
    assert {now["seed"] for now in seen} == {2}
    assert len(more["runs"]) == len(results["runs"]) + 3


def test_an_interrupted_run_goes_on(finished, tmp_path):
    config = replace(SMALL, epsilons=(0.02,), seeds=(0,))

    def stop(now):
        if now["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, Squares(), tmp_path, progress=stop)
    assert run_files(tmp_path, 0) == {"cross-0.02-seed-0.safetensors", "stage-seed-0.safetensors"}
    seen = []
    results = train(config, Squares(), tmp_path, progress=seen.append)
    assert [now["epoch"] for now in seen] == [2]
    expected = next(r for r in finished[1]["runs"] if (r["epsilon"], r["seed"]) == (0.02, 0))
    assert results["runs"][0] == expected
    assert run_files(tmp_path, 0) == {"cross-0.02-seed-0.json"}
    assert len(list((tmp_path / "models").glob("*.safetensors"))) == 1


@pytest.mark.slow  # an interruption within this process is tested above
def test_a_killed_training_goes_on_to_the_same_numbers(finished, tmp_path):
    done = program("killed_once", "networks", tmp_path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    finished_runs = {"pooled-0.0-seed-0.json", "cross-0.02-seed-0.json"}
    assert run_files(tmp_path, 0) == finished_runs | {"stage-seed-0.safetensors"}
    seen = []
    results = train(
        SMALL, Squares(), tmp_path, name="squares", progress=seen.append, command="typed"
    )
    assert [(now["run"], now["epoch"]) for now in seen[:2]] == [(3, 1), (3, 2)]
    assert results["runs"] == finished[1]["runs"]


@pytest.mark.slow
@pytest.mark.parametrize("backbone", ["", "tests.support.image_heads:colours"])
def test_trainings_killed_in_every_phase_end_with_the_same_numbers(backbone, tmp_path):
    pytest.importorskip("PIL.Image")
    done = program("killed_images", tmp_path, backbone)
    assert done.returncode == 0, done.stderr
    deaths = (tmp_path / "deaths").read_text()
    for phase in ("cache", "features" if backbone else "runs", "models"):
        assert f"/{phase}/" in deaths, phase
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    files = [path.relative_to(whole) for path in whole.glob("models/*")]
    for file in (Path("contact_sheet.png"), *files):
        assert (whole / file).read_bytes() == (killed / file).read_bytes(), file
    results = [json.loads((folder / "results.json").read_text()) for folder in (whole, killed)]
    for one in results:
        del one["created"], one["provenance"]
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("settings", "data", "message"),
    [
        ({"epochs": 3}, Squares(), "epochs is 2 there and 3 here. Choose another folder."),
        ({}, Squares(fingerprint="new"), "images is 'squares' there and 'new' here."),
    ],
)
def test_a_folder_of_other_runs_is_refused(settings, data, message, finished):
    before = files(finished[0])
    with pytest.raises(ValueError, match=message):
        train(replace(SMALL, **settings), data, finished[0])
    assert files(finished[0]) == before


def test_radii_can_be_chosen_anew(tmp_path):
    config = replace(SMALL, seeds=(0,), epochs=1)
    first = train(config, Squares(), tmp_path)
    again = train(replace(config, epsilon_by="all"), Squares(), tmp_path)
    assert again["runs"] == first["runs"]
    assert set(again["chosen"]["epsilons"].values()) == {first["chosen"]["epsilon"]}


def test_a_folder_without_runs_takes_other_settings(tmp_path):
    config = replace(SMALL, epsilons=(0.02,), seeds=(0,), epochs=1)
    (tmp_path / "settings.json").write_text('{"epochs": 7}')
    assert train(config, Squares(), tmp_path)["config"]["epochs"] == 1


def test_results_of_something_else_are_not_overwritten(tmp_path):
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(ValueError, match="holds results of something else"):
        train(SMALL, Squares(), tmp_path)
    assert files(tmp_path) == {"results.json": b"{}"}
