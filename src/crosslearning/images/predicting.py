"""Networks that were trained, put to use: predictions for image files, and files for elsewhere."""

from __future__ import annotations

import copy
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save_file
from torch import nn

from crosslearning.files import replacing
from crosslearning.images._listing import image_files
from crosslearning.images._pixel_cache import decode_all
from crosslearning.images._runs import model_file
from crosslearning.images.embedding import load_backbone
from crosslearning.images.heads import head
from crosslearning.images.networks import network
from crosslearning.images.settings import TrainingSettings
from crosslearning.nn import TaskModels

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from crosslearning.datasets.images import Progress
    from crosslearning.images._listing import ImageFile

    Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_AT_A_TIME = 256  # bounds the memory of decoded images
_CHECKED = 3  # images that an exported program is tried on
_TOLERANCE = 1e-4  # of its numbers, as programs may sum in another order


class Predictions(NamedTuple):
    """What `predict` found: a table with a row for each image, and images that cannot be read.

    The table has the columns ``path``, ``domain`` (empty where the centre predicts), ``category``
    and ``probability``, the same with ``_2``, ``_3`` and so on for the next ones, and ``truth``:
    the folder of the image if that is a category, else empty.
    """

    table: pd.DataFrame
    unreadable: dict[str, str]  # reasons by path

    @property
    def by_centre(self) -> int:
        """Number of images that the centre predicts."""
        return int((self.table["domain"] == "").sum())

    @property
    def accuracy(self) -> float | None:
        """Share of the images in folders of categories that are recognised, if there are such."""
        known = self.table[self.table["truth"] != ""]
        return float((known["category"] == known["truth"]).mean()) if len(known) else None


class ImageNetwork(nn.Module):
    """A network for images of shape (n, 3, height, width) between 0 and 1, normalised inside."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, inner: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.inner = inner
        self.register_buffer("mean", torch.tensor(mean)[:, None, None])
        self.register_buffer("std", torch.tensor([one or 1.0 for one in std])[:, None, None])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One number for each category, of which softmax makes probabilities."""
        return self.inner((x - self.mean) / self.std)  # type: ignore[no-any-return]


def predict(
    folder: str | os.PathLike[str],
    images: Paths,
    *,
    task: str | None = None,
    top: int = 1,
    epsilon: float | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Predictions:
    """Tell the categories of images with the networks that `train` saved.

    Parameters
    ----------
    folder : path
        Where `train` wrote to.
    images : path or sequence of paths
        Image files, and folders to look for such in, however deep.
    task : str, optional
        Domain of all images. By default that of each is the nearest folder above it that has the
        name of a domain. Images of any other domain are predicted by the centre.
    top : int, default=1
        Number of categories to name, the most probable first.
    epsilon, seed : float and int, optional
        Which networks; by default those of the chosen radius and of the first seed.
    progress : callable, optional
        Called with the number of images that are done and of all.
    """
    about, models = _open(Path(folder), epsilon, seed)
    if not 1 <= top <= len(about["categories"]):
        raise ValueError(
            f"`top` counts categories and must be from 1 to {len(about['categories'])}; got {top}."
        )
    files = image_files(images, about["domains"], task)
    rows: list[dict[str, Any]] = []
    unreadable: dict[str, str] = {}
    for start in range(0, len(files), _AT_A_TIME):
        some = list(decode_all(files[start : start + _AT_A_TIME], about["image_size"], None))
        unreadable |= {file.name: found for file, found in some if isinstance(found, str)}
        rows += _rows([one for one in some if not isinstance(one[1], str)], about, models, top)
        if progress is not None:
            progress(start + len(some), len(files))
    if not rows:
        raise ValueError(f"At least one image must be readable; none of {len(files)} is.")
    return Predictions(pd.DataFrame(rows), unreadable)


def export(
    folder: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    task: str | None = None,
    epsilon: float | None = None,
    seed: int | None = None,
) -> dict[str, Any]:
    """Write the network of one domain, or of the centre, to a file to use without this library.

    It takes images of shape (n, 3, size, size) between 0 and 1 and gives a number for each
    category. A file ``.pt2`` holds the program for ``torch.export.load``, which was found to give
    the same numbers; ``.safetensors`` holds the parameters alone. Both hold, as JSON, what is
    returned: domain, size and categories.

    Parameters
    ----------
    folder, task, epsilon, seed
        As in `predict`; by default the centre.
    path : path
        File to write, ``.pt2`` or ``.safetensors``.
    """
    target = Path(path)
    if target.suffix not in (".pt2", ".safetensors"):
        raise ValueError(f"The file must end in .pt2 or .safetensors; got {target.name!r}.")
    about, models = _open(Path(folder), epsilon, seed)
    if task is not None and task not in models:
        known = ", ".join(about["domains"])
        raise ValueError(f"There is no domain {task!r}; the domains are {known}.")
    net = copy.deepcopy(_network(models, task, about))
    for parameter in net.parameters():
        parameter.data = parameter.data.clone()  # a view would drag all tasks along
    described = {"domain": task, "image_size": about["image_size"]}
    described |= {"categories": about["categories"]}
    text = json.dumps(described)
    with replacing(target) as temporary:
        if target.suffix == ".pt2":
            temporary.write_bytes(_program(net, about["image_size"], text))
        else:
            save_file(net.state_dict(), temporary, metadata={"about": text})
    return described


def _open(folder: Path, epsilon: float | None, seed: int | None) -> tuple[Any, TaskModels]:
    """Read what the networks of a seed share, and the networks of a radius."""
    models, results = folder / "models", folder / "results.json"
    seeds = sorted(int(path.stem[5:]) for path in models.glob("seed-*.json"))
    if not seeds:
        raise ValueError(f"{folder} holds no networks for images. Train some into it first.")
    if epsilon is None:
        if not results.exists():
            raise ValueError(
                f"The training in {folder} has not been finished. Start it again: it resumes."
            )
        epsilon = float(json.loads(results.read_text(encoding="utf-8"))["chosen"]["epsilon"])
    file = model_file(models, float(epsilon), seeds[0] if seed is None else seed)
    if not file.exists():
        there = ", ".join(sorted(path.stem for path in models.glob("epsilon-*.safetensors")))
        raise ValueError(f"There are no networks {file.stem} in {models}; there are {there}.")
    chosen = models / f"seed-{seeds[0] if seed is None else seed}.json"
    about = json.loads(chosen.read_text(encoding="utf-8"))
    if name := about.get("backbone"):
        about["body"] = load_backbone(name)
        zeros = torch.zeros(about["features"])
        return about, TaskModels.load(file, head(zeros, zeros, len(about["categories"])))
    settings = TrainingSettings(model=about["model"], image_size=about["image_size"])
    return about, TaskModels.load(file, network(settings, len(about["categories"]))())


def _network(models: TaskModels, domain: str | None, about: Any) -> nn.Module:
    module = dict(models.items()).get(domain, models.center)
    if "body" in about:
        return nn.Sequential(about["body"], module).eval()
    return ImageNetwork(module, about["mean"], about["std"]).eval()


def _rows(some: list[tuple[ImageFile, Any]], about: Any, models: Any, top: int) -> list[Any]:
    """Predict decoded images, those of each domain together, and return them in their order."""
    found: dict[int, dict[str, Any]] = {}
    for domain in dict.fromkeys(file.domain for file, _ in some):
        places = [k for k, (file, _) in enumerate(some) if file.domain == domain]
        pixels = torch.from_numpy(np.stack([some[k][1] for k in places])).permute(0, 3, 1, 2)
        with torch.inference_mode():
            shares = _network(models, domain, about)(pixels.float() / 255).softmax(1)
        values, codes = (one.tolist() for one in shares.topk(top))
        for k, probabilities, best in zip(places, values, codes, strict=True):
            file = some[k][0]
            row = {"path": file.name, "domain": domain if domain in models else ""}
            for rank, (probability, code) in enumerate(zip(probabilities, best, strict=True), 1):
                ending = "" if rank == 1 else f"_{rank}"
                row[f"category{ending}"] = about["categories"][code]
                row[f"probability{ending}"] = probability
            truth = file.category if file.category in about["categories"] else ""
            found[k] = {**row, "truth": truth}
    return [found[k] for k in sorted(found)]


def _program(net: nn.Module, size: int, about: str) -> bytes:
    """Export a network for any number of images, and try it on some."""
    images = torch.rand(_CHECKED, 3, size, size, generator=torch.Generator().manual_seed(0))
    shapes = ({0: torch.export.Dim("images", min=1)},)
    with torch.no_grad():
        stream = io.BytesIO()
        program = torch.export.export(net, (images[:2],), dynamic_shapes=shapes)
        torch.export.save(program, stream, extra_files={"about.json": about})
        again = torch.export.load(io.BytesIO(stream.getvalue())).module()(images)
        difference = float((again - net(images)).abs().max())
    if not difference <= _TOLERANCE:
        raise RuntimeError(
            f"The exported program gives other numbers: they differ by {difference}."
        )
    return stream.getvalue()
