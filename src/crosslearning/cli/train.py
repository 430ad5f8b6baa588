"""The command ``crosslearning train``: networks for images, one per domain."""

from pathlib import Path
from typing import Annotated, Any

import typer

from crosslearning.cli.image_options import ImageOptions, Out, Seeds, with_image_options
from crosslearning.cli.image_sweep import configure, sweep

__all__ = ["train"]


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
    images. Stopped and started again, it goes on where it was. The networks are saved in
    OUT/models, and OUT/report.html is about them.
    """
    from crosslearning.images.settings import TrainingSettings

    settings = configure(TrainingSettings(), epsilon, seeds, options)
    sweep(_train, settings, images, options, out)


def _train(*arguments: Any, **options: Any) -> dict[str, Any]:
    from crosslearning.images import train

    return train(*arguments, **options)
