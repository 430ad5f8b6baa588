"""Trained networks in use: predictions for image files, and export to other programs."""

import copy
import json
import logging
import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file, save
from torch import nn

from crosslearning.datasets.images import Progress
from crosslearning.extras import require
from crosslearning.files import replacing
from crosslearning.images._listing import ImageFile, image_files
from crosslearning.images._results import VERSION
from crosslearning.images.domains import decode_all
from crosslearning.images.folder import model_file
from crosslearning.images.networks import Normalised, apply, load_backbone, network
from crosslearning.images.settings import TrainingSettings
from crosslearning.nn import TaskModels

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Networks = dict[str | None, nn.Module]  # from pixels to scores; None stands for the centre

_AT_A_TIME = 256  # bounds the memory of decoded images
_CHECKED = 3  # images on which an exported network is tested
_TOLERANCE = 1e-4  # of its outputs, relative to the largest, since it may sum in another order


class Predictions(NamedTuple):
    """A table with a row for each image, and the reasons why images cannot be read, by path.

    Its columns are ``path``, ``domain`` (empty if predicted by the centre), ``category`` and
    ``probability``, the same with ``_2`` and so on for less probable categories, and ``truth``: the
    name of the image's folder if it is a category, otherwise empty.
    """

    table: pd.DataFrame
    unreadable: dict[str, str]

    @property
    def by_centre(self) -> int:
        """Number of images predicted by the centre."""
        return int((self.table["domain"] == "").sum())

    @property
    def accuracy(self) -> float | None:
        """Share of correct predictions among images in folders of categories, if any."""
        labelled = self.table[self.table["truth"] != ""]
        return float((labelled["category"] == labelled["truth"]).mean()) if len(labelled) else None


def predict(
    folder: str | os.PathLike[str],
    images: Paths,
    *,
    task: str | None = None,
    top: int = 1,
    progress: Progress | None = None,
) -> Predictions:
    """Predict the categories of images with the networks of the chosen radii and first seed.

    Parameters
    ----------
    folder : path
        The folder that `train` wrote.
    images : path or sequence of paths
        Image files, and folders that are searched recursively.
    task : str, optional
        Domain of all images; by default that of the nearest parent folder named after one. The
        centre predicts images of other domains.
    top : int, default=1
        Number of categories to report, the most probable first.
    progress : callable, optional
        Called with the number of images done and the total.
    """
    about, networks = open_networks(Path(folder))
    if not 1 <= top <= len(about["categories"]):
        raise ValueError(
            f"`top` counts categories and must be from 1 to {len(about['categories'])}; got {top}."
        )
    files = image_files(images, about["domains"], task)
    tables, unreadable = [], dict[str, str]()
    for start in range(0, len(files), _AT_A_TIME):
        some = list(decode_all(files[start : start + _AT_A_TIME], about["image_size"], None))
        unreadable |= {file.name: reason for file, reason in some if isinstance(reason, str)}
        if readable := [one for one in some if not isinstance(one[1], str)]:
            tables.append(_table(readable, about, networks, top))
        if progress is not None:
            progress(start + len(some), len(files))
    if not tables:
        raise ValueError(f"At least one image must be readable; none of {len(files)} is.")
    return Predictions(pd.concat(tables, ignore_index=True), unreadable)


def open_networks(folder: Path) -> tuple[Any, Networks]:
    """Read the networks of the chosen radii and the first seed, and their description."""
    models, results = folder / "models", folder / "results.json"
    seeds = sorted(int(path.stem[5:]) for path in models.glob("seed-*.json"))
    if not seeds:
        raise ValueError(f"{folder} holds no networks for images. Train there first.")
    if not results.exists():
        raise ValueError(f"The training in {folder} is not finished. Start it again to resume it.")
    content = json.loads(results.read_text(encoding="utf-8"))
    if content.get("version") != VERSION:
        raise ValueError(
            f"{results} must have version {VERSION}; got {content.get('version')!r}. Train again, "
            "into another folder, with this version of crosslearning."
        )
    chosen = content["chosen"]
    about = json.loads((models / f"seed-{seeds[0]}.json").read_text(encoding="utf-8"))
    n_categories = len(about["categories"])
    if about.get("backbone"):
        body, zeros = load_backbone(about["backbone"]), torch.zeros(about["features"])
        module: nn.Module = Normalised(nn.Linear(len(zeros), n_categories), zeros, zeros)
        complete: Callable[[nn.Module], nn.Module] = partial(nn.Sequential, body)
    else:
        settings = TrainingSettings(model=about["model"], image_size=about["image_size"])
        module = network(settings, n_categories)()
        mean, std = (torch.tensor(about[name])[:, None, None] for name in ("mean", "std"))
        complete = partial(Normalised, mean=mean, std=std)
    common, radii = chosen["epsilon"], chosen["epsilons"]
    trained = {
        epsilon: TaskModels.load(model_file(models, float(epsilon), seeds[0]), module)
        for epsilon in {common, *radii.values()}
    }
    nets = {None: trained[common].center} | {name: trained[e][name] for name, e in radii.items()}
    return about, {name: complete(net).eval() for name, net in nets.items()}


def _table(
    some: list[tuple[ImageFile, Any]], about: Any, networks: Networks, top: int
) -> pd.DataFrame:
    """Predict decoded images, those of each domain together."""
    pixels = np.stack([image for _, image in some])
    domains = np.array([file.domain for file, _ in some])
    shares = torch.empty(len(some), len(about["categories"]), dtype=torch.float64)
    for domain in np.unique(domains):
        rows = np.flatnonzero(domains == domain)
        scores = apply(networks.get(domain, networks[None]), pixels[rows])
        shares[rows] = scores.softmax(1).double()
    table = pd.DataFrame({"path": [file.name for file, _ in some]})
    table["domain"] = [one if one in about["domains"] else "" for one in domains.tolist()]
    for rank, (values, codes) in enumerate(zip(*(x.T for x in shares.topk(top)), strict=True), 1):
        ending = "" if rank == 1 else f"_{rank}"
        table[f"category{ending}"] = [about["categories"][code] for code in codes]
        table[f"probability{ending}"] = values.tolist()
    categories = set(about["categories"])
    return table.assign(truth=[f.category if f.category in categories else "" for f, _ in some])


def export(
    folder: str | os.PathLike[str], path: str | os.PathLike[str], *, task: str | None = None
) -> dict[str, Any]:
    """Write the network of one domain, by default the centre, for use without this library.

    It takes images of shape (n, 3, size, size), RGB between 0 and 1, normalises them itself, and
    returns a score for each category; softmax turns scores into probabilities.

    Parameters
    ----------
    folder : path
        The folder that `train` wrote.
    path : path
        File to write. ``.onnx`` is for ONNX Runtime and others (extra ``onnx``), ``.safetensors``
        holds only the parameters. Either is kept only if it gives the same numbers.
    task : str, optional
        Domain whose network to write.

    Returns
    -------
    dict
        Domain, image size, categories and normalisation: the metadata ``about`` of the file.
    """
    target = Path(path)
    if target.suffix not in _WRITERS:
        raise ValueError(f"The file must end in .onnx or .safetensors; got {target.name!r}.")
    about, networks = open_networks(Path(folder))
    if task is not None and task not in networks:
        names = ", ".join(about["domains"])
        raise ValueError(f"`task` must be one of the domains {names}; got {task!r}.")
    net = copy.deepcopy(networks[task])
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
    path.write_bytes(save(net.state_dict(), metadata={"about": about}))
    net.load_state_dict(load_file(path))
    return net(images)


def _write_onnx(net: nn.Module, images: torch.Tensor, path: Path, about: str) -> Any:
    require("Export to ONNX", "onnx", "onnxscript")
    from onnx.reference import ReferenceEvaluator

    traced = torch.export.export(
        net, (images[:2],), dynamic_shapes=({0: torch.export.Dim("n", min=1)},)
    )
    # Torch complains that it misses operators of torchvision, which are not used.
    logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch warns of itself
        program: Any = torch.onnx.export(
            traced,
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
    session: Any = ReferenceEvaluator(str(path))
    return torch.from_numpy(session.run(None, {"images": images.numpy()})[0])


# Each writes a file for any number of images, and returns what the file says of these.
_WRITERS = {".onnx": _write_onnx, ".safetensors": _write_parameters}
