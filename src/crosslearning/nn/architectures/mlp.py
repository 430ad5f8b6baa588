"""A multi-layer perceptron."""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise
from typing import TYPE_CHECKING

from torch import nn

from crosslearning.nn.architectures.checks import check_count, check_dropout

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["mlp"]


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
    for name, value in [("in_features", in_features), ("out_features", out_features)]:
        check_count(name, value)
    for value in hidden:
        check_count("hidden", value)
    check_dropout(dropout)
    layers: list[nn.Module] = [nn.Flatten()]
    for n_in, n_out in pairwise(sizes):
        layers += [nn.Linear(n_in, n_out), nn.ReLU(), nn.Dropout(dropout)]
    head = nn.Linear(sizes[-1], out_features)
    return nn.Sequential(OrderedDict(layers=nn.Sequential(*layers), head=head))
