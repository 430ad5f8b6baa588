"""Networks for images of four styles: colour, duotone, outline and solid icons.

Each style is a task with its own network. The same training runs at several radii, from one
shared network (0) to four separate ones (inf), on eight categories with few images of each.

Run it with ``python examples/images.py``. Needs ``pip install "crosslearning[torch]"``.
"""

import math
from functools import partial

import numpy as np
import torch

from crosslearning.datasets import load_icons65
from crosslearning.images import channel_statistics, split
from crosslearning.images.batches import ImageBatches
from crosslearning.nn import TaskModels, evaluate, fit
from crosslearning.nn.architectures import small_cnn

THINGS = ["Batteries", "Bed", "Chair", "Mug", "Pen", "Speaker", "Telephone", "Trash_Can"]
SIZE, EPOCHS, BATCH = 16, 6, 16
RADII = [0.0, 0.3, math.inf]


def main() -> None:
    """Train at every radius, and print the accuracy of each style on held-out images."""
    icons = load_icons65()
    pixels = icons.pixels(SIZE)
    labels = np.array([THINGS.index(name) if name in THINGS else -1 for name in icons.categories])
    labels = labels[icons.category_codes]
    train, test = (part[labels[part] >= 0] for part in split(icons, train_fraction=0.5))
    mean, std = channel_statistics(pixels, train)

    def by_style(indices):
        """Images of each style, as normalised batches."""
        return {
            style: ImageBatches(
                pixels, indices[icons.domain_codes[indices] == k], labels, mean, std
            )
            for k, style in enumerate(icons.domains)
        }

    data, unseen = by_style(train), by_style(test)
    print("Training images:", {style: len(images) for style, images in data.items()})
    print("Test images:    ", {style: len(images) for style, images in unseen.items()})
    print(f"\n{'epsilon':>8} {'mean':>8} " + " ".join(f"{style:>8}" for style in icons.domains))
    for epsilon in RADII:
        torch.manual_seed(0)
        models = TaskModels(small_cnn(len(THINGS), width=8), icons.domains, epsilon=epsilon)
        optimizer = partial(torch.optim.SGD, lr=0.05, momentum=0.9)
        loss = torch.nn.functional.cross_entropy
        fit(models, data, loss, optimizer, EPOCHS, batch_size=BATCH)
        accuracy = evaluate(models, unseen)
        row = [accuracy.mean(), *accuracy]
        print(f"{epsilon:8} " + " ".join(f"{share:8.2f}" for share in row))


if __name__ == "__main__":
    main()
