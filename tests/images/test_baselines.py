"""Baselines that are trained beside the radii."""

import math
from dataclasses import replace

import numpy as np
import pytest

from crosslearning.images.splits import divide
from tests.support.image_training import DOMAINS, SMALL, Squares, train

pytest.importorskip("torch", reason="the extra `torch` is not installed")


def test_baselines_are_trained_beside_the_radii(tmp_path):
    from crosslearning import report

    settings = replace(
        SMALL, model="batchnorm_cnn", image_size=16, epochs=1, epsilons=(0.5,), baselines=True
    )
    seen = []
    results = train(settings, Squares(each=5), tmp_path, progress=seen.append)
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
    again = train(
        replace(settings, baselines=False), Squares(each=5), tmp_path, progress=seen.append
    )
    assert "baselines" not in again
    assert again["runs"] == results["runs"]


def test_shared_statistics_come_from_batches_of_all_domains(tmp_path, monkeypatch):
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
    from torch import nn

    from crosslearning.images.networks import baselines_of

    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Linear(4, 2))
    baselines = baselines_of(network, True)
    assert [*baselines] == [
        "own classifier (FedPer)", "spring 1.0", "spring 10.0", "spring 100.0",
        "pooled, then fine-tuned",
    ]  # fmt: skip
    assert baselines["own classifier (FedPer)"]["blocks"] == {"*": None, "1": math.inf}
    assert [*baselines_of(network, ("FedPer",))] == ["own classifier (FedPer)"]
    assert not baselines_of(network, False)
