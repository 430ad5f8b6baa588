"""The command line: what it prints, what it writes, how it fails."""

import json
import os
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete
from typer.main import get_command

import crosslearning
from crosslearning.cli import main
from crosslearning.cli.app import app
from crosslearning.paper.gaussian import experiment
from tests.support.cli import check_failure, shell

FAST = ["reproduce", "gaussian", "--realizations", "500"]


@pytest.fixture
def undrawn(monkeypatch):
    """Leave out the figures, which take most of the time."""
    monkeypatch.setattr("crosslearning.report.draw", lambda _: [])


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"crosslearning {crosslearning.__version__}\n"


def test_the_package_is_the_command_too():
    command = [sys.executable, "-m", "crosslearning", "reproduce", "gaussian", "--gap", "-1"]
    bad = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("Error: ")
    assert bad.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [[], ["reproduce"], ["reproduce", "gaussian"]])
def test_help_shows_an_example(command, capsys):
    assert main([*command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "Usage: " + " ".join(["crosslearning", *command]) in out
    assert "Example: crosslearning " in out


@pytest.mark.parametrize("command", [[], ["reproduce"]])
def test_no_command_shows_help(command, capsys):
    assert main(command) == 0
    captured = capsys.readouterr()
    assert "Usage: " in captured.out
    assert captured.err == ""


def test_a_missing_extra_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert main(["data", "export", "pictures32", str(tmp_path / "pictures")]) == 2
    check_failure("needs Pillow, an optional dependency. Install it with", capsys)
    assert list(tmp_path.iterdir()) == []


def test_help_starts_without_the_heavy_libraries():
    code = (
        "import sys; from crosslearning.cli import main; main(['--help']);"
        "main(['train', '--help']); main(['reproduce', 'office-home', '--help']);"
        "print([m for m in ('altair', 'numpy', 'pandas', 'scipy', 'torch') if m in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    *text, heavy = output.stdout.decode().splitlines()
    assert heavy == "[]"
    assert "Example: crosslearning train pictures32" in "".join(text)
    assert "Example: crosslearning reproduce office-home --data" in "".join(text)


def test_reproduce_gaussian_prints_what_it_found(tmp_path, capsys):
    out = tmp_path / "a [bold] name that is long enough to be wrapped by a table" / "figures"
    assert main([*FAST, "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    for text in (
        "0.74781 at max_gap 1.9808",
        "0.74785",
        "every max_gap above 0.76712",
        "Claim 1          holds: ",
        "Claim 2          holds: ",
        f"{out / 'gaussian.png'} and .pdf",
        f"{out / 'gaussian.csv'} and .json",
    ):
        assert text in captured.out
    assert sorted(path.suffix for path in out.iterdir()) == [".csv", ".json", ".pdf", ".png"]


@pytest.mark.usefixtures("undrawn")
def test_reproduce_gaussian_says_that_claim_2_is_not_strict(tmp_path, capsys):
    assert main([*FAST, "--gap", "0", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "Claim 2          does not hold: " in out
    remark = "The means are equal, so consensus is best; the claim needs a gap above 0."
    assert out.count(remark) == 1
    assert "every max_gap, consensus too" in out


@pytest.mark.usefixtures("undrawn")
def test_options_reach_the_experiment(tmp_path, capsys):
    options = ["--gap", "1", "--sigma", "3", "--samples", "9", "--seed", "7", "--json"]
    assert main([*FAST, *options, "--out", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    summary = json.loads(captured.out)
    assert captured.err == ""
    assert summary == json.loads((tmp_path / "gaussian.json").read_text())
    settings = {"gap": 1, "sigma": 3, "samples": 9, "realizations": 500, "seed": 7}
    assert summary["config"].items() >= settings.items()
    assert summary["sigma_m"] == 1


@pytest.mark.usefixtures("undrawn")
def test_the_defaults_are_those_of_the_paper_and_quiet_prints_nothing(
    tmp_path, monkeypatch, capsys
):
    configs = []
    run = experiment.run
    monkeypatch.setattr(experiment, "run", lambda *a: configs.append(a[0]) or run(*a))
    assert main([*FAST, "--out", str(tmp_path), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert configs == [experiment.GaussianConfig(realizations=500)]
    assert (tmp_path / "gaussian.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nope"], "--nope"),
        (["nope"], "'nope'"),
        (["reproduce", "nope"], "'nope'"),
        ([*FAST, "--gap"], "--gap"),
        ([*FAST, "--gap", "wide"], "--gap"),
        ([*FAST, "extra"], "extra"),
        ([*FAST, "--samples", "1.5"], "--samples"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    check_failure(message, capsys)
    assert list(tmp_path.iterdir()) == []  # nothing half-done


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*FAST, "--gap", "-1"], "`gap` must be finite and at least 0; got -1"),
        ([*FAST, "--gap", "nan"], "got nan"),
        ([*FAST, "--sigma", "0"], "`sigma` must be finite and positive"),
        ([*FAST, "--samples", "0"], "`samples` must be at least 1 and below 2**63; got 0"),
        (
            [*FAST, "--realizations", "1"],
            "`realizations` must be at least 2 and below 2**63; got 1",
        ),
        ([*FAST, "--seed", "-1"], "`seed` must be at least 0 and below 2**63; got -1"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    check_failure(message, capsys)
    assert list(tmp_path.iterdir()) == []  # nothing half-done


@pytest.mark.parametrize("below", ["", "folder"])
def test_a_folder_that_cannot_be_written_to(below, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert main([*FAST, "--out", str(tmp_path / "file" / below)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("Error: Cannot write to ")
    assert error.endswith("Choose another folder with --out.\n")
    assert error.count("\n") == 1
    assert (tmp_path / "file").read_text() == "mine"


def test_a_failing_write_leaves_nothing_half_written(tmp_path, capsys, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(experiment, "write_json", full)
    assert main([*FAST, "--out", str(tmp_path)]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_interrupt_is_quiet(tmp_path, capsys, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "run", interrupt)
    assert main([*FAST, "--out", str(tmp_path)]) == 130
    assert capsys.readouterr() == ("", "")


def test_shell_completion():
    done = shell(
        _CROSSLEARNING_COMPLETE="complete_bash", COMP_WORDS="crosslearning repr", COMP_CWORD="1"
    )
    assert done.stdout.strip() == "reproduce"


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["--kind", "cl"], ["classification"]),
        (["--base", "spl"], ["splines"]),
        (["--metric", "poi"], ["poisson-deviance"]),
    ],
)
def test_completion_of_options(words, offered):
    asked = ShellComplete(get_command(app), {}, "crosslearning", "_COMPLETE")
    found = asked.get_completions(["fit", "pupils.csv", *words[:-1]], words[-1])
    assert [item.value for item in found] == offered
    found = asked.get_completions(["data", "export"], "p")
    assert [item.value for item in found] == ["pictures32"]


def test_waiting_threads_are_told_to_sleep():
    code = "import crosslearning.cli, os; print(os.environ['OMP_WAIT_POLICY'])"
    for before, after in ({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE"):
        environment = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"} | before
        output = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, env=environment, check=True
        )
        assert output.stdout.decode().strip() == after
