"""Simple networks, of parts whose names are prefixes for tethers.

They are ``features``, ``pool`` and ``classifier`` for images of shape (n, in_channels, height,
width), ``layers`` and ``head`` for inputs that flatten to shape (n, in_features).
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise

from torch import nn

__all__ = ["batchnorm_cnn", "mlp", "small_cnn"]


def batchnorm_cnn(num_classes: int, in_channels: int = 3, width: int = 16) -> nn.Sequential:
    """Four convolutions with BatchNorm and pooling, and a linear layer: for images of 32 to 128 px.

    The first convolution has `width` channels, and each of the others doubles them; images need at
    least 16 × 16 pixels. In `TaskModels` every task has its own BatchNorm statistics.

    Examples
    --------
    >>> import torch
    >>> batchnorm_cnn(10)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    channels = [in_channels, *(width * 2**k for k in range(4))]
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(channels):
        # BatchNorm has its own offset.
        convolution = nn.Conv2d(n_in, n_out, kernel_size=3, padding=1, bias=False)
        layers += [convolution, nn.BatchNorm2d(n_out), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
    return _for_images(layers, 2, nn.Linear(channels[-1] * 2 * 2, num_classes))


def small_cnn(
    num_classes: int, in_channels: int = 3, width: int = 16, dropout: float = 0.0
) -> nn.Sequential:
    """Three convolutions with pooling between, and a linear layer.

    The convolutions have once, twice and four times `width` channels; images need at least 4 × 4
    pixels. The linear layer has `dropout`.

    Examples
    --------
    >>> import torch
    >>> small_cnn(10)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise([in_channels, width, 2 * width, 4 * width]):
        layers += [nn.Conv2d(n_in, n_out, kernel_size=3, padding=1), nn.ReLU(inplace=True)]
        layers += [nn.MaxPool2d(2)]
    head = nn.Sequential(nn.Dropout(dropout), nn.Linear(4 * width * 4 * 4, num_classes))
    return _for_images(layers[:-1], 4, head)


def _for_images(layers: list[nn.Module], side: int, classifier: nn.Module) -> nn.Sequential:
    features, pool = nn.Sequential(*layers), nn.Sequential(nn.AdaptiveAvgPool2d(side), nn.Flatten())
    return nn.Sequential(OrderedDict(features=features, pool=pool, classifier=classifier))


def mlp(
    in_features: int, out_features: int, hidden: Sequence[int] = (64, 64), dropout: float = 0.0
) -> nn.Sequential:
    """Multilayer perceptron with ReLU activations and dropout.

    Examples
    --------
    >>> import torch
    >>> mlp(8, 3)(torch.zeros(2, 8)).shape
    torch.Size([2, 3])
    """
    sizes = [in_features, *hidden]
    layers: list[nn.Module] = [nn.Flatten()]
    for n_in, n_out in pairwise(sizes):
        layers += [nn.Linear(n_in, n_out), nn.ReLU(), nn.Dropout(dropout)]
    head = nn.Linear(sizes[-1], out_features)
    return nn.Sequential(OrderedDict(layers=nn.Sequential(*layers), head=head))
