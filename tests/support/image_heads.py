"""A tiny frozen backbone, and settings for heads on its features."""

import torch

from crosslearning.images import TrainingSettings

BACKBONE = "tests.support.image_heads:colours"
SETTINGS = TrainingSettings(backbone=BACKBONE, image_size=8, seeds=(0, 1))


def colours():
    """A backbone that knows the brightness of a few places: maps of three channels."""
    net = torch.nn.Sequential(torch.nn.AvgPool2d(4), torch.nn.Conv2d(3, 12, 1))
    with torch.no_grad():
        generator = torch.Generator().manual_seed(0)
        net[1].weight.copy_(torch.randn(net[1].weight.shape, generator=generator))
        net[1].bias.zero_()
    net.size, net.mean, net.std = 8, (0.5,) * 3, (0.25,) * 3
    return net
