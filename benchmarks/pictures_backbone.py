"""Networks on a pretrained backbone for `pictures.py`: linear heads, and last blocks."""

from __future__ import annotations

import copy
import math
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from crosslearning.images import TrainingSettings, features
from crosslearning.images.heads import HeadTraining
from crosslearning.images.networks import load_backbone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crosslearning.datasets import ImageData
    from crosslearning.nn import TaskModels

BACKBONE, SIZE = "efficientnet_lite0", 64
SHARES = (0.0, 0.03, 0.1, 0.2, 0.4, 0.7, math.inf)  # of the radius at which heads are separate
MAP = 4  # height and width of the maps that the last block gets, of images of 128 px


def heads(data: ImageData, share: float, seed: int) -> Iterator[tuple[float, TaskModels, Any]]:
    """Fit heads at every share of the largest radius; yield it, the networks and the images."""
    settings = TrainingSettings(backbone=BACKBONE, train_fraction=share)
    training = HeadTraining(settings, data, features(data, BACKBONE, image_size=SIZE), seed)
    for part in SHARES:
        yield part, training.fit(part * training.radius if part else 0.0)[0], training.parts


class Trunk(nn.Module):
    """The frozen part: all blocks but the last, from an image to a flat map."""

    def __init__(self) -> None:
        super().__init__()
        net: Any = load_backbone(BACKBONE)
        self.size, self.net = 32 * MAP, net.inner
        self.mean, self.std = net.inner.mean, net.inner.std

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.net._swish(self.net._bn0(self.net._conv_stem(x)))
        for block in self.net._blocks[:-1]:
            x = block(x)
        return x.flatten(1)


class LastBlock(nn.Module):
    """The part that is trained: the last block, pretrained, and a new classifier."""

    def __init__(self, n_categories: int) -> None:
        super().__init__()
        net: Any = copy.deepcopy(pretrained())
        self.block, self.convolution, self.norm = net._blocks[-1], net._conv_head, net._bn1
        self.classifier = nn.Linear(self.convolution.out_channels, n_categories)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.block(x.view(len(x), -1, MAP, MAP))
        x = nn.functional.relu6(self.norm(self.convolution(x))).mean((2, 3))
        return self.classifier(x)


@cache
def pretrained() -> nn.Module:
    """The backbone, read once."""
    return load_backbone(BACKBONE).inner.requires_grad_(True)


@cache
def maps(data: ImageData) -> torch.Tensor:
    """What the frozen part makes of every picture, computed once and cached."""
    return torch.from_numpy(features(data, Trunk(), image_size=SIZE))
