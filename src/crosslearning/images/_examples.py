"""Test images as networks of several radii see them: examples, and whether probabilities hold."""

from __future__ import annotations

import io
import math
from base64 import b64encode
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crosslearning.archive import to_json
from crosslearning.datasets import ImageData
from crosslearning.evaluation.scores import reliability
from crosslearning.images._folder import model_file
from crosslearning.images.embedding import features
from crosslearning.images.predicting import network_of, open_models
from crosslearning.images.settings import TrainingSettings
from crosslearning.images.splits import divide

_MOST = 12  # pictures for each end
_SIDE = 96  # pixels of a picture at most
_AT_A_TIME = 256


def inspected(
    data: ImageData, folder: Path, settings: TrainingSettings, chosen: dict[str, Any]
) -> dict[str, Any]:
    """Look at the test images of the first seed through the saved networks.

    Return the ``reliability`` of the chosen radius, and ``examples`` of images that the networks
    between the ends get right and one of the ends gets wrong, with counts both ways.
    """
    seed = settings.seeds[0]
    rows = divide(settings, data, seed)[2]
    truth = data.category_codes[np.concatenate(rows)]

    @cache
    def shares(epsilon: float) -> NDArray[np.float32]:
        return _shares(data, folder, rows, epsilon, seed)

    predicted = shares(chosen["epsilon"])
    content: dict[str, Any] = {
        "reliability": to_json(reliability(predicted.max(1), predicted.argmax(1) == truth))
    }
    if chosen["between"] is not None:
        cross, every = shares(chosen["between"]), np.concatenate(rows)
        content["examples"] = [
            _compared(data, settings, every, method, cross, shares(epsilon))
            for method, epsilon in (("pooled", 0.0), ("separate", math.inf))
            if model_file(folder / "models", epsilon, seed).exists()
        ]
    return content


def _shares(
    data: ImageData, folder: Path, rows: list[NDArray[np.intp]], epsilon: float, seed: int
) -> NDArray[np.float32]:
    """Probabilities of the categories for the images of each domain, one domain after the other."""
    about, models = open_models(folder, epsilon, seed)
    size, parts = about["image_size"], []
    body = about.get("body")
    inputs = data.pixels(size) if body is None else features(data, body, image_size=size)
    with torch.inference_mode():
        for domain, rows_of_domain in zip(data.domains, rows, strict=True):
            net = network_of(models, domain, about) if body is None else models[domain].eval()
            for start in range(0, len(rows_of_domain), _AT_A_TIME):
                x = torch.from_numpy(np.array(inputs[rows_of_domain[start : start + _AT_A_TIME]]))
                x = x.permute(0, 3, 1, 2) / 255 if body is None else x
                parts.append(net(x).softmax(1).numpy())
    return np.concatenate(parts)


def _compared(
    data: ImageData,
    settings: TrainingSettings,
    rows: NDArray[np.intp],
    method: str,
    cross: NDArray[np.float32],
    other: NDArray[np.float32],
) -> dict[str, Any]:
    """Count the images that only one of two methods gets right, and show some of the first's."""
    truth, at = data.category_codes[rows], np.arange(len(rows))
    right, theirs = cross.argmax(1) == truth, other.argmax(1) == truth
    won = np.flatnonzero(right & ~theirs)
    margin = cross[at, truth] - other[at, truth]
    won = won[np.argsort(-margin[won], kind="stable")]
    domains = data.domain_codes[rows[won]]
    turn = np.array([np.sum(domains[:k] == domain) for k, domain in enumerate(domains)], dtype=int)
    clearest = won[np.argsort(turn, kind="stable")][:_MOST]  # the clearest of each domain in turn
    pixels, names = data.pixels(settings.image_size), data.categories
    return {
        "method": method,
        "won": len(won),
        "lost": int((theirs & ~right).sum()),
        "images": [
            {
                "domain": data.domains[data.domain_codes[rows[k]]],
                "truth": names[truth[k]],
                "probability": cross[k, truth[k]],
                "predicted": names[other[k].argmax()],
                "picture": _picture(np.asarray(pixels[rows[k]])),
            }
            for k in clearest
        ],
    }


def _picture(pixels: NDArray[np.uint8]) -> str:
    """Return a small picture as a data URL."""
    from PIL import Image

    image, stream = Image.fromarray(pixels), io.BytesIO()
    image.thumbnail((_SIDE, _SIDE))
    image.save(stream, "WEBP", quality=80)
    return f"data:image/webp;base64,{b64encode(stream.getvalue()).decode()}"
