"""The commands about images: what they print, what they write, how they fail."""

import json
import math
import sys

import numpy as np
import pytest

from crosslearning import datasets
from crosslearning.cli import main
from crosslearning.images import TrainingSettings
from crosslearning.report import page
from tests.support.tinted_squares import TintedSquares

pytest.importorskip("torch", reason="the extra `torch` is not installed")
Image = pytest.importorskip("PIL.Image")

FAST = ["--model", "small_cnn", "--image-size", "8", "--epochs", "1", "--batch", "4"]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """Keep decoded images out of the home folder, but take the script of charts from there."""
    page._bundle()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def undrawn(monkeypatch):
    """Leave out figures and report, which take longer than the training."""
    for name in ("draw", "write"):
        monkeypatch.setattr(f"crosslearning.report.{name}", lambda _: None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two domains with three categories of ten images each, and one file that is broken."""
    root, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for domain in ("art", "photo"):
        for channel, category in enumerate(("bed", "cup", "pen")):
            (root / domain / category).mkdir(parents=True)
            for k in range(10):
                pixels = rng.integers(0, 60, (8, 8, 3), dtype=np.uint8)
                pixels[:, :, channel] += 150
                Image.fromarray(pixels).save(root / domain / category / f"{k}.png")
    (root / "art" / "bed" / "broken.png").write_bytes(b"no image")
    return root


def test_train(folder, tmp_path, capsys):
    out = tmp_path / "a [bold] name"
    command = ["train", str(folder), *FAST, "--skip-unreadable", "--out", str(out)]
    command += ["--epsilon", "0.1", "--epsilon", "0", "--epsilon", "inf", "--seed", "3"]
    command += ["--epsilon-by", "all"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("60 images of 3 categories: art 30, photo 30\n")
    lines = [line.split() for line in printed.splitlines()[1:4]]
    assert lines[0] == ["Images,", "divided", "by", "seed", "3", "train", "validation", "test"]
    assert lines[1:] == [
        [domain["domain"], *(str(domain[part]) for part in ("train", "validation", "test"))]
        for domain in json.loads((out / "results.json").read_text())["data"]["domains"]
    ]
    assert "* marks the chosen ε of a domain" in printed
    starred = [line.count("*") for line in printed.splitlines() if line.startswith(("0", "∞"))]
    assert sorted(starred) == [0, 0, 2]
    assert "small_cnn at 8 px" in printed
    assert "is best on the validation images" in printed
    assert "One run cannot tell whether sharing helps" in " ".join(printed.split())
    assert "reported by the paper" not in printed
    assert f"contact_sheet.png, models, report.html in {out}" in printed
    note = "Skipped 1\N{NO-BREAK SPACE}image that cannot be read: art/bed/broken.png"
    assert note in printed
    assert sorted(path.name for path in (out / "models").iterdir()) == [
        *(f"epsilon-{radius}-seed-3.safetensors" for radius in ("0.0", "0.1", "inf")),
        "seed-3.json",
    ]
    results = json.loads((out / "results.json").read_text())
    assert results["config"]["epsilons"] == [0, 0.1, "inf"]
    assert results["data"]["images"] == 60
    assert results["provenance"]["command"].startswith("crosslearning")
    assert "reported" not in results
    assert results["notes"] == [note]
    assert results["data"]["skipped"] == ["art/bed/broken.png"]
    assert results["sentence"] in (out / "report.html").read_text()
    assert note in (out / "report.html").read_text()


def test_train_has_defaults_for_images_of_anybody(monkeypatch):
    seen = {}
    monkeypatch.setattr(
        "crosslearning.cli.images.sweep", lambda *args, **_: seen.update(settings=args[1])
    )
    assert main(["train", "pictures"]) == 0
    assert seen["settings"] == TrainingSettings()
    assert main(["train", "pictures", "--no-flip", "--model", "my.module:net"]) == 0
    assert seen["settings"] == TrainingSettings(flip=False, model="my.module:net")
    assert main(["train", "pictures", "--pooled-share", "0"]) == 0
    assert seen["settings"] == TrainingSettings(pooled_share=0.0)
    assert main(["train", "pictures", "--epsilon-by", "all"]) == 0
    assert seen["settings"] == TrainingSettings(epsilon_by="all")
    radii = ["--epsilon", "0.3", "--epsilon", "inf"]
    assert main(["train", "pictures", *radii]) == 0
    assert seen["settings"] == TrainingSettings(epsilons=(0.3, math.inf))
    blocks = ["--epsilon", "features=0.3", "--epsilon", "features=1", "--epsilon", "classifier=inf"]
    assert main(["train", "pictures", *blocks, "--weights", "w"]) == 0
    assert seen["settings"] == TrainingSettings(
        epsilons=(0.3, 1), blocks={"features": None, "classifier": math.inf}, weights="w"
    )
    assert main(["train", "pictures", "--epsilon", "head=inf", "--epsilon", "2"]) == 0
    assert seen["settings"] == TrainingSettings(epsilons=(2,), blocks={"*": None, "head": math.inf})
    assert main(["train", "pictures", "--backbone", "x:y"]) == 0
    assert seen["settings"] == TrainingSettings(backbone="x:y", image_size=224)
    assert main(["train", "pictures32"]) == 0
    assert seen["settings"] == TrainingSettings(image_size=48)
    assert main(["train", "pictures32", "--backbone", "x:y"]) == 0
    assert seen["settings"] == TrainingSettings(backbone="x:y", image_size=64)
    assert main(["train", "pictures", "--no-augment", "--seeds", "3", "--seed", "4"]) == 0
    assert seen["settings"] == TrainingSettings(augment=False, seeds=(4, 5, 6))


@pytest.mark.usefixtures("undrawn")
def test_train_saves_models_that_can_be_loaded(folder, tmp_path, capsys):
    from crosslearning.nn import TaskModels, architectures

    command = ["train", str(folder), *FAST, "--skip-unreadable", "--out", str(tmp_path)]
    assert main([*command, "--epsilon", "0.1", "--learning-rate", "0.5", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    (path,) = (tmp_path / "models").glob("*.safetensors")
    models = TaskModels.load(path, architectures.small_cnn(3))
    assert models.tasks == ("art", "photo")
    assert 0 < models.distances().max() < 0.1 * (1 + 1e-5)


@pytest.mark.usefixtures("undrawn")
def test_reproduce_on_a_folder(folder, tmp_path, capsys):
    command = ["reproduce", "office-home", "--data", str(folder), *FAST, "--skip-unreadable"]
    command += ["--epsilon", "0", "--epsilon", "0.1", "--epsilon", "inf"]
    command += ["--seeds", "2", "--out", str(tmp_path)]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "33.97 %" in printed
    assert "reported by the paper" in printed
    assert not (tmp_path / "models").exists()
    assert main([*command, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    summary = json.loads(captured.out)
    assert summary["config"]["seeds"] == [0, 1]
    assert summary["config"]["learning_rate"] == 0.001
    assert summary["reported"]["best_epsilon"] == 1e-6


def test_without_data_it_says_what_it_runs_on(capsys, monkeypatch):
    seen = {}
    monkeypatch.setattr(
        "crosslearning.cli.images.sweep", lambda *args, **_: seen.update(config=args[1])
    )
    assert main(["reproduce", "office-home", "--epochs", "7"]) == 0
    assert (
        "Office-Home is not included, so this trains a small network on pictures32"
        in capsys.readouterr().out
    )
    config = seen["config"]
    assert (config.model, config.epochs, config.seeds) == ("small_cnn", 7, (0, 1))
    for arguments, seeds in ((["--seed", "5"], (5, 6)), (["--seed", "5", "--seeds", "1"], (5,))):
        assert main(["reproduce", "office-home", "--quiet", *arguments]) == 0
        assert seen["config"].seeds == seeds


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "office-home", "--epsilon", "wide"], "--epsilon"),
        (
            ["reproduce", "office-home", "--epsilon", "-1"],
            "`epsilons` must be one or more numbers of at least 0; got (-1.0,)",
        ),
        (["reproduce", "office-home", "--seeds", "0"], "--seeds"),
        (["reproduce", "office-home", "--data", "nowhere"], "nowhere"),
        (["train"], "'images'"),
        (["train", "pictures32", "--epsilon", "a=wide"], "takes RADIUS or NAME=RADIUS; got a=wide"),
        (
            ["train", "x", "--epsilon", "1", "--epsilon", "a=1", "--epsilon", "a=2"],
            "here '*', may have several radii to choose from; got 1, a=1, a=2",
        ),
        (
            ["train", "pictures32", "--weights", "none.safetensors"],
            "none.safetensors cannot be read as a safetensors file",
        ),
        (["train", "pictures32", "--backbone", "x:y", "--epochs", "3"], "`epochs` applies to"),
        (
            ["train", "pictures32", "--model", "vgg"],
            "`model` must be 'batchnorm_cnn' or 'small_cnn'",
        ),
        (["train", "pictures32", "--epochs", "0"], "`epochs` must be at least 1"),
        (["train", "pictures32", "--image-size", "0"], "`image_size` must be at least 1"),
        (
            ["reproduce", "office-home", "--model", "crosslearning.paper:alexnet256"],
            "alexnet256 must accept images of 48 by 48 pixels",
        ),
        (["reproduce", "office-home", "--skip-unreadable"], "needs a folder of images"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets, "load_pictures32", TintedSquares)
    assert main([*arguments, "--quiet"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("Error: ")
    assert captured.err.count("\n") == 1
    assert message.casefold() in captured.err.casefold()  # how Typer writes arguments varies
    assert list(tmp_path.iterdir()) == []


def test_unreadable_images_are_refused_by_name(folder, tmp_path, capsys):
    assert main(["train", str(folder), *FAST, "--out", str(tmp_path / "out"), "--quiet"]) == 2
    error = capsys.readouterr().err
    assert "broken.png" in error
    assert error.count("\n") == 1


@pytest.mark.usefixtures("undrawn")
def test_a_folder_of_other_runs_is_refused_in_one_line(folder, tmp_path, capsys):
    command = ["train", str(folder), *FAST, "--skip-unreadable", "--out", str(tmp_path)]
    command += ["--epsilon", "0", "--quiet"]
    assert main(command) == 0
    assert main([*command, "--epochs", "2"]) == 2
    assert capsys.readouterr().err == (
        f"Error: {tmp_path} holds runs with other settings: epochs is 1 there and 2 here. "
        "Choose another folder.\n"
    )


def test_a_file_in_the_place_of_the_folder(folder, tmp_path, capsys):
    (tmp_path / "out").write_text("mine")
    command = ["train", str(folder), *FAST, "--skip-unreadable", "--out", str(tmp_path / "out")]
    assert main([*command, "--quiet"]) == 2
    assert "Choose another folder with --out." in capsys.readouterr().err


def test_missing_torch_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["train", "pictures32"]) == 2
    assert capsys.readouterr().err == (
        "Error: Training networks needs torch, an optional dependency. Install it with "
        '`pip install "crosslearning[torch]"`.\n'
    )
