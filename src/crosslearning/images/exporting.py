"""Trained networks as files for use without this library."""

from __future__ import annotations

import copy
import io
import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from crosslearning.extras import require
from crosslearning.files import replacing
from crosslearning.images.predicting import network_of, open_models

_CHECKED = 3  # images on which an exported program is tested
_TOLERANCE = 1e-4  # of its outputs, relative to the largest, since it may sum in another order


def export(
    folder: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    task: str | None = None,
    epsilon: float | None = None,
    seed: int | None = None,
) -> dict[str, Any]:
    """Write the network of one domain, by default the centre, for use without this library.

    It takes images of shape (n, 3, size, size), RGB between 0 and 1, normalises them itself, and
    returns a score for each category; softmax turns scores into probabilities.

    Parameters
    ----------
    folder : path
        The folder that `train` wrote.
    path : path
        File to write. ``.onnx`` is for ONNX Runtime and others (extra ``onnx``), ``.pt2`` for
        ``torch.export.load``; both are checked to give the same numbers before they are put in
        place. ``.safetensors`` holds only the parameters.
    task, epsilon, seed
        As in `predict`.

    Returns
    -------
    dict
        Domain, image size, categories and normalisation, which the file holds too, as JSON:
        ``about`` in the metadata of ``.onnx`` and ``.safetensors``, ``about.json`` in ``.pt2``.
    """
    target = Path(path)
    if target.suffix not in _WRITERS:
        raise ValueError(f"The file must end in .onnx, .pt2 or .safetensors; got {target.name!r}.")
    if target.is_dir():
        raise ValueError(f"{target} is a folder. Choose the name of a file.")
    about, models = open_models(Path(folder), epsilon, seed)
    if task is not None and task not in models:
        names = ", ".join(about["domains"])
        raise ValueError(f"`task` must be one of the domains {names}; got {task!r}.")
    net = copy.deepcopy(network_of(models, task, about))
    for parameter in net.parameters():
        parameter.data = parameter.data.clone()  # a view would drag all tasks along
    described = {"domain": task} | {name: about[name] for name in ("image_size", "categories")}
    described["normalised_inside"] = {name: about[name] for name in ("mean", "std")}
    size = about["image_size"]
    images = torch.rand(_CHECKED, 3, size, size, generator=torch.Generator().manual_seed(0))
    with replacing(target) as temporary, torch.no_grad():
        expected = net(images)
        again = _WRITERS[target.suffix](net, images, temporary, json.dumps(described))
        difference = float((again - expected).abs().max() / expected.abs().max().clamp(min=1))
        if not difference <= _TOLERANCE:
            raise RuntimeError(f"The outputs of the exported network differ by {difference:.1e}.")
    return described


def _write_parameters(net: nn.Module, images: torch.Tensor, path: Path, about: str) -> Any:
    save_file(net.state_dict(), path, metadata={"about": about})
    net.load_state_dict(load_file(path))
    return net(images)


def _write_program(net: nn.Module, images: torch.Tensor, path: Path, about: str) -> Any:
    stream = io.BytesIO()  # a path would have to end in .pt2
    torch.export.save(_traced(net, images), stream, extra_files={"about.json": about})
    path.write_bytes(stream.getvalue())
    return torch.export.load(io.BytesIO(path.read_bytes())).module()(images)


def _write_onnx(net: nn.Module, images: torch.Tensor, path: Path, about: str) -> Any:
    require("Export to ONNX", "onnx", "onnxscript")
    with _silence(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch warns of itself
        program: Any = torch.onnx.export(
            _traced(net, images),
            input_names=["images"],
            output_names=["scores"],
            dynamic_shapes=({0: "n"},),
            dynamo=True,
            verbose=False,
        )
    model = program.model_proto
    graph = model.graph
    for part in (graph, *graph.node, *graph.input, *graph.output, *graph.value_info):
        part.ClearField("metadata_props")  # lines of code, with paths of this machine
    model.metadata_props.add(key="about", value=about)
    path.write_bytes(model.SerializeToString())
    return torch.from_numpy(_run_onnx(path, images.numpy()))


@contextmanager
def _silence() -> Iterator[None]:
    """Hush torch's complaint that it misses operators of torchvision, which are not used."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _run_onnx(path: Path, images: Any) -> Any:
    """Return the scores of a file, by ONNX Runtime if it is installed."""
    try:
        from onnxruntime import InferenceSession

        session = InferenceSession(path, providers=["CPUExecutionProvider"])
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        session = ReferenceEvaluator(str(path))
    return session.run(None, {"images": images})[0]


def _traced(net: nn.Module, images: torch.Tensor) -> torch.export.ExportedProgram:
    shapes = ({0: torch.export.Dim("n", min=1)},)
    return torch.export.export(net, (images[:2],), dynamic_shapes=shapes)


# Each writes a file for any number of images, and returns what the file says of these.
_WRITERS = {".onnx": _write_onnx, ".pt2": _write_program, ".safetensors": _write_parameters}
