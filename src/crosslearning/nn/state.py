"""What ``state_dict`` holds besides parameters: bytes of JSON in a tensor.

A tensor, so that every way to store a ``state_dict`` takes it, those without pickle included.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

__all__ = ["decode", "decode_label", "encode", "encode_label"]


def encode(tasks: tuple[Hashable, ...], pulls: dict[str, NDArray[np.float64]]) -> torch.Tensor:
    """Labels and the pulls of the last projection."""
    content = {
        "tasks": [encode_label(task) for task in tasks],
        "pulls": {block: pull.tolist() for block, pull in pulls.items()},
    }
    return torch.tensor(list(json.dumps(content).encode()), dtype=torch.uint8)


def decode(
    encoded: torch.Tensor, tasks: tuple[Hashable, ...], blocks: list[str]
) -> dict[str, NDArray[np.float64]]:
    """Return the pulls, if the state is that of the same tasks in the same order."""
    try:
        content = json.loads(bytes(encoded.tolist()))
        found = tuple(decode_label(label) for label in content["tasks"])
        pulls = {str(name): np.asarray(pull, float) for name, pull in content["pulls"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError("The state is not that of a TaskModels: it names no tasks.") from error
    expected = tuple(decode_label(encode_label(task)) for task in tasks)
    if found != expected:
        raise ValueError(
            f"The state belongs to the tasks {list(found)}; these models have {list(expected)}. "
            "Build TaskModels with the same tasks in the same order."
        )
    return {
        name: pull for name, pull in pulls.items() if name in blocks and len(pull) == len(tasks)
    }


def encode_label(label: Hashable) -> Any:
    """Return what JSON can hold and :func:`decode_label` turns back, or else its repr."""
    if isinstance(label, tuple):
        return [encode_label(part) for part in label]
    return label if isinstance(label, (str, int, float, bool, type(None))) else repr(label)


def decode_label(label: Any) -> Hashable:
    """Label from JSON; lists were tuples."""
    return tuple(map(decode_label, label)) if isinstance(label, list) else label
