"""Training on images: settings, choice of a radius, resuming, results."""

import csv
import json
import math
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_rel

from crosslearning.datasets import ImageData
from crosslearning.images import TrainingSettings
from crosslearning.images._findings import chosen, compared, comparison, statement
from crosslearning.images._results import assemble, common_pairs, worst_categories, write
from crosslearning.images._runs import Runs, by_domain, macro, over_images
from crosslearning.images.splits import divide

SMALL = TrainingSettings(
    model="small_cnn",
    image_size=8,
    epochs=2,
    augment=False,
    epsilons=(0.0, 0.02, math.inf),
    seeds=(0, 1),
)
DOMAINS, CATEGORIES = ("art", "photo"), ("bed", "cup", "pen")


class Squares(ImageData):
    """Images of 8 by 8 pixels whose colour tells the category, in two domains."""

    def __init__(self, each=10, fingerprint="squares"):
        codes = [(d, c) for d in DOMAINS for c in CATEGORIES for _ in range(each)]
        super().__init__(*zip(*codes, strict=True), groups=range(len(codes)))
        self._fingerprint = fingerprint

    @property
    def fingerprint(self):
        return self._fingerprint

    def pixels(self, size, *, progress=None):  # noqa: ARG002
        noise = np.random.default_rng(0).integers(0, 60, (len(self), size, size, 3))
        noise[np.arange(len(self)), :, :, self.category_codes] += 150
        pixels = noise.astype(np.uint8)
        pixels.flags.writeable = False  # as a memory map is
        return pixels


def counts(shares, images):
    """Tables of runs that recognise these shares of the images; errors go one further."""
    right = np.rint(images * np.asarray(shares)).astype(int)[..., None, None]
    eye = np.eye(len(CATEGORIES), dtype=int)
    return right * eye + (images - right) * np.roll(eye, 1, axis=1)


def runs_at(epsilons, validation, test):
    """Runs with these accuracies by radius, seed and domain."""
    shape = np.shape(test)
    radii = np.array(epsilons)[:, None, None]
    return Runs(
        DOMAINS,
        CATEGORIES,
        tuple(epsilons),
        tuple(range(shape[1])),
        images=np.array([[30, 60, 300]] * len(DOMAINS)),
        validation=counts(validation, 20),
        test=counts(test, 100),
        distances=np.broadcast_to(np.clip(radii, 2e-7 * (radii > 0), 7.0), shape),
        pulls=np.broadcast_to([0.25, 0.0], shape),
        losses=np.broadcast_to([2.0, 1.0], (*shape[:2], 2)),
        seconds=np.full(shape[:2], 3.0),
    )


def runs_of(accuracies, seeds=2):
    """Runs from {radius: (validation, test)}, with a little more in later seeds."""
    steps = np.arange(seeds)[:, None] * [[[0.1]], [[0.02]]]
    shares = np.array(list(accuracies.values()))[:, :, None] + steps
    validation, test = shares.swapaxes(0, 1)
    return runs_at(list(accuracies), validation, test)


USUAL = {
    0.0: ([0.4, 0.4], [0.40, 0.50]),
    0.1: ([0.5, 0.6], [0.44, 0.55]),
    1.0: ([0.3, 0.7], [0.42, 0.58]),
    math.inf: ([0.2, 0.2], [0.20, 0.40]),
}


def stored(folder, runs):
    settings = replace(SMALL, epsilons=runs.epsilons, seeds=runs.seeds)
    data = {"name": "squares", "fingerprint": "ff", "images": 60}
    return write(folder, assemble(settings, runs, data), runs)


def read_results(folder):
    return json.loads((folder / "results.json").read_text())


def train(settings, data, folder, **options):
    from crosslearning import images

    return images.train(data, folder, settings, **options)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schedule": "step"}, "`schedule` must be 'constant' or 'cosine'"),
        ({"epochs": 0}, "`epochs` must be at least 1; got 0"),
        ({"pooled_share": 1.5}, "`pooled_share` must be a share from 0 to 1; got 1.5"),
        ({"batch": -1}, "`batch` must be at least 1"),
        ({"train": 1.0}, "`train` must be a share above 0 and below 1; got 1.0"),
        ({"train_fraction": 1.5}, "`train_fraction` must be a share above 0 and at most 1"),
        ({"train_fraction": math.nan}, "got nan"),
        ({"learning_rate": 0.0}, "`learning_rate` must be finite and positive"),
        ({"momentum": 1.0}, "`momentum` must be at least 0 and below 1; got 1.0"),
        ({"epsilons": ()}, "`epsilons` must be one or more numbers of at least 0"),
        ({"epsilons": (math.nan,)}, r"`epsilons` must be .*; got \(nan,\)"),
        ({"seeds": (-1,)}, r"`seeds` must be .*; got \(-1,\)"),
        ({"weight_decay": -1.0}, "`weight_decay` must be finite and at least 0"),
        ({"image_size": 0}, "`image_size` must be at least 1; got 0"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"model": "vgg"},
            "`model` must be 'batchnorm_cnn' or 'small_cnn', or 'package",
        ),
        (
            {"model": "nowhere:net"},
            "Model 'nowhere:net' cannot be imported: No module named 'nowhere'",
        ),
        ({"model": "crosslearning.paper:vgg"}, "Model 'crosslearning.paper:vgg'"),
        (
            {"model": "tests.support.networks:two_numbers"},
            r"each of the 3 categories; .* shape \(2,\)",
        ),
        ({"image_size": 3}, "small_cnn must accept images of 3 by 3 pixels .* Use larger images"),
        (
            {"model": "crosslearning.paper:alexnet256", "image_size": 62},
            "alexnet256 must accept images of 62 by 62 pixels",
        ),
        ({"model": "batchnorm_cnn", "image_size": 15}, "batchnorm_cnn must accept images of 15"),
    ],
)
def test_networks_that_do_not_fit_are_refused_before_anything_is_written(
    settings, message, tmp_path
):
    pytest.importorskip("torch", reason="the extra `torch` is not installed")
    with pytest.raises(ValueError, match=message):
        train(replace(SMALL, **settings), Squares(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("model", "size"),
    [("crosslearning.paper:alexnet256", 63), ("small_cnn", 4), ("batchnorm_cnn", 16)],
)
def test_the_smallest_images_are_large_enough(model, size):
    torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
    from crosslearning.images.networks import network

    make = network(replace(SMALL, model=model, image_size=size), 3)
    assert make()(torch.zeros(2, 3, size, size)).shape == (2, 3)


def test_default_radii_are_shares_of_the_norm():
    torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
    from crosslearning.images.networks import default_epsilons

    def make():
        layer = torch.nn.Linear(4, 1, bias=False)
        torch.nn.init.constant_(layer.weight, 50.0)  # a norm of 100
        return layer

    assert default_epsilons(make) == (0.0, 1.0, 2.0, 6.0, 20.0, math.inf)


def test_radii_are_sorted_and_counted_once():
    assert replace(SMALL, epsilons=(math.inf, 0.1, 0.0, 0.1)).epsilons == (0.0, 0.1, math.inf)


def test_accuracies_are_over_categories_then_domains():
    counts = np.array([[[9, 1, 0], [0, 1, 1], [0, 0, 0]], [[1, 0, 0], [0, 0, 0], [0, 0, 0]]])
    np.testing.assert_allclose(by_domain(counts), [(0.9 + 0.5) / 2, 1.0])
    assert macro(counts) == pytest.approx(0.85)
    np.testing.assert_allclose(over_images(counts), [10 / 12, 1.0])
    assert over_images(counts.sum(0)) == pytest.approx(11 / 13)


def test_the_radius_is_chosen_by_validation_and_the_hindsight_is_shown():
    runs = runs_of(USUAL)
    choice = chosen(runs)
    assert (choice["epsilon"], choice["between"]) == (0.1, 0.1)
    assert choice["test"]["mean"] == pytest.approx(0.505)
    assert choice["test"]["std"] == pytest.approx(0.02 / math.sqrt(2))
    assert choice["best_on_test"] == 1.0
    assert choice["best_test"]["mean"] == pytest.approx(0.51)


def test_of_equal_radii_the_smallest_is_chosen():
    same = ([0.5, 0.5], [0.5, 0.5])
    assert chosen(runs_of({0.0: same, 0.1: same, math.inf: same}))["epsilon"] == 0.0


def test_comparison_is_paired_over_seeds():
    rows = {row["method"]: row for row in comparison(runs_of(USUAL))}
    assert [row["epsilon"] for row in rows.values()] == [0.0, 0.1, math.inf]
    assert rows["pooled"]["gain"] == pytest.approx(0.045)
    assert rows["pooled"]["standard_error"] == pytest.approx(0.0, abs=1e-12)
    assert rows["separate"]["gain"] == pytest.approx(0.195)
    assert rows["cross"]["gain"] is None


def test_two_standard_errors_of_three_seeds_are_no_proof():
    pooled, cross = [0.40, 0.50, 0.45], [0.44, 0.51, 0.46]
    test = np.repeat([pooled, cross], 2).reshape(2, 3, 2)
    runs = runs_at([0.0, 0.1], np.full((2, 3, 2), 0.5), test)
    rows = comparison(runs)
    assert rows[0]["gain"] == pytest.approx(2 * rows[0]["standard_error"])
    assert rows[0]["p_value"] == pytest.approx(ttest_rel(cross, pooled).pvalue)
    said = statement(runs)
    assert "These 3 runs cannot tell whether sharing helps" in said
    assert "better than one pooled model, the best alternative, by 2.0 ± 1.0 points in test" in said


def test_a_sweep_that_changes_nothing_proves_nothing():
    same = ([0.5, 0.5], [0.5, 0.5])
    assert comparison(runs_of({0.0: same, 0.1: same}))[0]["p_value"] == 1


def test_what_was_not_run_is_not_compared():
    one = runs_of({0.1: USUAL[0.1]}, seeds=1)
    assert [row["method"] for row in comparison(one)] == ["cross"]
    ends = runs_of({e: USUAL[e] for e in (0.0, math.inf)})
    assert chosen(ends)["between"] is None
    assert [row["gain"] for row in comparison(ends)] == [None, None]
    assert compared(one) is compared(ends) is None


@pytest.mark.parametrize(
    ("best", "words"),
    [
        (0.0, "Pooling is best on the validation images (ε = 0)."),
        (0.1, "Cross-learning is best on the validation images (ε = 0.1)."),
        (math.inf, "Separate training is best on the validation images (ε = ∞)."),
    ],
)
def test_the_statement_names_the_winner(best, words):
    runs = runs_of(USUAL | {best: ([0.8, 0.8], USUAL[best][1])})
    text = statement(runs)
    assert text.startswith(words)
    assert "Sharing helps: cross-learning is better than one pooled model by " in text
    assert "The best on the test images, in hindsight, is ε = 1: 51.0 ± 1.4 %." in text


@pytest.mark.parametrize("ties", [(0.0, 0.1, 1.0, math.inf), (0.0, 1.0), (0.1, math.inf)])
def test_of_equal_radii_none_is_called_the_best(ties):
    runs = runs_of(USUAL | {radius: ([0.8, 0.8], USUAL[radius][1]) for radius in ties})
    radius = {0.0: "0", 0.1: "0.1"}[ties[0]]
    start = "On the validation images several radii are equally good; the smallest is taken"
    assert statement(runs).startswith(f"{start} (ε = {radius}). Its test accuracy is ")


def test_the_statement_knows_its_limits():
    worse = USUAL | {0.0: ([0.4, 0.4], [0.6, 0.6])}
    one = runs_of(worse, seeds=1)
    text = statement(one)
    assert "One run cannot tell whether sharing helps: cross-learning is worse than one" in text
    assert "points in test accuracy" in text
    single = runs_of({0.1: USUAL[0.1]}, seeds=1)
    text = statement(single)
    assert text == "At ε = 0.1 the test accuracy is 49.5 %."


def test_confusions():
    counts = np.array([[[5, 3, 0], [0, 8, 1], [4, 0, 0]], [[1, 0, 0], [0, 0, 0], [0, 2, 0]]])
    pairs = common_pairs(counts, DOMAINS, CATEGORIES, most=2)
    assert pairs == [
        {"domain": "art", "truth": "pen", "predicted": "bed", "count": 4, "of": 4},
        {"domain": "art", "truth": "bed", "predicted": "cup", "count": 3, "of": 8},
        {"domain": "photo", "truth": "pen", "predicted": "cup", "count": 2, "of": 2},
    ]
    worst = worst_categories(counts, CATEGORIES, most=2)
    assert worst == {"categories": ["pen", "bed"], "counts": [[0, 4], [0, 6]], "totals": [6, 9]}


def test_results_are_complete_and_plain(tmp_path):
    runs = runs_of({1e-7: USUAL[0.1], **USUAL})
    results = stored(tmp_path, runs)
    assert results == read_results(tmp_path)
    assert results["kind"] == "images"
    assert [point["epsilon"] for point in results["path"]] == [1e-7, 0, 0.1, 1, "inf"]
    assert results["path"][4]["distance"] == 7
    assert results["path"][2]["domains"][0]["pull"] == 0.25
    assert len(results["runs"]) == 10
    assert results["notes"] == ["ε = 1e-7: too small for float32; distances are those of rounding."]
    assert results["data"]["domains"][0] == {
        "domain": "art", "images": 390, "train": 30, "validation": 60, "test": 300
    }  # fmt: skip
    category = results["categories"][0]
    assert (category["domain"], category["category"], category["images"]) == ("art", "bed", 200)
    assert category["accuracy"][2] == pytest.approx(0.45)
    rows = list(csv.DictReader((tmp_path / "results.csv").read_text().splitlines()))
    assert len(rows) == 5 * 2 * 2 * 3
    assert {row["epsilon"] for row in rows} == {"1e-07", "0", "0.1", "1", "inf"}
    right = sum(int(row["test_correct"]) for row in rows if row["epsilon"] == "inf")
    images = sum(int(row["test_images"]) for row in rows if row["epsilon"] == "inf")
    assert right / images == pytest.approx(results["path"][4]["test_images"]["mean"])


def test_parts_are_apart_and_the_test_part_stays():
    data = Squares()
    train, validation, test = divide(SMALL, data, seed=0)
    everything = np.concatenate([*train, *validation, *test])
    assert sorted(everything) == list(range(len(data)))
    few = divide(replace(SMALL, train_fraction=0.5), data, seed=0)
    for d in range(2):
        np.testing.assert_array_equal(few[2][d], test[d])
        assert set(few[0][d]) | set(few[1][d]) < set(train[d]) | set(validation[d])
    assert any((a != b).any() for a, b in zip(divide(SMALL, data, seed=1)[2], test, strict=True))


def test_a_domain_without_validation_images_is_refused():
    with pytest.raises(ValueError, match=r"'art' has none in the \w+ part"):
        divide(SMALL, Squares(each=1), seed=0)


@pytest.mark.parametrize(("name", "only"), [("domains", "art"), ("categories", "bed")])
def test_one_domain_or_category_is_refused(name, only):
    data = Squares()
    setattr(data, name, (only,))
    with pytest.raises(ValueError, match=f"two or more {name}; there is only '{only}'"):
        divide(SMALL, data, seed=0)


def run_files(folder, seed):
    names = {path.name for path in (folder / "runs" / f"seed-{seed}").iterdir()}
    return names - {"sweep.json"}


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A sweep, its folder, and the progress it reported."""
    pytest.importorskip("torch", reason="the extra `torch` is not installed")
    folder, seen = tmp_path_factory.mktemp("finished"), []
    results = train(SMALL, Squares(), folder, name="squares", progress=seen.append, command="typed")
    return folder, results, seen


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


def assert_inspected(results, n_test):
    """Saved networks see the test images of the first seed as they did in training."""
    right = {
        float(run["epsilon"]): run["test_images"] * n_test
        for run in results["runs"]
        if run["seed"] == 0
    }
    bins = results["reliability"]["bins"]
    assert sum(row["count"] for row in bins) == n_test
    correct = sum(row["observed"] * row["count"] for row in bins)
    assert correct == pytest.approx(right[float(results["chosen"]["epsilon"])], abs=1e-3)
    for part, end in zip(results["examples"], (0.0, math.inf), strict=True):
        gain = right[float(results["chosen"]["between"])] - right[end]
        assert part["won"] - part["lost"] == pytest.approx(gain, abs=1e-3)
        assert len(part["images"]) == min(part["won"], 12)
        for image in part["images"]:
            assert image["predicted"] != image["truth"]
            assert image["picture"].startswith("data:image/webp;base64,")


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
    found = _examples._compared(data, SMALL, rows, "pooled", cross, other)
    assert (found["won"], found["lost"]) == (4, 1)
    shown = [(image["domain"], image["probability"]) for image in found["images"]]
    assert shown == [("art", 0.9), ("photo", 0.7), ("art", 0.8)]
    assert {(image["truth"], image["predicted"]) for image in found["images"]} == {("bed", "cup")}


def test_no_finished_run_is_trained_twice(finished, tmp_path, monkeypatch):
    folder = shutil.copytree(finished[0], tmp_path / "copy")
    results = finished[1]
    monkeypatch.setattr("crosslearning.nn.sweeps._single.fit", None)
    again = train(SMALL, Squares(), folder, name="squares", command="typed")
    assert again | {"created": None} == results | {"created": None}


def test_models_that_were_deleted_are_trained_again(finished, tmp_path):
    folder, seen = shutil.copytree(finished[0], tmp_path / "copy"), []
    model = folder / "models" / "epsilon-0.02-seed-1.safetensors"
    before = model.read_bytes()
    model.unlink()
    results = train(SMALL, Squares(), folder, name="squares", progress=seen.append)
    assert {(now["epsilon"], now["seed"]) for now in seen} == {(0.02, 1)}
    assert model.read_bytes() == before
    for row, expected in zip(results["runs"], finished[1]["runs"], strict=True):
        assert row | {"seconds": 0} == expected | {"seconds": 0}


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


def test_more_seeds_and_radii_may_follow(finished, tmp_path):
    folder = shutil.copytree(finished[0], tmp_path / "copy")
    results = finished[1]
    seen = []
    more = train(replace(SMALL, seeds=(0, 1, 2)), Squares(), folder, progress=seen.append)
    assert {now["seed"] for now in seen} == {2}
    assert len(more["runs"]) == len(results["runs"]) + 3


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


def test_a_folder_without_runs_takes_other_settings(tmp_path):
    config = replace(SMALL, epsilons=(0.02,), seeds=(0,), epochs=1)
    (tmp_path / "settings.json").write_text('{"epochs": 7}')
    assert train(config, Squares(), tmp_path)["config"]["epochs"] == 1


@pytest.mark.parametrize("content", ["[]", "{"])
def test_settings_that_are_none_are_refused(content, tmp_path):
    (tmp_path / "settings.json").write_text(content)
    (tmp_path / "runs" / "seed-0").mkdir(parents=True)
    (tmp_path / "runs" / "seed-0" / "pooled-0.0-seed-0.json").write_text("{}")
    with pytest.raises(ValueError, match=r"settings.json must hold the settings of runs. Choose"):
        train(SMALL, Squares(), tmp_path)


def test_results_of_something_else_are_not_overwritten(tmp_path):
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(ValueError, match="holds results of something else"):
        train(SMALL, Squares(), tmp_path)
    assert files(tmp_path) == {"results.json": b"{}"}


def test_the_seed_decides_everything(finished, tmp_path):
    again = train(replace(SMALL, epsilons=(0.02,), seeds=(1,)), Squares(), tmp_path)
    (expected,) = [r for r in finished[1]["runs"] if (r["epsilon"], r["seed"]) == (0.02, 1)]
    assert again["runs"][0] | {"seconds": 0} == expected | {"seconds": 0}


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
    assert results["runs"][0] | {"seconds": 0} == expected | {"seconds": 0}
    assert run_files(tmp_path, 0) == {"cross-0.02-seed-0.json"}
    assert len(list((tmp_path / "models").glob("*.safetensors"))) == 1


_KILLED = """
import os, signal, sys
from tests.images.test_training import SMALL, Squares, train

def die(now):
    if (now["run"], now["epoch"]) == (3, 1):
        os.kill(os.getpid(), signal.SIGKILL)

train(SMALL, Squares(), sys.argv[1], name="squares", progress=die, command="typed")
"""


def test_a_killed_training_goes_on_to_the_same_numbers(finished, tmp_path):
    command = [sys.executable, "-c", _KILLED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, cwd=Path(__file__).parents[2])
    assert done.returncode == -signal.SIGKILL
    finished_runs = {"pooled-0.0-seed-0.json", "cross-0.02-seed-0.json"}
    assert run_files(tmp_path, 0) == finished_runs | {"stage-seed-0.safetensors"}
    seen = []
    results = train(
        SMALL, Squares(), tmp_path, name="squares", progress=seen.append, command="typed"
    )
    assert [(now["run"], now["epoch"]) for now in seen[:2]] == [(3, 1), (3, 2)]
    for row, expected in zip(results["runs"], finished[1]["runs"], strict=True):
        assert row | {"seconds": 0} == expected | {"seconds": 0}


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


def test_one_block_gets_the_radii():
    with pytest.raises(ValueError, match="Exactly one of `blocks` must be None"):
        replace(SMALL, blocks={"features": 0.1, "classifier": 0.2})


def test_baselines_are_trained_beside_the_radii(tmp_path):
    pytest.importorskip("torch", reason="the extra `torch` is not installed")
    from crosslearning import report

    settings = replace(
        SMALL, model="batchnorm_cnn", image_size=16, epochs=1, epsilons=(0.5,), baselines=True
    )
    seen = []
    results = train(settings, Squares(), tmp_path, progress=seen.append)
    names = [
        "pooled, shared BatchNorm statistics",
        "own BatchNorm (FedBN)",
        "own classifier (FedPer)",
        "pooled, then fine-tuned",
        "spring",
    ]
    assert [row["method"] for row in results["baselines"]] == names
    of_cross = results["path"][0]["test"]["mean"]
    for row in results["baselines"]:
        assert row["gain"] == pytest.approx(of_cross - row["test"]["mean"], abs=1e-5)
        assert row["standard_error"] is not None
        assert np.mean(row["by_seed"]) == pytest.approx(row["test"]["mean"], abs=1e-5)
    assert [now["baseline"] for now in seen if "baseline" in now][:3] == names[:1] * 2 + names[1:2]
    assert len(list((tmp_path / "models").glob("*.safetensors"))) == 2  # those at radii only
    kept = tmp_path / "runs" / "baselines"
    assert len(list(kept.rglob("*-seed-*.json"))) == 2 * 7
    page = report.write(tmp_path).read_text()
    assert all(name in page for name in names)
    # Without them, nothing is trained again, and nothing is said of them.
    again = train(replace(settings, baselines=False), Squares(), tmp_path, progress=seen.append)
    assert "baselines" not in again
    assert again["runs"] == results["runs"]


def test_shared_statistics_come_from_batches_of_all_domains(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="the extra `torch` is not installed")
    from crosslearning.images import training
    from crosslearning.nn import evaluate

    calls, networks = [], []

    def sweep(make, data, *arguments, measure, **options):
        def kept(run, models, history):
            networks.append(models)
            return measure(run, models, history)

        calls.append((data, options))
        return original(make, data, *arguments, measure=kept, **options)

    original = training.sweep
    monkeypatch.setattr(training, "sweep", sweep)
    more = {"epochs": 1, "epsilons": (0.5,), "seeds": (0,), "baselines": ("shared",)}
    settings = replace(SMALL, model="batchnorm_cnn", image_size=16, **more)
    squares = Squares()
    squares.domain_codes[:10] = 1  # so that the domains differ in size
    results = train(settings, squares, tmp_path)
    data, options = calls[-1]
    assert [*data] == ["all"]
    assert options["batch_size"] == len(DOMAINS) * settings.batch
    parts = divide(settings, squares, 0)
    domains = squares.domain_codes[data["all"]._rows]
    largest = max(map(len, parts[0]))
    assert min(map(len, parts[0])) < largest
    assert np.bincount(domains).tolist() == [largest] * 2  # as often as if they took turns
    assert set(data["all"]._rows) == set(np.concatenate(parts[0]))
    # The one network, judged by hand on each category of each domain.
    pixels, truth = squares.pixels(16), squares.category_codes
    statistics = training.channel_statistics(pixels, np.concatenate(parts[0]))
    hits = [
        np.mean(
            [
                evaluate(
                    networks[-1],
                    {
                        "all": training.ImageBatches(
                            pixels, rows[truth[rows] == k], truth, *statistics
                        )
                    },
                )["all"]
                for k in np.unique(truth[rows])
            ]
        )
        for rows in parts[2]
    ]
    assert results["baselines"][0]["by_seed"] == pytest.approx([np.mean(hits)], abs=1e-5)


def test_a_network_without_batchnorm_has_no_fedbn():
    nn = pytest.importorskip("torch.nn", reason="the extra `torch` is not installed")
    from crosslearning.images._baselines import baselines_of

    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Linear(4, 2))
    found = baselines_of(network, True)
    assert [*found] == [
        "own classifier (FedPer)", "spring 1.0", "spring 10.0", "spring 100.0",
        "pooled, then fine-tuned",
    ]  # fmt: skip
    assert found["own classifier (FedPer)"]["blocks"] == {"*": None, "1": math.inf}
    assert [*baselines_of(network, ("FedPer",))] == ["own classifier (FedPer)"]
    assert not baselines_of(network, False)


@pytest.mark.parametrize("backbone", ["", "tests.images.test_heads:colours"])
def test_trainings_killed_in_every_phase_end_with_the_same_numbers(backbone, tmp_path):
    pytest.importorskip("PIL.Image")
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "tests.support.killed_images",
        str(tmp_path),
        backbone,
    ]
    subprocess.run(command, cwd=Path(__file__).parents[2], check=True, timeout=300)
    deaths = (tmp_path / "deaths").read_text()
    for phase in ("cache", "features" if backbone else "runs", "models"):
        assert f"/{phase}/" in deaths, phase
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    files = [path.relative_to(whole) for path in whole.glob("models/*")]
    for file in (Path("results.csv"), Path("contact_sheet.png"), *files):
        assert (whole / file).read_bytes() == (killed / file).read_bytes(), file
    results = [json.loads((folder / "results.json").read_text()) for folder in (whole, killed)]
    for one in results:
        del one["created"], one["provenance"]
        for run in one["runs"]:
            del run["seconds"]
    assert results[0] == results[1]
