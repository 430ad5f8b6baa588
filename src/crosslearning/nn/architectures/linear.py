"""A linear model: softmax or least-squares regression, depending on the loss."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from crosslearning.nn.architectures.checks import check_count

__all__ = ["linear"]


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
    check_count("in_features", in_features)
    check_count("out_features", out_features)
    head = nn.Linear(in_features, out_features)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return nn.Sequential(OrderedDict(flatten=nn.Flatten(), head=head))
