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
