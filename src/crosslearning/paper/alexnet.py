"""The network of the paper."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from crosslearning.nn._checks import check_count, check_dropout

__all__ = ["alexnet256"]


def alexnet256(num_classes: int, dropout: float = 0.5) -> nn.Sequential:
    """AlexNet with hidden layers of 256 units, the paper's network for Office-Home.

    Five convolutions, max-pooling after the first, second and fifth, then three linear layers:
    4,911,745 parameters at 65 classes.

    Parameters
    ----------
    num_classes : int
        Number of outputs.
    dropout : float, default=0.5
        Share of inputs that the first two linear layers drop in training, as in AlexNet. The
        paper does not mention it; 0 leaves it out.

    Returns
    -------
    Sequential
        With the parts ``features``, ``pool`` and ``classifier``. It takes images of shape
        (n, 3, height, width), 224 × 224 in the paper and at least 63 × 63.

    Examples
    --------
    >>> sum(parameter.numel() for parameter in alexnet256(65).parameters())
    4911745
    """
    check_count("num_classes", num_classes)
    check_dropout(dropout)
    features = nn.Sequential(
        nn.Conv2d(3, 64, kernel_size=11, stride=4, padding=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(kernel_size=3, stride=2),
        nn.Conv2d(64, 192, kernel_size=5, padding=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(kernel_size=3, stride=2),
        nn.Conv2d(192, 384, kernel_size=3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(384, 256, kernel_size=3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(256, 256, kernel_size=3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(kernel_size=3, stride=2),
    )
    pool = nn.Sequential(nn.AdaptiveAvgPool2d(6), nn.Flatten())
    classifier = nn.Sequential(
        nn.Dropout(dropout),
        nn.Linear(256 * 6 * 6, 256),
        nn.ReLU(inplace=True),
        nn.Dropout(dropout),
        nn.Linear(256, 256),
        nn.ReLU(inplace=True),
        nn.Linear(256, num_classes),
    )
    return nn.Sequential(OrderedDict(features=features, pool=pool, classifier=classifier))
