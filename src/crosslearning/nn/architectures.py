"""Networks to start with: convolutional ones for images, two for vectors.

All of them are sequences of named parts, so that tethers can be given by name: ``features`` and
``classifier`` for images, ``layers`` and ``head`` for vectors.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise
from typing import TYPE_CHECKING

from torch import nn

from crosslearning.nn._checks import check_count, check_counts, check_dropout

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["batchnorm_cnn", "linear", "mlp", "small_cnn"]


def batchnorm_cnn(num_classes: int, in_channels: int = 3, width: int = 16) -> nn.Sequential:
    """Four convolutions with BatchNorm and pooling, and a linear layer: for images of 32 to 128 px.

    In `TaskModels` every task has its own statistics of BatchNorm, at every radius.

    Parameters
    ----------
    num_classes : int
        Number of outputs.
    in_channels : int, default=3
        Channels of the images.
    width : int, default=16
        Channels after the first convolution; each of the others doubles them.

    Returns
    -------
    Sequential
        With the parts ``features``, ``pool`` and ``classifier``. It takes images of shape
        (n, in_channels, height, width) of at least 16 × 16.

    Examples
    --------
    >>> import torch
    >>> batchnorm_cnn(10)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    check_counts(num_classes=num_classes, in_channels=in_channels, width=width)
    channels = [in_channels, *(width * 2**k for k in range(4))]
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(channels):
        # BatchNorm has an offset of its own.
        convolution = nn.Conv2d(n_in, n_out, kernel_size=3, padding=1, bias=False)
        layers += [convolution, nn.BatchNorm2d(n_out), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
    pool = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
    classifier = nn.Linear(channels[-1] * 2 * 2, num_classes)
    parts = OrderedDict(features=nn.Sequential(*layers), pool=pool, classifier=classifier)
    return nn.Sequential(parts)


def small_cnn(
    num_classes: int, in_channels: int = 3, width: int = 16, dropout: float = 0.0
) -> nn.Sequential:
    """Three convolutions with pooling between, and a linear layer.

    Parameters
    ----------
    num_classes : int
        Number of outputs.
    in_channels : int, default=3
        Channels of the images.
    width : int, default=16
        Channels after the first convolution; twice and four times as many after the others.
    dropout : float, default=0
        Share of inputs that the linear layer drops in training.

    Returns
    -------
    Sequential
        With the parts ``features``, ``pool`` and ``classifier``. It takes images of shape
        (n, in_channels, height, width) of at least 4 × 4.

    Examples
    --------
    >>> import torch
    >>> small_cnn(10)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    check_counts(num_classes=num_classes, in_channels=in_channels, width=width)
    check_dropout(dropout)
    features = nn.Sequential(
        nn.Conv2d(in_channels, width, kernel_size=3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, kernel_size=3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(2 * width, 4 * width, kernel_size=3, padding=1),
        nn.ReLU(inplace=True),
    )
    pool = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten())
    classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(4 * width * 4 * 4, num_classes))
    return nn.Sequential(OrderedDict(features=features, pool=pool, classifier=classifier))


def linear(in_features: int, out_features: int) -> nn.Sequential:
    """One linear layer that starts at 0, so that runs with a convex loss are repeatable.

    Parameters
    ----------
    in_features, out_features : int
        Numbers of inputs and outputs.

    Returns
    -------
    Sequential
        With the parts ``flatten`` and ``head``. It takes vectors of shape (n, in_features), or
        anything that flattens to it.

    Examples
    --------
    >>> import torch
    >>> linear(2, 1)(torch.ones(1, 2))
    tensor([[0.]], grad_fn=<AddmmBackward0>)
    """
    check_counts(in_features=in_features, out_features=out_features)
    head = nn.Linear(in_features, out_features)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return nn.Sequential(OrderedDict(flatten=nn.Flatten(), head=head))


def mlp(
    in_features: int, out_features: int, hidden: Sequence[int] = (64, 64), dropout: float = 0.0
) -> nn.Sequential:
    """Linear layers with rectifiers between.

    Parameters
    ----------
    in_features, out_features : int
        Numbers of inputs and outputs.
    hidden : sequence of int, default=(64, 64)
        Units of the layers between.
    dropout : float, default=0
        Share of the units of each hidden layer that is dropped in training.

    Returns
    -------
    Sequential
        With the parts ``layers``, the hidden ones, and ``head``. It takes vectors of shape
        (n, in_features), or anything that flattens to it.

    Examples
    --------
    >>> import torch
    >>> mlp(8, 3)(torch.zeros(2, 8)).shape
    torch.Size([2, 3])
    """
    sizes = [in_features, *hidden]
    check_counts(in_features=in_features, out_features=out_features)
    for value in hidden:
        check_count("hidden", value)
    check_dropout(dropout)
    layers: list[nn.Module] = [nn.Flatten()]
    for n_in, n_out in pairwise(sizes):
        layers += [nn.Linear(n_in, n_out), nn.ReLU(), nn.Dropout(dropout)]
    head = nn.Linear(sizes[-1], out_features)
    return nn.Sequential(OrderedDict(layers=nn.Sequential(*layers), head=head))
