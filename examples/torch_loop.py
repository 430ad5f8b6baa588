"""
Your own torch training loop
============================

Your own torch training loop, with three additional lines.

Six noisy sine waves of different height and phase, with 8 points each: too few to learn a wave
from, but the waves have much in common. The same loop runs at three radii.

Run it with ``python examples/torch_loop.py``. Needs ``pip install "crosslearning[torch]"``.
"""

# sphinx_gallery_thumbnail_path = '_static/figures/tethers.svg'

import math

import torch

from crosslearning.nn import TaskModels
from crosslearning.nn.architectures import mlp

STEPS, POINTS, TASKS = 200, 8, [f"wave {k}" for k in range(6)]


def waves(points: int, noise: float, seed: int) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Points of each wave; the waves are the same for every seed."""
    shape, draw = torch.Generator().manual_seed(0), torch.Generator().manual_seed(seed)
    data = {}
    for task in TASKS:
        height, phase = 1 + 0.5 * torch.randn(2, generator=shape)
        x = 6 * torch.rand(points, 1, generator=draw)
        y = height * torch.sin(x + 0.5 * phase)
        data[task] = x - 3, y + noise * torch.randn(y.shape, generator=draw)
    return data


def train(epsilon: float) -> TaskModels:
    """Train one small network per wave, all within epsilon of the centre."""
    torch.manual_seed(0)
    data = waves(POINTS, noise=0.3, seed=1)
    models = TaskModels(mlp(1, 1, hidden=(32,)), TASKS, epsilon=epsilon)  # one
    optimizer = torch.optim.Adam(models.parameters(), lr=0.03)  # two
    for _ in range(STEPS):
        optimizer.zero_grad()
        for task, (x, y) in data.items():
            torch.nn.functional.mse_loss(models[task](x), y).backward()
        optimizer.step()
        models.project()  # three
    return models


def main() -> None:
    """Print test errors at three radii."""
    test = waves(200, noise=0.0, seed=2)
    print("Mean squared error on held-out points, without noise:")
    for name, epsilon in [("pooled", 0.0), ("cross-learned", 1.0), ("separate", math.inf)]:
        models = train(epsilon)
        with torch.no_grad():
            errors = [(models[task](x) - y).square().mean() for task, (x, y) in test.items()]
        farthest = models.distances().max()
        print(f"  {name:14} {torch.stack(errors).mean():.3f}   farthest from centre {farthest:.2f}")


if __name__ == "__main__":
    main()
