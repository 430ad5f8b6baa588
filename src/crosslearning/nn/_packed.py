"""Nested containers as tensors and JSON, and back: what states of optimizers and schedulers are."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping


def pack(value: Any, name: str, tensors: dict[str, torch.Tensor]) -> Any:
    """Return what JSON can hold, and put the tensors in it aside under names that begin so.

    Examples
    --------
    >>> tensors = {}
    >>> packed = pack({0: (1.5, torch.ones(2))}, "state", tensors)
    >>> packed
    {'dict': [[0, {'tuple': [1.5, {'tensor': 'state.0.1'}]}]]}
    >>> unpack(packed, tensors)
    {0: (1.5, tensor([1., 1.]))}
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, torch.Tensor):
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, dict):
        kind = "counter" if isinstance(value, Counter) else "dict"
        pairs = [
            [pack(key, "", {}), pack(one, f"{name}.{key}", tensors)] for key, one in value.items()
        ]
        return {kind: pairs}
    if isinstance(value, (list, tuple)):
        items = [pack(one, f"{name}.{index}", tensors) for index, one in enumerate(value)]
        return {"tuple": items} if isinstance(value, tuple) else items
    raise ValueError(
        f"A state is stored if it is made of numbers, strings, tensors and containers of such; "
        f"{name} is {type(value).__name__}. Train without a checkpoint, or use another optimizer "
        "or scheduler."
    )


def unpack(packed: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    """Turn around :func:`pack`."""
    if isinstance(packed, list):
        return [unpack(one, tensors) for one in packed]
    if not isinstance(packed, dict):
        return packed
    ((kind, content),) = packed.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "float":
        return float(content)
    if kind == "tuple":
        return tuple(unpack(content, tensors))
    pairs = {unpack(key, tensors): unpack(one, tensors) for key, one in content}
    return Counter(pairs) if kind == "counter" else pairs
