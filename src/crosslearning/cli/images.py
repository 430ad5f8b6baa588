"""The commands about images: ``train`` and ``reproduce office-home``."""

import inspect
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crosslearning.cli.common import AsJson, Quiet, spinner, with_options, writing
from crosslearning.extras import require

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from crosslearning.datasets import ImageData
    from crosslearning.images import TrainingSettings

_PICTURES = "pictures32"
_LONG = ("runs", "categories", "mistakes")  # what a summary leaves out

_SEEDS = typer.Option(help="Number of seeds; each has its own split and initial values.", min=1)
Seeds = Annotated[int | None, _SEEDS]
_OUT = "Folder for results and figures; an interrupted run resumes there."
Out = Annotated[Path, typer.Option("--out", "-o", help=_OUT)]


@dataclass(frozen=True)
class ImageOptions:
    """The shared options."""

    epsilon: Annotated[
        list[str] | None,
        typer.Option(
            help="Radius: 0 pools, inf separates; may be repeated. Several by default. NAME=RADIUS "
            "applies to parameters with this prefix; the first name may be repeated."
        ),
    ] = None
    weights: Annotated[str | None, typer.Option(help="Safetensors file of initial weights.")] = None
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0
    model: Annotated[
        str | None,
        typer.Option(help="Network: batchnorm_cnn, small_cnn or package.module:function."),
    ] = None
    epochs: Annotated[int | None, typer.Option(help="Passes over the largest domain.")] = None
    pooled_share: Annotated[
        float | None,
        typer.Option(help="Share of the epochs, the first ones, in which all domains are pooled."),
    ] = None
    batch: Annotated[int | None, typer.Option(help="Images per domain and step.")] = None
    image_size: Annotated[int | None, typer.Option(help="Height and width in pixels.")] = None
    learning_rate: Annotated[float | None, typer.Option(help="Learning rate.")] = None
    train_fraction: Annotated[
        float | None, typer.Option(help="Fraction of the training images to use.")
    ] = None
    augment: Annotated[
        bool | None, typer.Option(help="Randomly shift, mirror and recolour training images.")
    ] = None
    flip: Annotated[
        bool | None, typer.Option(help="Allow mirroring; disable it if left and right matter.")
    ] = None
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Skip images that cannot be read.")
    ] = False
    quiet: Quiet = False
    as_json: AsJson = False

    def configure(self, base: "TrainingSettings", seeds: int | None) -> "TrainingSettings":
        """Return the settings, overridden by the given options."""
        options = {k: v for k, v in vars(self).items() if hasattr(base, k) and v is not None}
        if self.epsilon:
            options["epsilons"], options["blocks"] = _radii(self.epsilon)
        first = range(self.seed, self.seed + (seeds or len(base.seeds)))
        return replace(base, **options, seeds=tuple(first))


_with_shared_options = with_options(inspect.signature(ImageOptions).parameters.values())


@_with_shared_options
def train(
    images: Annotated[
        str,
        typer.Argument(
            help="Folder domain/category/*.jpg, a Parquet file or a folder of Parquet files with "
            "columns image, domain and label, or pictures32, which is included."
        ),
    ],
    backbone: Annotated[
        str | None,
        typer.Option(
            help="Fit linear heads on the features of a pretrained network instead: "
            "efficientnet_lite0, timm/NAME or package.module:function."
        ),
    ] = None,
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines",
            help="Also train pooled (shared BatchNorm), FedBN, FedPer, springs and fine-tuned.",
        ),
    ] = False,
    epsilon_by: Annotated[
        str,
        typer.Option(
            metavar="[domain|all]",
            help="Choose the best radius for each domain, or one for all, as in the paper.",
        ),
    ] = "domain",
    seeds: Seeds = 1,
    out: Out = Path("crosslearning-train"),
    **shared: Any,
) -> None:
    """Train one network per image domain, all within a radius of a common centre.

    Radii are chosen by the log loss on validation images, and scored on test images. The defaults,
    a small convolutional network with BatchNorm, images of 64 by 64 pixels and 12 epochs, take
    minutes for a few thousand images. --backbone trains linear heads on frozen features of 224 by
    224 pixels. OUT/models has the networks, and OUT/report.html the report. Under torchrun the
    domains are spread over its processes.
    """
    require("Training networks", "torch")
    from crosslearning.images import TrainingSettings
    from crosslearning.images import train as run

    options, sizes = ImageOptions(**shared), (48, 64) if images == _PICTURES else (64, 224)
    base = TrainingSettings(
        backbone=backbone,
        image_size=sizes[backbone is not None],
        baselines=baselines,
        epsilon_by=epsilon_by,
    )
    sweep(run, options.configure(base, seeds), images, options, out)


@_with_shared_options
def office_home(
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder of Office-Home, or its Parquet files; pictures32, which is included, by "
            "default."
        ),
    ] = None,
    seeds: Seeds = None,
    out: Out = Path("crosslearning-office-home"),
    **shared: Any,
) -> None:
    """Figures 2 to 4: accuracy of cross-learned networks against the radius.

    With --data it runs the paper's configuration, which takes days on a CPU; scale it down with the
    options. Without, it trains a small network with two seeds on the included pictures32, in about
    half an hour of processor time.
    """
    require("Training networks", "torch")
    from crosslearning.paper.office_home import run, shipped_config

    options = ImageOptions(**shared)
    if data is None and not (options.quiet or options.as_json):
        typer.echo(
            "Office-Home is not included, so this trains a small network on pictures32. For the "
            "paper's experiment, pass the folder of Office-Home with --data."
        )
    base = shipped_config("pictures32" if data is None else "paper")
    settings = options.configure(base, seeds)
    sweep(run, settings, _PICTURES if data is None else str(data), options, out)


def sweep(
    train: Callable[..., dict[str, Any]],
    settings: "TrainingSettings",
    images: str,
    options: ImageOptions,
    out: Path,
) -> None:
    """Load images, train, draw, and print."""
    if images == _PICTURES and options.skip_unreadable:
        raise ValueError("--skip-unreadable needs a folder of images. Omit it.")
    from crosslearning import report
    from crosslearning.cli import image_tables
    from crosslearning.nn._ranks import Ranks

    with _connected():
        ranks = Ranks(_mesh(1), 1)
        shown = ranks.is_first and not (options.quiet or options.as_json)
        with ranks.first_alone(), spinner(show=shown) as say:
            data = _load(images, settings.image_size, options.skip_unreadable, say)
        if shown:
            counts = data.counts().sum()
            domains = ", ".join(f"{domain} {counts[domain]:,}" for domain in data.domains)
            typer.echo(f"{len(data):,} images of {len(data.categories)} categories: {domains}")
            image_tables.print_counts(settings, data)
        about = {"name": Path(images).name, "command": shlex.join(["crosslearning", *sys.argv[1:]])}
        with spinner(show=shown) as say, writing(out):
            mesh = _mesh(len(data.domains))
            results = train(
                data, out, settings, progress=lambda now: say(*step(now)), mesh=mesh, **about
            )
    if not ranks.is_first:
        return
    with writing(out):
        report.draw(out)
        report.write(out)
    if options.as_json:
        typer.echo(json.dumps({k: v for k, v in results.items() if k not in _LONG}, indent=2))
    elif shown:
        image_tables.print_results(results, out)


@contextmanager
def _connected() -> Iterator[None]:
    """Connect the processes if torchrun has started several."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        yield
        return
    import torch.distributed as dist

    dist.init_process_group("gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


def _mesh(n_tasks: int) -> "DeviceMesh | None":
    """Use as many ranks for different tasks as possible, and the others to share them."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    if not dist.is_initialized():
        return None
    size = dist.get_world_size()
    apart = max(n for n in range(1, n_tasks + 1) if size % n == 0)
    return init_device_mesh("cpu", (apart, size // apart), mesh_dim_names=("task", "data"))


def _radii(texts: list[str]) -> tuple[tuple[float, ...], dict[str, float | None] | None]:
    """Return the radii to choose from, and the blocks: None for theirs, a radius for others."""
    typed = ", ".join(texts)
    try:
        pairs = [(name, float(radius)) for name, _, radius in (g.rpartition("=") for g in texts)]
    except ValueError:
        raise ValueError(f"--epsilon takes RADIUS or NAME=RADIUS; got {typed}.") from None
    names = [name for name, _ in pairs]
    chosen = "" if "" in names else names[0]
    others: dict[str, float | None] = {name: radius for name, radius in pairs if name != chosen}
    if len(others) + names.count(chosen) < len(names):
        raise ValueError(
            f"Only one block, here {chosen or '*'!r}, may have several radii to choose from; "
            f"got {typed}. Pass one radius for each of the others."
        )
    radii = tuple(radius for name, radius in pairs if name == chosen)
    return radii, {chosen or "*": None, **others} if any(names) else None


def _load(images: str, size: int, skip_unreadable: bool, say: Callable[..., None]) -> "ImageData":
    from crosslearning.datasets import ImageData, load_pictures32
    from crosslearning.images import ImageDomains

    show = partial(say, "Reading images")
    if images == _PICTURES:
        data: ImageData = load_pictures32()
    else:
        data = ImageDomains(images, progress=show, skip_unreadable=skip_unreadable)
    data.pixels(size, progress=show)
    return data


def step(now: dict[str, Any]) -> tuple[str, int, int]:
    """Describe the current step of a sweep, and count the steps that are done, and all."""
    from crosslearning.evaluation.numbers import radius_name

    if "embedded" in now:
        return "Features of images", now["embedded"], now["images"]
    run, runs, epoch, epochs = (now[name] for name in ("run", "runs", "epoch", "epochs"))
    which = f"{now.get('baseline') or 'ε = ' + radius_name(now['epsilon'])}, seed {now['seed']}"
    text = f"Run {run} of {runs} ({which}), epoch {epoch} of {epochs}"
    return text, (run - 1) * epochs + epoch, runs * epochs
