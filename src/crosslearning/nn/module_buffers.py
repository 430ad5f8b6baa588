"""Buffers of modules, such as the running statistics of BatchNorm: one set per task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import nn

__all__ = ["average_buffers"]


def average_buffers(modules: list[nn.Module], center: nn.Module) -> None:
    """Give the centre the mean of the tasks' buffers.

    Those that do not hold real numbers (counts, masks) are taken from the first task, and those
    that the tasks do not share (other names or shapes) are left as they are.
    """
    targets = dict(center.named_buffers())
    if not targets:
        return
    sources = [dict(module.named_buffers()) for module in modules]
    for name, target in targets.items():
        values = [source[name] for source in sources if name in source]
        if len(values) < len(sources) or any(value.shape != target.shape for value in values):
            continue
        if target.dtype.is_floating_point:
            target.copy_(torch.stack(values).mean(dim=0))
        else:
            target.copy_(values[0])
