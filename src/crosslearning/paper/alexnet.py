"""The network of the paper."""

from collections import OrderedDict
from functools import partial

from torch import nn


def alexnet256(num_classes: int, dropout: float = 0.5) -> nn.Sequential:
    """AlexNet with hidden layers of 256 units, the paper's network for Office-Home.

    It has the parts ``features``, ``pool`` and ``classifier``, and takes images of shape
    (n, 3, height, width), 224 × 224 in the paper and at least 63 × 63. The first two linear layers
    have `dropout`, as in AlexNet; the paper does not mention it.

    >>> sum(parameter.numel() for parameter in alexnet256(65).parameters())
    4911745
    """
    relu, pooling = partial(nn.ReLU, inplace=True), partial(nn.MaxPool2d, 3, stride=2)
    first = nn.Conv2d(3, 64, 11, stride=4, padding=2), relu(), pooling()
    second = nn.Conv2d(64, 192, 5, padding=2), relu(), pooling()
    third = nn.Conv2d(192, 384, 3, padding=1), relu()
    fourth = nn.Conv2d(384, 256, 3, padding=1), relu()
    fifth = nn.Conv2d(256, 256, 3, padding=1), relu(), pooling()
    sixth = nn.Dropout(dropout), nn.Linear(256 * 6 * 6, 256), relu()
    seventh = nn.Dropout(dropout), nn.Linear(256, 256), relu()
    return nn.Sequential(
        OrderedDict(
            features=nn.Sequential(*first, *second, *third, *fourth, *fifth),
            pool=nn.Sequential(nn.AdaptiveAvgPool2d(6), nn.Flatten()),
            classifier=nn.Sequential(*sixth, *seventh, nn.Linear(256, num_classes)),
        )
    )
