"""
Pictures in torch
=================

Networks for photographs, sketches, emoji and icons of the same things.

Each of the four domains is a task with its own network. The same training runs at several radii,
from one shared network (0) to four separate ones (inf), on eight categories with few images
of each.

Run it with ``python examples/images.py``. Needs ``pip install "crosslearning[torch]"``.
"""

# sphinx_gallery_thumbnail_path = '_static/pictures.png'

import math
from functools import partial

import numpy as np
import torch

from crosslearning.datasets import load_pictures32
from crosslearning.images import channel_statistics, split
from crosslearning.images.batches import ImageBatches
from crosslearning.nn import TaskModels, evaluate, fit
from crosslearning.nn.architectures import small_cnn

THINGS = ["airplane", "butterfly", "car", "cup", "dog", "guitar", "tree", "umbrella"]
SIZE, EPOCHS, BATCH = 16, 6, 16
RADII = [0.0, 0.3, math.inf]


def main() -> None:
    """Train at every radius, and print the accuracy of each domain on held-out images."""
    pictures = load_pictures32()
    pixels = pictures.pixels(SIZE)
    labels = np.array(
        [THINGS.index(name) if name in THINGS else -1 for name in pictures.categories]
    )
    labels = labels[pictures.category_codes]
    train, test = (part[labels[part] >= 0] for part in split(pictures, train_fraction=0.5))
    mean, std = channel_statistics(pixels, train)

    def by_domain(indices):
        """Images of each domain, as normalised batches."""
        return {
            domain: ImageBatches(
                pixels, indices[pictures.domain_codes[indices] == k], labels, mean, std
            )
            for k, domain in enumerate(pictures.domains)
        }

    data, unseen = by_domain(train), by_domain(test)
    print("Training images:", {domain: len(images) for domain, images in data.items()})
    print("Test images:    ", {domain: len(images) for domain, images in unseen.items()})
    print(
        f"\n{'epsilon':>8} {'mean':>8} " + " ".join(f"{domain:>8}" for domain in pictures.domains)
    )
    for epsilon in RADII:
        torch.manual_seed(0)
        models = TaskModels(small_cnn(len(THINGS), width=8), pictures.domains, epsilon=epsilon)
        optimizer = partial(torch.optim.SGD, lr=0.05, momentum=0.9)
        loss = torch.nn.functional.cross_entropy
        fit(models, data, loss, optimizer, EPOCHS, batch_size=BATCH)
        accuracy = evaluate(models, unseen)
        row = [accuracy.mean(), *accuracy]
        print(f"{epsilon:8} " + " ".join(f"{share:8.2f}" for share in row))


if __name__ == "__main__":
    main()
