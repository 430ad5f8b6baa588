"""
Adapters on a frozen transformer
================================

One adapter per task on a frozen transformer, none farther than ε from their centre.

A small transformer learns to read the digits of scikit-learn. Eight offices then send digits that
are turned by 20 degrees. Office k has its own code: what looks like a k is a k + 1, and the other
way round. (The offices are made up; the digits are not.) There are 24 labelled images of each: few
to learn turned digits from, and one adapter for all cannot know whose code applies. The
transformer stays frozen, and exists once.

Adapters are low-rank: a layer with weights W computes (W + B A) x. The distance between factors is
not the distance between the weights that they make, since B A = (B R⁻¹)(R A) for every R. Both
factors may be tethered all the same. Or A is frozen, and so shared by all tasks, with orthonormal
rows: then the distance between two B is that between the weights. It has twice the rank here, for
about as many trained parameters.

Run it with ``python examples/adapters.py``. Needs ``pip install "crosslearning[torch]"``.
"""

# sphinx_gallery_thumbnail_path = '_static/figures/ball.svg'

import copy
import math

import numpy as np
import torch
from scipy.ndimage import rotate
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy, gelu

from crosslearning.nn import TaskModels, evaluate, fit

OFFICES, DRAWS = range(8), 6
PRETRAINING, STEPS = 600, 60
TRAIN, TEST, ANGLE = 24, 200, 20.0
RADII = {"one for all": 0.0, "within 0.5": 0.5, "within 1": 1.0, "one for each": math.inf}
WIDTH, RANK = 32, 4


class Adapted(nn.Module):
    """A linear layer, and the low-rank change that an adapter makes to it."""

    def __init__(self, layer: nn.Linear, share: bool) -> None:
        super().__init__()
        self.layer, rank = layer, 2 * RANK if share else RANK
        down = nn.init.orthogonal_(torch.empty(rank, layer.in_features))
        self.down = nn.Parameter(down, requires_grad=not share)  # A
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))  # B

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply both."""
        return self.layer(x) + x @ self.down.T @ self.up.T


class Layer(nn.Module):
    """Attention between the rows of an image, and a perceptron for each."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Transform the rows, of shape (n_images, 8, width)."""
        heads = self.mix(self.norms[0](x)).unflatten(2, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = heads
        shares = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)
        x = x + self.out((shares @ value).transpose(1, 2).flatten(2))
        return x + self.narrow(gelu(self.wide(self.norms[1](x))))


class Transformer(nn.Module):
    """Reads the eight rows of an image as words."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(8, WIDTH)
        self.place = nn.Parameter(0.1 * torch.randn(8, WIDTH))
        self.layer = Layer()
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the ten digits."""
        return self.head(self.layer(self.embed(x) + self.place).mean(1))


def adapted(base: Transformer, share: bool) -> Transformer:
    """Return a frozen copy with an adapter in every linear layer."""
    network = copy.deepcopy(base).requires_grad_(False)
    for part in list(network.modules()):
        for name, layer in list(part.named_children()):
            if isinstance(layer, nn.Linear):
                setattr(part, name, Adapted(layer, share))
    return network


def tensors(images: np.ndarray, labels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Convert, with ink from 0 to 1."""
    return torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)


def pretrained(x: torch.Tensor, y: torch.Tensor) -> Transformer:
    """Train a transformer on upright digits."""
    torch.manual_seed(0)
    base = Transformer()
    optimizer = torch.optim.Adam(base.parameters(), lr=3e-3)
    for _ in range(PRETRAINING):
        rows = torch.randint(0, len(x), (64,))
        optimizer.zero_grad()
        cross_entropy(base(x[rows]), y[rows]).backward()
        optimizer.step()
    return base


def sent(images: np.ndarray, labels: np.ndarray, count: int, rng: np.random.Generator) -> dict:
    """Draw images for each office, turn them, and label them by its code."""
    data = {}
    for office in OFFICES:
        rows = rng.choice(len(images), count, replace=False)
        turned = np.stack([rotate(images[row], ANGLE, reshape=False, order=1) for row in rows])
        code = np.arange(10)
        code[[office, office + 1]] = office + 1, office
        data[office] = tensors(turned, code[labels[rows]])
    return data


def accuracy(base: Transformer, data: dict, test: dict, share: bool, radius: float) -> float:
    """Train adapters within a radius, and return the mean accuracy over offices."""
    torch.manual_seed(0)
    models = TaskModels(adapted(base, share), data, epsilon=radius)
    options = {"batch_size": None, "engine": "vmap"}  # all rows of all offices in one pass
    fit(models, data, cross_entropy, lambda p: torch.optim.Adam(p, lr=0.01), STEPS, **options)
    return float(evaluate(models, test).mean())


def main() -> None:
    """Print accuracies of both kinds of adapters at all radii."""
    digits, rng = load_digits(), np.random.default_rng(0)
    order = rng.permutation(len(digits.target))  # they are sorted by writer
    images, labels = digits.images[order], digits.target[order]
    base = pretrained(*tensors(images[:900], labels[:900]))
    draws = [
        (sent(images[900:1300], labels[900:1300], TRAIN, rng),
         sent(images[1300:], labels[1300:], TEST, rng))
        for _ in range(DRAWS)
    ]  # fmt: skip
    print(f"Accuracy, and difference to one adapter for each, on {TEST} images of every office:")
    for kind, share in [("both factors trained", False), ("A shared and frozen", True)]:
        print(kind)
        scores = {
            name: np.array([accuracy(base, *draw, share, radius) for draw in draws])
            for name, radius in RADII.items()
        }
        for name, values in scores.items():
            gains = values - scores["one for each"]
            error = gains.std(ddof=1) / len(gains) ** 0.5
            print(f"  {name:13} {values.mean():.3f}   {gains.mean():+.3f} ± {error:.3f}")


if __name__ == "__main__":
    main()
