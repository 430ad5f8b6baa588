"""Safetensors files with JSON in the header; nothing is unpickled."""

import json
import os
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from crosslearning.files import replacing
from crosslearning.tether import Tether

_KEY = "crosslearning"
_VERSION = 1  # of a kind whose content never changed


def encode_label(label: Hashable) -> Any:
    """Return a JSON value that :func:`decode_label` decodes, or else the repr."""
    if isinstance(label, tuple):
        return [encode_label(part) for part in label]
    return label if isinstance(label, (str, int, float, bool, type(None))) else repr(label)


def decode_label(label: Any) -> Hashable:
    return tuple(map(decode_label, label)) if isinstance(label, list) else label


def write_file(
    path: str | os.PathLike[str],
    kind: str,
    tensors: dict[str, torch.Tensor],
    content: dict[str, Any],
    *,
    version: int = _VERSION,
) -> None:
    header = {_KEY: json.dumps({"kind": kind, "version": version, **content}, allow_nan=False)}
    written = {name: value.detach().contiguous() for name, value in tensors.items()}
    with replacing(Path(path)) as temporary:
        save_file(written, temporary, metadata=header)


def read_file(
    path: str | os.PathLike[str],
    kind: str,
    remedy: str = "Save it again.",
    *,
    version: int = _VERSION,
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no file {os.fspath(path)}.")
    try:
        with safe_open(path, framework="pt") as file:
            content = json.loads((file.metadata() or {}).get(_KEY, "{}"))
            actual = content.get("kind"), content.get("version")
            if actual != (kind, version):
                raise ValueError(f"it is not marked as such for version {version}")
            return {name: file.get_tensor(name) for name in file.keys()}, content  # noqa: SIM118
    except (SafetensorError, AttributeError, ValueError) as error:
        text = f"{os.fspath(path)} does not contain {kind}, or it is damaged: {error}. {remedy}"
        raise ValueError(text.rstrip()) from error


def encode_tether(tether: Tether) -> dict[str, Any]:
    """Return the parameters of a tether, infinity as a string for JSON."""

    def words(knob: Any) -> Any:
        if np.ndim(knob):
            return [words(one) for one in knob]
        return "inf" if knob == np.inf else float(knob)

    return {name: words(getattr(tether, name)) for name in ("epsilon", "stiffness", "tension")}
