"""Training on images: what is learned and stored, which weights move, and how long it took."""

import json
import math
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
    assert_calibrated,
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
    # The first radius pools 75 % of two epochs: one, which the second radius shares.
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
    assert again["runs"][0] == expected


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
        right = (models[domain].eval()(x).argmax(1) == y).double()
        by_category = [float(right[y == k].mean()) for k in y.unique()]
        assert np.mean(by_category) == pytest.approx(row["test"], rel=1e-5)


def test_probabilities_of_test_images_are_checked(finished):
    results = finished[1]
    assert_calibrated(results, sum(domain["test"] for domain in results["data"]["domains"]))


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


def test_training_starts_from_weights_and_names_what_does_not_fit(tmp_path):
    torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
    from safetensors.torch import save_file

    from crosslearning.images.networks import network
    from crosslearning.nn import TaskModels

    weights = network(SMALL, 7)().state_dict()  # for seven categories: another classifier
    path = str(tmp_path / "weights.safetensors")
    save_file(weights | {"other": torch.ones(1)}, path)
    changes = {"epsilons": (0.02,), "seeds": (0,), "epochs": 1, "learning_rate": 1e-9}
    settings = replace(SMALL, **changes, weights=path)
    results = train(settings, Squares(), tmp_path / "out")
    random, unused = results["notes"]
    assert random.endswith("started at random: classifier.1.bias, classifier.1.weight.")
    assert unused.endswith("name and shape: classifier.1.bias, classifier.1.weight, other.")
    file = tmp_path / "out" / "models" / "epsilon-0.02-seed-0.safetensors"
    models = TaskModels.load(file, network(SMALL, 3)())
    for name, value in models["art"].features.named_parameters():
        torch.testing.assert_close(value.detach(), weights[f"features.{name}"])
    save_file({"other": torch.ones(1)}, path)
    with pytest.raises(ValueError, match="must hold a tensor with a name and shape of the network"):
        train(settings, Squares(), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_network_may_start_from_weights_and_have_frozen_parts(tmp_path):
    pytest.importorskip("torch", reason="the extra `torch` is not installed")
    from crosslearning.nn import TaskModels
    from tests.support.networks import half_frozen

    model = "tests.support.networks:half_frozen"
    settings = replace(SMALL, model=model, epsilons=(0.02,), seeds=(0,), epochs=1)
    train(settings, Squares(), tmp_path)
    start = half_frozen(3)
    file = tmp_path / "models" / "epsilon-0.02-seed-0.safetensors"
    models = TaskModels.load(file, half_frozen(3))
    for name, value in models["art"].state_dict().items():
        assert value.equal(start.state_dict()[name]) == name.startswith("features"), name
