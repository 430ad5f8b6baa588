"""Training on images: what is learned and stored, which weights move, and how long it took."""

import json
import math
import time
from dataclasses import replace

import numpy as np
import pytest

from crosslearning.images import TrainingSettings
from crosslearning.images.splits import divide
from tests.support.image_training import (
    CATEGORIES,
    DOMAINS,
    SMALL,
    Squares,
    assert_inspected,
    read_results,
    run_files,
    train,
)


def test_a_sweep_learns_and_is_stored(finished):
    folder, results, seen = finished
    assert results == read_results(folder)
    assert results["title"] == "squares: small_cnn at 8 px"
    assert results["provenance"]["command"] == "typed"
    assert results["chosen"]["test"]["mean"] > 0.5  # by chance it would be 1/3
    pooled, cross, separate = results["path"]
    assert pooled["distance"] == pytest.approx(0.0, abs=1e-6)
    assert cross["distance"] == pytest.approx(0.02, rel=1e-3)
    assert separate["distance"] > 0.04
    assert separate["domains"][0]["pull"] == 0
    assert (folder / "contact_sheet.png").read_bytes().startswith(b"\x89PNG")
    assert [run_files(folder, seed) for seed in SMALL.seeds] == [
        {f"{name}-seed-{seed}.json" for name in ("pooled-0.0", "cross-0.02", "separate-inf")}
        for seed in SMALL.seeds
    ]
    assert {path.name for path in (folder / "models").iterdir()} == {
        name
        for seed in SMALL.seeds
        for name in (
            f"seed-{seed}.json",
            *(f"epsilon-{radius}-seed-{seed}.safetensors" for radius in ("0.0", "0.02", "inf")),
        )
    }
    assert SMALL.pooled_epochs == 1  # which the second radius shares with the first
    assert [(now["run"], now["epoch"]) for now in seen] == [
        (run, epoch) for run in range(1, 7) for epoch in ((2,) if run % 3 == 2 else (1, 2))
    ]
    assert {(now["runs"], now["epochs"]) for now in seen} == {(6, 2)}
    runs = {now["run"]: (now["epsilon"], now["seed"]) for now in seen}
    assert runs == dict(
        enumerate([(e, seed) for seed in SMALL.seeds for e in (0.0, 0.02, math.inf)], 1)
    )


def test_the_seed_decides_everything(finished, tmp_path):
    again = train(replace(SMALL, epsilons=(0.02,), seeds=(1,)), Squares(), tmp_path)
    (expected,) = [r for r in finished[1]["runs"] if (r["epsilon"], r["seed"]) == (0.02, 1)]
    assert again["runs"][0] | {"seconds": 0} == expected | {"seconds": 0}


def test_models_are_stored_with_all_that_predicting_needs(finished):
    import torch

    from crosslearning.images import ImageBatches
    from crosslearning.images.networks import network
    from crosslearning.nn import TaskModels

    folder, results, _ = finished
    about = json.loads((folder / "models" / "seed-0.json").read_text())
    assert (about["domains"], about["categories"]) == (list(DOMAINS), list(CATEGORIES))
    settings = TrainingSettings(model=about["model"], image_size=about["image_size"])
    make = network(settings, len(about["categories"]))
    models = TaskModels.load(folder / "models" / "epsilon-0.02-seed-0.safetensors", make())
    data = Squares()
    for domain, rows, row in zip(
        DOMAINS, divide(SMALL, data, 0)[2], results["runs"][2]["domains"], strict=True
    ):
        pixels = data.pixels(about["image_size"])
        images = ImageBatches(pixels, rows, data.category_codes, about["mean"], about["std"])
        x, y = images.batch(torch.arange(len(rows)))
        right = (models[domain].eval()(x).argmax(1) == y).double().mean()
        assert float(right) == pytest.approx(row["test_images"], rel=1e-5)


def test_test_images_are_looked_at_through_the_saved_networks(finished):
    results = finished[1]
    assert_inspected(results, sum(domain["test"] for domain in results["data"]["domains"]))


def test_examples_are_the_clearest_of_each_domain_in_turn(monkeypatch):
    pytest.importorskip("torch", reason="the extra `torch` is not installed")
    from crosslearning.images import _examples

    monkeypatch.setattr(_examples, "_MOST", 3)
    data, rows = Squares(), np.array([0, 1, 2, 30, 31])  # three of art, two of photo; beds
    cross = np.array([[0.6, 0.2, 0.2], [0.9, 0.1, 0], [0.8, 0.2, 0], [0.7, 0.3, 0], [0, 1, 0]])
    other = np.array([[0.1, 0.9, 0]] * 4 + [[1.0, 0, 0]])
    examples = _examples._compared(data, SMALL, rows, "pooled", cross, other)
    assert (examples["won"], examples["lost"]) == (4, 1)
    shown = [(image["domain"], image["probability"]) for image in examples["images"]]
    assert shown == [("art", 0.9), ("photo", 0.7), ("art", 0.8)]
    assert {(image["truth"], image["predicted"]) for image in examples["images"]} == {
        ("bed", "cup")
    }


def test_blocks_have_radii_of_their_own(tmp_path):
    torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
    from crosslearning.images.networks import default_epsilons, network
    from crosslearning.nn import TaskModels

    blocks = {"*": None, "classifier": math.inf}
    settings = replace(SMALL, epsilons=(0.005,), seeds=(0,), epochs=1, blocks=blocks)
    train(settings, Squares(), tmp_path)
    make = network(SMALL, 3)
    file = tmp_path / "models" / "epsilon-0.005-seed-0.safetensors"
    models = TaskModels.load(file, make())
    assert models.distances("*").max() == pytest.approx(0.005, rel=1e-3)
    assert models.distances("classifier").max() > 0.005
    torch.manual_seed(0)
    norm = sum(p.detach().square().sum() for p in make().features.parameters()).sqrt()
    radii = default_epsilons(make, blocks)
    assert radii[-2] == pytest.approx(0.2 * float(norm), rel=0.1)  # of all but the classifier


def test_training_starts_from_weights_and_may_leave_parts_alone(tmp_path):
    pytest.importorskip("torch", reason="the extra `torch` is not installed")
    from safetensors.torch import save_file

    from crosslearning.images.networks import network
    from crosslearning.nn import TaskModels

    weights = network(SMALL, 7)().state_dict()  # for seven categories: another classifier
    save_file(weights, tmp_path / "weights.safetensors")
    path = str(tmp_path / "weights.safetensors")
    settings = replace(SMALL, epsilons=(0.02,), seeds=(0,), epochs=1, weights=path)
    results = train(replace(settings, only=("classifier",)), Squares(), tmp_path / "out")
    assert results["config"]["only"] == ["classifier"]
    file = tmp_path / "out" / "models" / "epsilon-0.02-seed-0.safetensors"
    models = TaskModels.load(file, network(SMALL, 3)())
    for name, value in models["art"].state_dict().items():
        assert value.equal(weights[name]) == name.startswith("features"), name
    with pytest.raises(ValueError, match=r"`only` must name parts among feat.*; got \('head',\)"):
        train(replace(settings, only=("head",)), Squares(), tmp_path / "none")
    save_file({"other": weights["features.0.weight"]}, path)
    with pytest.raises(ValueError, match="must hold a tensor with a name and shape of small_cnn"):
        train(settings, Squares(), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_the_time_spent_is_that_of_the_clock(tmp_path):
    """Epochs that several radii share count once, and so do those of an earlier call."""
    options = {"model": "tests.support.networks:slow", "epochs": 8, "pooled_share": 0.9, "batch": 4}
    settings = replace(SMALL, **options, epsilons=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5))
    spent, times = [0.0], [time.perf_counter()]
    for seeds in ((0,), (0, 1)):
        results = train(replace(settings, seeds=seeds), Squares(), tmp_path, keep_models=False)
        spent.append(results["provenance"]["seconds"])
        times.append(time.perf_counter())
    for more, wall in zip(np.diff(spent), np.diff(times), strict=True):
        assert 0.2 * wall < more <= wall
