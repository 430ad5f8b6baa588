"""The commands about images: ``train`` and ``reproduce office-home``."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from crosslearning.cli.image_options import ImageOptions, Out, Seeds, with_image_options
from crosslearning.cli.image_sweep import ICONS, require_torch, sweep

__all__ = ["office_home", "train"]


@with_image_options
def train(
    options: ImageOptions,
    images: Annotated[
        str, typer.Argument(help="Folder domain/category/*.jpg, or icons65, which is shipped.")
    ],
    epsilon: Annotated[
        list[float] | None,
        typer.Option(
            "--epsilon",
            help="Radius: 0 pools, inf separates; may be repeated. By default both ends, and 2, 6 "
            "and 20 % of the norm of the network.",
        ),
    ] = None,
    seeds: Seeds = 1,
    out: Out = Path("crosslearning-train"),
) -> None:
    """Train one network per domain of images, none farther than a radius from their centre.

    Validation images choose the radius, test images judge it. By default a small convolutional
    network with BatchNorm, images of 64 by 64 pixels and 12 epochs: minutes for a few thousand
    images. Stopped and started again, it resumes where it was. The networks are saved in
    OUT/models, and OUT/report.html is about them.
    """
    require_torch()
    from crosslearning.images import TrainingSettings
    from crosslearning.images import train as run

    sweep(run, options.configure(TrainingSettings(), epsilon, seeds), images, options, out)


@with_image_options
def office_home(
    options: ImageOptions,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of Office-Home; without it, icons65, which is shipped."),
    ] = None,
    radii: Annotated[
        str | None, typer.Option(help="Radii separated by commas, such as 0,1e-6,inf.")
    ] = None,
    seeds: Seeds = None,
    out: Out = Path("crosslearning-office-home"),
) -> None:
    """Figures 2 to 4: accuracy of cross-learned networks against the radius.

    With --data it runs the paper's configuration, which takes days on a processor; scale it down
    with the options. Without, it runs on icons of the same 65 categories in 4 styles, with a small
    network and one seed: less than 15 minutes on two processors. Stopped and started again, it
    resumes where it was.
    """
    from crosslearning.paper.office_home import run, shipped_config

    if data is None and not options.hidden:
        typer.echo(
            "Office-Home is not shipped: this runs on icons65, with a small network. Give the "
            "folder of Office-Home with --data for the paper's experiment."
        )
    base = shipped_config("icons65" if data is None else "paper")
    settings = options.configure(base, _parse(radii), seeds)
    if settings.model == "alexnet256":
        settings = replace(settings, model="crosslearning.paper:alexnet256")
    sweep(run, settings, ICONS if data is None else str(data), options, out)


def _parse(radii: str | None) -> list[float] | None:
    try:
        return None if radii is None else [float(part) for part in radii.split(",")]
    except ValueError:
        raise ValueError(
            f"`radii` must be numbers separated by commas, such as 0,1e-6,inf; got {radii!r}."
        ) from None
