"""A tiny set of images in memory."""

import numpy as np

from crosslearning.datasets import ImageData


class TintedSquares(ImageData):
    """Noise with a tint that tells the category; two tints differ between the domains.

    The domains have names that the paper reports numbers for.
    """

    fingerprint = "tinted squares"

    def __init__(self, each=20):
        kinds = [(d, c) for d in ("Art", "Clipart") for c in ("bed", "cup", "pen")]
        codes = [kind for kind in kinds for _ in range(each)]
        super().__init__(*zip(*codes, strict=True), groups=range(len(codes)))

    def pixels(self, size, *, progress=None):  # noqa: ARG002
        noise = np.random.default_rng(0).integers(0, 180, (len(self), size, size, 3))
        tints = np.array([[0, 1, 2], [0, 2, 1]])[self.domain_codes, self.category_codes]
        noise[np.arange(len(self)), :, :, tints] += 40
        return noise.astype(np.uint8)
