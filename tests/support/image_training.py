"""Images whose colour tells the category, settings for short trainings, and what they leave."""

import json
import math

import numpy as np
import pytest

from crosslearning.datasets import ImageData
from crosslearning.images import TrainingSettings

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


def train(settings, data, folder, **options):
    from crosslearning import images

    return images.train(data, folder, settings, **options)


def read_results(folder):
    return json.loads((folder / "results.json").read_text())


def run_files(folder, seed):
    names = {path.name for path in (folder / "runs" / f"seed-{seed}").iterdir()}
    return names - {"sweep.json"}


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def assert_calibrated(results, n_test):
    """Bins of probabilities hold all test images of the first seed, as many right as predicted."""
    bins = results["reliability"]["bins"]
    assert sum(row["count"] for row in bins) == n_test
    right = sum(row["observed"] * row["count"] for row in bins)
    epsilon = results["chosen"]["epsilon"]
    run = next(r for r in results["runs"] if (r["epsilon"], r["seed"]) == (epsilon, 0))
    # Every category has as many test images as any other in this domain.
    counts = [domain["test"] for domain in results["data"]["domains"]]
    accuracies = [domain["test"] for domain in run["domains"]]
    assert right == pytest.approx(np.dot(counts, accuracies), abs=1e-3)
