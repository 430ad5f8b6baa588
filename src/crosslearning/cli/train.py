"""The command ``crosslearning train``: networks for images, one per domain."""

from pathlib import Path
from typing import Annotated

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
            "--epsilon", help="Radius: 0 pools, inf separates; may be repeated. By default several."
        ),
    ] = None,
    seeds: Seeds = 1,
    out: Out = Path("crosslearning-train"),
) -> None:
    """Train one network per domain of images, none farther than a radius from their centre.

    Stopped and started again, it goes on where it was. The networks are saved in OUT/models.
    """
    config = configure(images, tuple(epsilon) if epsilon else None, seeds, options)
    sweep(config, images, options, out, name=Path(images).name, keep_models=True)
